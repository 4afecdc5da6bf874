package resilient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A breaker that is forced open refuses executions, without waiting for a permit; what is inside goes on.
func TestExecuteForcedOpen(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		err := r.execute(r.Context(), func(ctx context.Context) error {
			r.ForceOpen(time.Minute)
			err := r.execute(r.Context(), func(context.Context) error { r.Error("called"); return nil })
			if e, ok := errors.AsType[*resilient.OpenError](err); !ok || !e.Forced || e.RetryAfter != time.Minute {
				r.Error(err)
			}
			r.tells(err, told{is: []error{resilient.ErrUnavailable, resilient.ErrCircuitOpen}, notSent: true, status: 503})
			if err := r.fetch(ctx, "/"); err != nil {
				r.Error(err)
			}
			return r.execute(ctx, func(ctx context.Context) error { return r.fetch(ctx, "/") })
		})
		if err != nil {
			r.Error(err)
		}
		time.Sleep(time.Minute)
		if err := r.execute(r.Context(), func(context.Context) error { return nil }); err != nil {
			r.Error(err)
		}
		r.executed(map[string]float64{"success": 3, "refused_open": 1})
	})
}

// One that is forced closed admits them, and hears nothing of them; the bulkhead stays.
func TestExecuteForcedClosed(t *testing.T) {
	inBoth(t, setting{cfg: trips(1, permits(1))}, func(r *rig) {
		r.ForceClosed(0)
		for range 3 {
			err := r.execute(r.Context(), func(ctx context.Context) error {
				r.is(r.execute(r.Context(), func(context.Context) error { r.Error("called"); return nil }), resilient.ErrBulkheadFull)
				return errBoom
			})
			r.is(err, errBoom)
		}
		r.Automatic()
		r.breaker("closed")
		r.execute(r.Context(), func(context.Context) error { r.ForceClosed(0); return errBoom }) // was admitted before: reports
		r.Automatic()
		r.breaker("open")
		r.ForceClosed(0)
		r.execute(r.Context(), func(context.Context) error { r.Automatic(); return nil })
		r.breaker("open")
	})
}

// A caller may go just as an observed request is let in beside another.
func TestExecuteObservedAndCancelled(t *testing.T) {
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		streams := resilient.WithStreams(func(req *http.Request) bool {
			if req.URL.Path == "/second" {
				cancel()
				runtime.Gosched()
			}
			return false
		})
		inOne(t, setting{opts: []resilient.Option{resilient.Observe(), streams}}, func(r *rig) {
			r.execute(ctx, func(ctx context.Context) error {
				resp := r.send(ctx, "/first")
				defer resp.Body.Close()
				return r.fetch(ctx, "/second")
			})
			r.breaker("closed")
		})
	}
}

// A client that observes refuses no execution, and counts the whole of one once.
func TestExecuteObserved(t *testing.T) {
	inBoth(t, setting{cfg: trips(2, permits(1)), opts: []resilient.Option{resilient.Observe()}}, func(r *rig) {
		count := func(full, open float64) {
			r.Helper()
			m := r.metrics()
			if m["would_refuse_total full"] != full || m["would_refuse_total open"] != open {
				r.Errorf("%v full, %v open; want %v, %v", m["would_refuse_total full"], m["would_refuse_total open"], full, open)
			}
		}
		r.server.On("/fails", testserver.Status(500))
		work := func(ctx context.Context) error {
			for range 2 {
				if err := r.fetch(ctx, "/"); err != nil {
					r.Error(err)
				}
			}
			return r.execute(ctx, func(ctx context.Context) error { return r.fetch(ctx, "/") })
		}
		err := r.execute(r.Context(), func(ctx context.Context) error {
			r.inside(1, 0, 1)
			count(0, 0)
			if d := took(func() {
				if err := r.execute(r.Context(), work); err != nil { // without a permit, and without a wait
					r.Error(err)
				}
			}); d != 0 {
				r.Errorf("after %v", d)
			}
			count(1, 0)
			r.inside(1, 0, 1)
			resp := r.send(ctx, "/")
			if err := r.fetch(ctx, "/"); err != nil { // beside it
				r.Error(err)
			}
			count(2, 0)
			io.Copy(io.Discard, resp.Body)
			return work(ctx)
		})
		if err != nil {
			r.Error(err)
		}
		r.inside(0, 0, 0)
		count(2, 0)
		fail := func(context.Context) error { return errBoom }
		r.execute(r.Context(), func(ctx context.Context) error {
			for range 3 {
				r.execute(r.Context(), fail) // would be refused: says nothing
			}
			return nil
		})
		count(5, 0)
		r.breaker("closed")
		r.execute(r.Context(), fail)
		r.execute(r.Context(), func(ctx context.Context) error { return r.fetch(ctx, "/fails") })
		r.breaker("open")
		if err := r.execute(r.Context(), work); err != nil {
			r.Error(err)
		}
		count(5, 1)
		r.breaker("open")
		var resp io.Closer
		r.execute(r.Context(), func(ctx context.Context) error { resp = r.send(ctx, "/").Body; return nil })
		count(5, 2)
		r.inside(0, 1, 1)
		resp.Close()
		time.Sleep(30*time.Second + 1)
		r.execute(r.Context(), func(ctx context.Context) error { r.inside(1, 0, 1); return work(ctx) })
		r.breaker("closed")
		count(5, 2)
		r.Close()
		r.is(r.execute(r.Context(), func(context.Context) error { r.Error("called"); return nil }), resilient.ErrClosed)
	})
}
