package resilient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A partner that hangs under ten times its load costs the others nothing, and
// this process no more than its permits and its queue.
func TestIsolation(t *testing.T) {
	inBoth(t, setting{}, func(sber *rig) {
		insurer := sber.server
		other, err := sber.reg.NewClient("insurer", sber.State().Config, resilient.WithDialContext(insurer.Dial), resilient.WithTLSConfig(tlsOf(sber)))
		if err != nil {
			sber.Fatal(err)
		}
		defer other.Close()
		insurer.On("/policy", testserver.After(20*time.Millisecond, testserver.OK("ok")))
		policy := func() time.Duration {
			return took(func() {
				resp, err := other.HTTPClient().Get(insurer.URL() + "/policy")
				if err != nil {
					sber.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			})
		}
		if d := policy(); d != 20*time.Millisecond {
			sber.Errorf("before: %v", d)
		}
		sber.server.Default(testserver.HangBeforeHeaders())
		var callers, refusedAtOnce atomic.Int64
		call := func() {
			callers.Add(1)
			defer callers.Add(-1)
			start := time.Now()
			if _, err := sber.get(context.Background()); errors.Is(err, resilient.ErrUnavailable) && time.Since(start) == 0 {
				refusedAtOnce.Add(1)
			}
		}
		for range 2000 {
			go call()
		}
		synctest.Wait()
		if n := callers.Load(); n != 16+160 {
			sber.Errorf("%d callers inside, of 16 permits and a queue of 160", n)
		}
		if n := refusedAtOnce.Load(); n != 2000-176 {
			sber.Errorf("%d refused at once", n)
		}
		// 11 s: through the timeouts, the opening and the open breaker. Permits that the first
		// timeouts give back go to those who wait, until the last of the 16 opens it: up to 10 s.
		for range 550 {
			for range 10 {
				go call()
			}
			if d := policy(); d != 20*time.Millisecond {
				sber.Fatalf("during: %v", d)
			}
		}
		sber.breaker("open")
		if n := sber.State().Bulkhead; n.Active != 0 || n.Waiting != 0 {
			sber.Errorf("%+v", n)
		}
		if s := other.State(); s.Breaker.State != "closed" || s.Bulkhead.Rejected != 0 {
			sber.Errorf("%+v", s)
		}
	})
}

// 20 connections, 16 permits: the 17th is refused within the acquire timeout,
// and the server never sees more than 16, slow bodies included.
func TestPermitsCoverBodies(t *testing.T) {
	for name, slow := range map[string]http.Handler{
		"slow headers": testserver.After(time.Second, testserver.OK("ok")),
		"slow bodies":  testserver.Trickle(10, 100*time.Millisecond, 10),
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{server: testserver.Options{Handler: slow}}, func(r *rig) {
				var full atomic.Int64
				for range 50 {
					for range 20 {
						go func() {
							d := took(func() {
								if _, err := r.get(r.Context()); errors.Is(err, resilient.ErrBulkheadFull) {
									full.Add(1)
								} else if err != nil {
									r.Error(err)
								}
							})
							if d > 1100*time.Millisecond {
								r.Errorf("took %v", d)
							}
						}()
					}
					time.Sleep(300 * time.Millisecond)
				}
				time.Sleep(2 * time.Second)
				s := r.server.Stats()
				if s.MaxConcurrent != 16 || s.MaxOpenConns > 20 || full.Load() == 0 {
					r.Errorf("%d at once, %d connections, %d refused", s.MaxConcurrent, s.MaxOpenConns, full.Load())
				}
				if n := r.State().Bulkhead.RejectedWaited; int64(n) != full.Load() {
					r.Errorf("%d refused, counted %d", full.Load(), n)
				}
			})
		})
	}
}

// WithStreams lifts what an SDK can't lift itself.
func TestStreams(t *testing.T) {
	watch := func(q *http.Request) bool { return q.URL.Path == "/watch" }
	inBoth(t, setting{opts: []resilient.Option{resilient.WithStreams(watch)}}, func(r *rig) {
		r.server.Default(testserver.Trickle(1, 20*time.Second, 10))
		req := r.request(r.Context(), "GET", nil)
		req.URL.Path = "/watch"
		resp, err := r.Do(req)
		if err != nil {
			r.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); len(b) != 10 || err != nil {
			r.Errorf("%q, %v", b, err)
		}
		_, err = r.get(r.Context())
		r.timeout(err, "read")
	})
}
