package resilient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// execute is Execute for a func that has no result.
func (r *rig) execute(ctx context.Context, fn func(ctx context.Context) error) error {
	return r.call(ctx, resilient.Call[string]{}, fn)
}

// call is the call's Do for a func that has no result.
func (r *rig) call(ctx context.Context, call resilient.Call[string], fn func(ctx context.Context) error) error {
	_, err := call.Do(ctx, r.Client, func(ctx context.Context) (string, error) { return "", fn(ctx) })
	return err
}

// fetch does a GET for a path and reads the body to its end.
func (r *rig) fetch(ctx context.Context, path string) error {
	r.Helper()
	resp, err := r.RoundTrip(r.to(ctx, path))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// inside checks how many permits are out, and how many exchanges and executions are under way.
func (r *rig) inside(permits, exchanges, executions int) {
	r.Helper()
	if s := r.State(); s.Bulkhead.Active != permits || s.InFlight != exchanges || s.Executions != executions {
		r.Errorf("%d permits out, %d exchanges, %d executions; want %d, %d, %d",
			s.Bulkhead.Active, s.InFlight, s.Executions, permits, exchanges, executions)
	}
}

// Requests one after the other share the one permit, retries and redirects included, from the first to after the last.
func TestExecuteHasOnePermit(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		r.server.On("/moved", testserver.Status(302, "Location", "/"))
		r.server.On("/fails", testserver.Burst(2, 503, testserver.OK("ok")))
		result, err := resilient.Execute(r.Context(), r.Client, func(ctx context.Context) (string, error) {
			r.inside(1, 0, 1)
			for range 3 {
				resp := r.send(ctx, "/")
				r.inside(1, 1, 1)
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				r.inside(1, 0, 1)
			}
			resp, err := r.Do(r.to(ctx, "/moved"))
			if err != nil || resp.StatusCode != 200 {
				r.Error(resp, err)
			}
			resp.Body.Close()
			for range 3 { // a retry with a pause
				resp := r.send(ctx, "/fails")
				resp.Body.Close()
				time.Sleep(10 * time.Millisecond)
				r.inside(1, 0, 1)
			}
			return "result", nil
		})
		if result != "result" || err != nil {
			r.Error(result, err)
		}
		r.inside(0, 0, 0)
		if s := r.server.Stats(); s.Requests != 8 || s.MaxConcurrent != 1 {
			r.Errorf("%+v", s)
		}
	})
}

// A second request at the same moment is one like any other: it takes a permit of its own, waits for it, is refused.
func TestExecuteInParallel(t *testing.T) {
	inBoth(t, setting{cfg: permits(2), server: testserver.Options{Handler: testserver.After(time.Second, testserver.OK("ok"))}}, func(r *rig) {
		err := r.execute(r.Context(), func(ctx context.Context) error {
			var wg sync.WaitGroup
			errs := make([]error, 3)
			for i := range errs {
				wg.Go(func() { errs[i] = r.fetch(ctx, "/") })
				synctest.Wait()
			}
			r.inside(2, 3, 1) // one of them waits
			wg.Wait()
			if errs[0] != nil || errs[1] != nil {
				r.Error(errs)
			}
			r.is(errs[2], resilient.ErrBulkheadFull)
			r.inside(1, 0, 1)
			if d := took(func() {
				wg.Go(func() { r.fetch(ctx, "/") })
				time.Sleep(950 * time.Millisecond)
				wg.Go(func() { r.fetch(r.Context(), "/") })
				time.Sleep(10 * time.Millisecond)
				wg.Go(func() { // waits for the permit of its like, not for the func's
					if err := r.fetch(ctx, "/"); !errors.Is(err, resilient.ErrBulkheadFull) {
						r.Error(err)
					}
				})
				wg.Wait()
			}); d != 1950*time.Millisecond {
				r.Errorf("after %v", d)
			}
			return nil
		})
		if err != nil {
			r.Error(err)
		}
		r.outcomes(map[string]float64{"success": 4, "refused_full": 2})
	})
}

// However the methods of an adapter fan out, there are no more exchanges than permits.
func TestExecuteFansOut(t *testing.T) {
	inBoth(t, setting{server: testserver.Options{Handler: testserver.After(time.Second, testserver.OK("ok"))}}, func(r *rig) {
		var full, ok atomic.Int64
		method := func(ctx context.Context) error {
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					if err := r.fetch(ctx, "/"); errors.Is(err, resilient.ErrBulkheadFull) {
						full.Add(1)
					} else if err == nil {
						ok.Add(1)
					} else {
						r.Error(err)
					}
					if n := r.State().Bulkhead.Active; n > 16 {
						r.Errorf("%d permits out", n)
					}
				})
			}
			wg.Wait()
			return nil
		}
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 5 {
					for errors.Is(r.execute(r.Context(), method), resilient.ErrBulkheadFull) {
						time.Sleep(50 * time.Millisecond)
					}
				}
			})
		}
		wg.Wait()
		if n := r.server.Stats().MaxConcurrent; n != 16 || full.Load() == 0 || ok.Load() < 80 {
			r.Errorf("%d at the server; %d well, %d refused", n, ok.Load(), full.Load())
		}
		r.inside(0, 0, 0)
	})
}

