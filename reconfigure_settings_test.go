package resilient_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// More permits go at once to those who wait, and each finds a connection, also where there were too few of them before.
func TestReconfigureGrows(t *testing.T) {
	cfg := permits(2)
	cfg.Bulkhead.AcquireTimeout = time.Second
	inBoth(t, setting{cfg: cfg}, func(r *rig) {
		r.server.Default(testserver.After(4*time.Second, testserver.OK("ok")))
		end := r.mustSend(8, "/")
		r.waiting(2, 6)
		time.Sleep(500 * time.Millisecond)
		r.change(func(cfg *resilient.Config) { cfg.MaxConnsPerHost, cfg.Bulkhead.MaxConcurrent = 20, 8 })
		synctest.Wait()
		r.waiting(8, 0)
		if n := r.server.Stats().Concurrent; n != 8 {
			r.Errorf("%d at the server, want 8", n)
		}
		if m := r.metrics(); m["semaphore_max_concurrent"] != 8 || m["semaphore_active"] != 8 {
			r.Errorf("%v of %v", m["semaphore_active"], m["semaphore_max_concurrent"])
		}
		if d := took(end); d != 4*time.Second {
			r.Errorf("after %v", d)
		}
		r.breaker("closed")
	})
}

func (r *rig) waiting(active, waiting int) {
	r.Helper()
	if s := r.State().Bulkhead; s.Active != active || s.Waiting != waiting {
		r.Errorf("%d permits out, %d waiting, want %d and %d", s.Active, s.Waiting, active, waiting)
	}
}

// Fewer permits throw nobody out and let nobody in until fewer are out; those who wait go on waiting.
func TestReconfigureShrinks(t *testing.T) {
	cfg := permits(4)
	cfg.Bulkhead.AcquireTimeout = time.Second
	inBoth(t, setting{cfg: cfg}, func(r *rig) {
		r.server.On("/1", testserver.After(1*time.Second, testserver.OK("ok")))
		r.server.On("/2", testserver.After(2*time.Second, testserver.OK("ok")))
		ends := []func(){r.mustSend(3, "/1"), r.mustSend(1, "/2")}
		time.Sleep(500 * time.Millisecond)
		ends = append(ends, r.mustSend(3, "/1"))
		r.waiting(4, 3)
		r.change(func(cfg *resilient.Config) { cfg.Bulkhead.MaxConcurrent, cfg.Bulkhead.MaxWaiting = 2, 1 })
		r.waiting(4, 3)
		if d := took(func() {
			_, err := r.get(r.Context())
			if e, ok := errors.AsType[*resilient.FullError](err); !ok || e.Max != 2 || e.Active != 4 || e.Waiting != 3 {
				r.Error(err)
			}
		}); d != 0 {
			r.Errorf("refused after %v, and the queue is full", d)
		}
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		r.waiting(2, 2) // three have ended, of which one permit is to be had
		if m := r.metrics(); m["semaphore_max_concurrent"] != 2 {
			r.Error(m["semaphore_max_concurrent"])
		}
		time.Sleep(500*time.Millisecond - 1)
		r.change(func(cfg *resilient.Config) { cfg.Bulkhead.MaxConcurrent = 4 }) // in time for the last two
		synctest.Wait()
		r.waiting(4, 0)
		for _, end := range ends {
			end()
		}
		if n := r.server.Stats().MaxConcurrent; n > 4 {
			r.Errorf("%d at the server", n)
		}
	})
}

