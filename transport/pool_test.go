package transport_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// onSockets runs f over real sockets, in every protocol.
func onSockets(t *testing.T, cfg config.Config, f func(r *rig)) {
	t.Helper()
	cfg.ConnectTimeout, cfg.ReadTimeout, cfg.TotalTimeout = 10*sec, 30*sec, time.Minute // a busy machine takes its time
	for _, p := range []testserver.Protocol{testserver.HTTP1, testserver.HTTPS, testserver.HTTP2} {
		t.Run(p.String(), func(t *testing.T) { f(newRig(t, testserver.Options{Protocol: p}, cfg)) })
	}
}

// Bodies read to their end keep their connection, closed or not (X-02, C-09, P-04).
func TestKeepAlive(t *testing.T) {
	onSockets(t, config.Config{}, func(r *rig) {
		for i := range 20 {
			resp, err := r.all().RoundTrip(r.request(r.Context(), []string{"GET", "HEAD"}[i%2], nil))
			if err != nil {
				r.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if i%3 == 0 {
				resp.Body.Close()
			}
		}
		if n := r.server.Stats().Conns; n != 1 {
			r.Errorf("%d connections", n)
		}
	})
}

// Bursts of 100 over 100 connections, 1,600 requests: what is dialled is kept.
func TestBursts(t *testing.T) {
	cfg := config.Config{
		MaxConnsPerHost: 125, Bulkhead: config.Bulkhead{MaxConcurrent: 100},
		ConnectTimeout: 10 * sec, ReadTimeout: 30 * sec, TotalTimeout: time.Minute, // a busy machine takes its time
	}
	for _, p := range []testserver.Protocol{testserver.HTTP1} {
		t.Run(p.String(), func(t *testing.T) {
			r := newRig(t, testserver.Options{Protocol: p}, cfg)
			var dials atomic.Int64
			d := &transport.Dialer{Timeout: r.cfg.ConnectTimeout, Dial: r.server.Dial, Opened: func() { dials.Add(1) }}
			r.own.DialContext = d.DialContext
			together := make(chan struct{})
			var there atomic.Int64
			r.server.Default(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if there.Add(1) == 100 {
					close(together) // all of a burst are there, so each has a connection
				}
				select {
				case <-together:
				case <-req.Context().Done():
				}
				_, _ = io.WriteString(w, "ok")
			}))
			for range 16 {
				together, there = make(chan struct{}), atomic.Int64{}
				var all sync.WaitGroup
				for range 100 {
					all.Go(func() {
						if err := get(r, r.all()); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
			}
			s := r.server.Stats()
			t.Logf("%d dials for %d requests, at most %d connections", dials.Load(), s.Requests, s.MaxOpenConns)
			if dials.Load() > 105 || s.Requests != 1600 {
				t.Errorf("%d dials", dials.Load())
			}
		})
	}
}

// Over HTTP/1.1 never more connections than MaxConnsPerHost, whatever breaks.
func TestMaxConnsPerHost(t *testing.T) {
	cfg := config.Config{
		MaxConnsPerHost: 5, Bulkhead: config.Bulkhead{AcquireTimeout: sec, MaxWaiting: 1000},
		Breaker: config.Breaker{MinRequests: 1e6, ConsecutiveFailures: config.Off},
	}
	inBoth(t, cfg, func(r *rig) {
		r.server.Default(testserver.Flap(
			testserver.Phase{For: 100 * ms, Do: testserver.OK("ok")},
			testserver.Phase{For: 100 * ms, Do: testserver.Abort()},
			testserver.Phase{For: 100 * ms, Do: testserver.CutInBody(1, 9)},
			testserver.Phase{For: 100 * ms, Do: testserver.After(10*ms, testserver.OK("ok"))},
		))
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				for n := range 50 {
					if n%5 == 0 {
						_ = part(0, 0)(r, r.all())
					} else {
						_ = within(time.Duration(5+i)*ms)(r, r.all())
					}
					time.Sleep(time.Duration(i) * ms)
				}
			})
		}
		all.Wait()
		time.Sleep(sec)
		s := r.server.Stats()
		r.Logf("at most %d connections, %d requests at once, %d in all", s.MaxOpenConns, s.MaxConcurrent, s.Requests)
		if !r.own.Protocols.HTTP2() && s.MaxOpenConns > 7 { // 5, and those whose close the server has yet to notice
			r.Errorf("%d connections", s.MaxOpenConns)
		}
	})
}

// Close of a large body neither drains it nor hangs.
func TestCloseDoesNotDrain(t *testing.T) {
	onSockets(t, config.Config{}, func(r *rig) {
		r.server.Default(testserver.Trickle(32<<10, 0, -1))
		for range 3 {
			if d := took(func() { _ = part(1, 0)(r, r.all()) }); d > 20*sec {
				r.Errorf("took %v", d)
			}
			r.held(0)
		}
	})
}

// The server answers before it has read the upload: nobody touches it after (C-12).
func TestEarlyAnswer(t *testing.T) {
	onSockets(t, config.Config{}, func(r *rig) {
		r.server.Default(testserver.EarlyAnswer(502))
		for range 4 {
			resp, err := r.all().RoundTrip(r.request(r.Context(), "POST", hidden(strings.Repeat("x", 1<<20))()))
			if err != nil {
				continue // net/http may see the broken upload first
			}
			_, _ = read(resp, nil)
			if resp.StatusCode != 502 {
				r.Error(resp.Status)
			}
			r.held(0)
		}
	})
}

// Expect: 100-continue: the body is not sent before the word, and a 417 is no failure (C-13).
func TestExpectContinue(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		r.server.Default(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { w.WriteHeader(417) }))
		taken := 0
		body := &closedBody{Reader: readFunc(func(p []byte) (int, error) { taken++; return 0, io.EOF })}
		var code int
		got := r.verdict(func() {
			req := r.request(r.Context(), "PUT", body)
			req.ContentLength = -1
			req.Header.Set("Expect", "100-continue")
			resp, err := r.all().RoundTrip(req)
			if _, err := read(resp, err); err != nil {
				r.Fatal(err)
			}
			code = resp.StatusCode
		})
		if code != 417 || got != success || taken != 0 || body.closed == 0 {
			r.Errorf("%d, %s, read %d times, closed %d times", code, got, taken, body.closed)
		}
	})
}