// A request to another system within fn goes through that one's own bulkhead and breaker alone.
func TestExecuteLeavesOthersAlone(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		insurer := r.another("insurer", permits(1))
		err := r.execute(r.Context(), func(ctx context.Context) error {
			resp := insurer.send(ctx, "/")
			r.inside(1, 0, 1)
			insurer.inside(1, 1, 0)
			if _, err := insurer.RoundTrip(r.to(ctx, "/")); !errors.Is(err, resilient.ErrBulkheadFull) {
				r.Error(err)
			}
			if err := r.fetch(ctx, "/"); err != nil { // beside it, with fn's permit
				r.Error(err)
			}
			io.Copy(io.Discard, resp.Body)
			insurer.server.Default(testserver.Status(500))
			for range 20 {
				insurer.fetch(ctx, "/")
			}
			insurer.breaker("open")
			return insurer.execute(ctx, func(context.Context) error { r.Error("called"); return nil })
		})
		r.is(err, resilient.ErrCircuitOpen)
		if e, ok := errors.AsType[*resilient.OpenError](err); !ok || e.System != "insurer" {
			r.Error(err)
		}
		r.breaker("closed")
		if m := r.metrics(); m["requests_started_total"] != 1 {
			r.Errorf("%v requests", m["requests_started_total"])
		}
	})
}

// Execute within Execute shares the permit as a request does: one at a time.
func TestExecuteNested(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		err := r.execute(r.Context(), func(outer context.Context) error {
			for range 2 {
				err := r.execute(outer, func(inner context.Context) error {
					r.inside(1, 0, 2)
					resp := r.send(inner, "/")
					r.inside(1, 1, 2)
					for _, ctx := range []context.Context{inner, outer} { // in use, and lent
						if err := r.fetch(ctx, "/"); !errors.Is(err, resilient.ErrBulkheadFull) {
							r.Error(err)
						}
					}
					io.Copy(io.Discard, resp.Body)
					err := r.execute(outer, func(context.Context) error { r.Error("called"); return nil })
					r.is(err, resilient.ErrBulkheadFull)
					return r.execute(inner, func(ctx context.Context) error { return r.fetch(ctx, "/") })
				})
				if err != nil {
					r.Error(err)
				}
				r.inside(1, 0, 1)
				if err := r.fetch(outer, "/"); err != nil {
					r.Error(err)
				}
			}
			return nil
		})
		if err != nil {
			r.Error(err)
		}
		m := r.metrics()
		if m["executions_total success"] != 5 || m["executions_total refused_full"] != 2 {
			r.Error(m["executions_total success"], m["executions_total refused_full"])
		}
	})
}

// Requests and executions with a full bulkhead wait for a permit as long as others do.
func TestExecuteWaits(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		hold := func(d time.Duration) {
			go r.execute(r.Context(), func(context.Context) error { time.Sleep(d); return nil })
			synctest.Wait()
		}
		hold(50 * time.Millisecond)
		if d := took(func() {
			if err := r.execute(r.Context(), func(context.Context) error { return nil }); err != nil {
				r.Error(err)
			}
		}); d != 50*time.Millisecond {
			r.Errorf("after %v", d)
		}
		hold(180 * time.Millisecond)
		for range 3 {
			go func() {
				if err := r.fetch(r.Context(), "/"); !errors.Is(err, resilient.ErrBulkheadFull) {
					r.Error(err)
				}
			}()
		}
		var err error
		if d := took(func() { err = r.execute(r.Context(), func(context.Context) error { r.Error("called"); return nil }) }); d != 100*time.Millisecond {
			r.Errorf("after %v", d)
		}
		r.tells(err, told{is: []error{resilient.ErrUnavailable, resilient.ErrBulkheadFull}, notSent: true, status: http.StatusServiceUnavailable})
		time.Sleep(time.Second)
		hold(50 * time.Millisecond)
		ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
		defer cancel()
		err = r.execute(ctx, func(context.Context) error { r.Error("called"); return nil })
		r.tells(err, told{is: []error{context.DeadlineExceeded}, timeout: true, status: http.StatusGatewayTimeout})
		time.Sleep(time.Second)
		m := r.metrics()
		if m["executions_total success"] != 4 || m["executions_total refused_full"] != 1 || m["executions_total cancelled"] != 1 {
			r.Errorf("%v", m)
		}
	})
}