// Wait and queue are those in force when somebody comes; an execution's are the same.
func TestReconfigureQueue(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		r.server.Default(testserver.After(4*time.Second, testserver.OK("ok")))
		end := r.mustSend(1, "/")
		refused := func(after time.Duration) {
			r.Helper()
			for name, f := range map[string]func() error{
				"request": func() error { _, err := r.get(r.Context()); return err },
				"execution": func() error {
					_, err := resilient.Execute(r.Context(), r.Client, func(context.Context) (int, error) { return 0, nil })
					return err
				},
			} {
				if d := took(func() { r.is(f(), resilient.ErrBulkheadFull) }); d != after {
					r.Errorf("%s: refused after %v, want %v", name, d, after)
				}
			}
		}
		refused(100 * time.Millisecond)
		r.change(func(cfg *resilient.Config) { cfg.Bulkhead.AcquireTimeout = 300 * time.Millisecond })
		refused(300 * time.Millisecond)
		r.change(func(cfg *resilient.Config) { cfg.Bulkhead.AcquireTimeout = resilient.NoWait })
		refused(0)
		r.change(func(cfg *resilient.Config) {
			cfg.Bulkhead.AcquireTimeout, cfg.Bulkhead.MaxWaiting = time.Second, resilient.NoQueue
		})
		refused(0)
		r.change(func(cfg *resilient.Config) { cfg.Bulkhead.MaxWaiting = 1 })
		refused(time.Second)
		end()
	})
}

// Bounds, their phases and what an abandoned body is are those in force when an exchange begins, or ends.
func TestReconfigureBounds(t *testing.T) {
	inBoth(t, setting{cfg: permits(4)}, func(r *rig) {
		r.change(func(cfg *resilient.Config) { *cfg = bounds(100*time.Millisecond, time.Second, 2*time.Second, *cfg) })
		r.server.Default(testserver.HangBeforeHeaders())
		if d := took(func() { _, err := r.get(r.Context()); r.timeout(err, "read") }); d != time.Second {
			r.Errorf("read: after %v", d)
		}
		r.server.Default(testserver.Trickle(1, 500*time.Millisecond, -1))
		if d := took(func() { _, err := r.get(r.Context()); r.timeout(err, "total") }); d != 2*time.Second {
			r.Errorf("total: after %v", d)
		}
		if d := took(func() {
			resilient.Execute(r.Context(), r.Client, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		}); d != 2*time.Second {
			r.Errorf("execution: after %v", d)
		}
		wrapped := r.over(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		r.change(func(cfg *resilient.Config) { *cfg = bounds(100*time.Millisecond, 3*time.Second, 4*time.Second, *cfg) })
		if d := took(func() { _, err := wrapped.RoundTrip(r.request(r.Context(), "GET", nil)); r.timeout(err, "read") }); d != 3*time.Second {
			r.Errorf("over another base: after %v", d)
		}
		r.change(func(cfg *resilient.Config) { *cfg = bounds(100*time.Millisecond, time.Second, 2*time.Second, *cfg) })
		r.server.Default(testserver.StallInBody(3))
		resp := r.send(r.Context(), "/")
		resp.Body.Read(make([]byte, 3))
		time.Sleep(2*time.Second + time.Millisecond)
		r.outcomes(map[string]float64{"timeout": 3, "abandoned": 1}) // idle for two seconds, and the ReadTimeout is one
	})
}

// A failure status is one to the breaker and to the metrics from then on.
func TestReconfigureStatuses(t *testing.T) {
	inBoth(t, setting{cfg: trips(2, permits(4))}, func(r *rig) {
		r.server.Default(testserver.Status(404))
		r.get(r.Context())
		r.change(func(cfg *resilient.Config) { cfg.Breaker.FailureStatus = "404" })
		r.get(r.Context())
		r.breaker("closed")
		r.get(r.Context())
		r.breaker("open")
		r.outcomes(map[string]float64{"success": 1, "error_status": 2})
	})
}

// The breaker's rules are taken over in place, its times with a new window.
func TestReconfigureBreaker(t *testing.T) {
	inBoth(t, setting{cfg: trips(5, permits(4))}, func(r *rig) {
		r.server.Default(testserver.Status(500))
		r.get(r.Context())
		r.get(r.Context())
		r.change(func(cfg *resilient.Config) { cfg.Breaker.ConsecutiveFailures = 3 })
		r.get(r.Context())
		r.breaker("open")
		time.Sleep(30*time.Second + 1)
		r.works()
		r.breaker("closed")
		r.change(func(cfg *resilient.Config) { cfg.Breaker.OpenFor, cfg.Breaker.HalfOpenProbes = 5*time.Second, 2 })
		r.trip()
		time.Sleep(5*time.Second + 1)
		r.works()
		r.breaker("half_open")
		r.works()
		r.breaker("closed")
	})
}
