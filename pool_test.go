package resilient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// swap has r get another pool.
func (r *rig) swap() {
	r.Helper()
	r.change(func(cfg *resilient.Config) { cfg.IdleConnTimeout++ })
}

// conns checks how many connections the server has open, once HTTP/2 has closed what is idle.
func (r *rig) conns(want int) {
	r.Helper()
	time.Sleep(time.Second + time.Millisecond)
	synctest.Wait()
	if n := r.server.Stats().OpenConns; n != want {
		r.Errorf("%d connections open, want %d", n, want)
	}
}

// Settings of the connections need another pool, the others do not.
func TestWhatSwapsThePool(t *testing.T) {
	var log bytes.Buffer
	for field, row := range map[string]struct {
		change func(cfg *resilient.Config)
		swaps  func(http2 bool) bool
	}{
		"MaxConnsPerHost":        {func(cfg *resilient.Config) { cfg.MaxConnsPerHost++ }, always},
		"MaxIdleConnsPerHost":    {func(cfg *resilient.Config) { cfg.MaxIdleConnsPerHost-- }, always},
		"IdleConnTimeout":        {func(cfg *resilient.Config) { cfg.IdleConnTimeout++ }, always},
		"MaxResponseHeaderBytes": {func(cfg *resilient.Config) { cfg.MaxResponseHeaderBytes++ }, always},
		"MaxResponseBytes":       {func(cfg *resilient.Config) { cfg.MaxResponseBytes = 1 << 20 }, never},
		"ConnectTimeout":         {func(cfg *resilient.Config) { cfg.ConnectTimeout-- }, always},
		"ReadTimeout":            {func(cfg *resilient.Config) { cfg.ReadTimeout-- }, func(http2 bool) bool { return http2 }}, // it bounds the pings
		"TotalTimeout":           {func(cfg *resilient.Config) { cfg.TotalTimeout++ }, never},
		"Bulkhead": {func(cfg *resilient.Config) {
			cfg.Bulkhead = resilient.BulkheadConfig{MaxConcurrent: 3, AcquireTimeout: 1, MaxWaiting: 1}
		}, never},
		"Breaker": {func(cfg *resilient.Config) {
			cfg.Breaker = resilient.BreakerConfig{Window: time.Hour, MinRequests: 1, FailureRatio: 1, ConsecutiveFailures: 1,
				OpenFor: 1, HalfOpenProbes: 1, SlowCall: 1, FailureStatus: "500"}
		}, never},
	} {
		inBoth(t, setting{opts: []resilient.Option{textLog(&log)}}, func(r *rig) {
			r.works()
			want := row.swaps(r.State().Config.Protocol == resilient.HTTP2)
			said := logged(&log, func() { r.change(row.change) })
			r.conns(map[bool]int{true: 0, false: 1}[want])
			if got := strings.Contains(said, "new_pool=true"); got != want {
				r.Errorf("%s: %s", field, said)
			}
			r.works()
			r.conns(1)
			if m := r.metrics()["connections_opened_total"]; m != float64(r.server.Stats().Conns) {
				r.Errorf("%s: %v connections counted", field, m)
			}
		})
	}
}

func always(bool) bool { return true }
func never(bool) bool  { return false }

// A reload leaves nothing of the old pool behind: no connection, no goroutine (L-01).
func TestCase_L01_Reload(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.server.On("/slow", testserver.After(time.Second, testserver.OK("ok")))
		r.works()
		r.conns(1)
		before := runtime.NumGoroutine()
		for range 20 {
			r.swap()
			r.works()
			r.mustSend(4, "/slow")()
		}
		r.CloseIdleConnections()
		r.works()
		r.conns(1)
		if n := runtime.NumGoroutine(); n > before+2 {
			r.Errorf("%d goroutines, %d before", n, before)
		}
		r.swap()
		r.conns(0) // without another request
	})
}

// What is under way goes on over the old pool to its end, however it ends; then its connection is closed, as those that are idle are at once.
func TestSwapUnderWay(t *testing.T) {
	read := func(_ *rig, resp *http.Response) error {
		_, err := io.Copy(io.Discard, resp.Body)
		return err
	}
	for name, row := range map[string]struct {
		server http.Handler
		do     func(r *rig, resp *http.Response) error // in a goroutine
		after  time.Duration
		failed bool
	}{
		"in the round trip": {testserver.After(3*time.Second, testserver.OK("ok")), read, 3 * time.Second, false},
		"in the body":       {testserver.Trickle(1, time.Second, 3), read, 3 * time.Second, false},
		"closed early": {testserver.Trickle(1, time.Second, -1), func(_ *rig, resp *http.Response) error {
			time.Sleep(3 * time.Second)
			return resp.Body.Close()
		}, 3 * time.Second, false},
		"forgotten": {testserver.StallInBody(1), func(*rig, *http.Response) error { return nil }, 7 * time.Second, false},
		"stalled":   {testserver.StallInBody(1), read, 5 * time.Second, true},
		"hung":      {testserver.HangBeforeHeaders(), read, 5 * time.Second, true},
		"cut":       {testserver.After(3*time.Second, testserver.CutInBody(1, 9)), read, 3 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{}, func(r *rig) {
				r.server.Default(testserver.After(time.Millisecond, testserver.OK("ok")))
				r.mustSend(2, "/")() // over HTTP/1 two connections, of which one is idle then
				r.server.On("/x", row.server)
				done := make(chan error, 1)
				go func() {
					resp, err := r.RoundTrip(r.to(context.Background(), "/x"))
					if err == nil {
						err = row.do(r, resp)
					}
					done <- err
				}()
				time.Sleep(time.Millisecond)
				r.swap()
				r.works()
				r.conns(2)
				time.Sleep(row.after - time.Second - 3*time.Millisecond) // just before its end
				r.connsNow(2)
				time.Sleep(2 * time.Millisecond)
				r.conns(1)
				if err := <-done; (err != nil) != row.failed {
					r.Error(err)
				}
				r.works()
				r.conns(1)
			})
		})
	}
}

// connsNow is conns at this very moment.
func (r *rig) connsNow(want int) {
	r.Helper()
	synctest.Wait()
	if n := r.server.Stats().OpenConns; n != want {
		r.Errorf("%d connections open, want %d", n, want)
	}
}

// An upgraded connection stays in the pool it came from, which is closed with it, however many have come since.
func TestSwapUnderAnUpgrade(t *testing.T) {
	inOne(t, setting{}, func(r *rig) {
		r.server.Default(testserver.Upgrade())
		resp, err := r.RoundTrip(r.upgrade(r.Context()))
		if err != nil {
			r.Fatal(err)
		}
		echo := func() {
			r.Helper()
			rw := resp.Body.(io.ReadWriter)
			rw.Write([]byte("ping"))
			if b := make([]byte, 4); true {
				if _, err := io.ReadFull(rw, b); err != nil || string(b) != "ping" {
					r.Errorf("%q, %v", b, err)
				}
			}
		}
		echo()
		r.works()
		for range 3 {
			r.swap()
			r.works()
			r.conns(2) // the upgraded one, and one of the pool in use
		}
		time.Sleep(time.Hour)
		echo()
		r.held(1)
		r.conns(1)
		resp.Body.Close()
		r.held(0)
		r.conns(0)
	})
}

// Connections that were still being made when the last exchange of their pool ended are not kept, not even those of a dial
// that does not heed its context.
func TestSwapUnderADial(t *testing.T) {
	cfg := bounds(4*time.Second, 5*time.Second, 13*time.Second, permits(4))
	for _, wait := range []time.Duration{500 * time.Millisecond, 3 * time.Second} {
		for _, heeds := range []bool{true, false} {
			var server *testserver.Server
			var slow atomic.Bool
			var dials atomic.Int64
			dial := resilient.WithDialContext(func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials.Add(1)
				if slow.Load() {
					time.Sleep(wait)
				}
				if !heeds {
					ctx = context.WithoutCancel(ctx)
				}
				return server.Dial(ctx, network, addr)
			})
			inBoth(t, setting{cfg: cfg, opts: []resilient.Option{dial}}, func(r *rig) {
				server = r.server
				slow.Store(true)
				dials.Store(0)
				ctx, cancel := context.WithTimeout(r.Context(), 10*time.Millisecond)
				defer cancel()
				if _, err := r.get(ctx); !errors.Is(err, context.DeadlineExceeded) {
					r.Error(err)
				}
				slow.Store(false)
				r.swap()
				r.works()
				r.connsNow(1)
				time.Sleep(wait)
				r.conns(1)
				if n := dials.Load(); n != 2 {
					r.Errorf("%d dials, want 2", n)
				}
			})
		}
	}
}
