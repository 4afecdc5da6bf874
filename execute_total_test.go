package resilient_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// expired checks that err is the total of sber's execution, and what a handler makes of it.
func (r *rig) expired(err error, limit time.Duration) {
	r.Helper()
	r.tells(err, told{is: []error{resilient.ErrTimeout, context.DeadlineExceeded}, timeout: true, status: http.StatusGatewayTimeout})
	if e, ok := errors.AsType[*resilient.TimeoutError](err); !ok || e.System != "sber" || e.Phase != resilient.PhaseTotal || e.Limit != limit {
		r.Errorf("%#v", e)
	}
	if n := strings.Count(err.Error(), "deadline exceeded"); n != 1 {
		r.Errorf("%v: said %d times", err, n)
	}
}

func TestExecuteTotal(t *testing.T) {
	wait := func(_ *rig, ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, c := range []struct {
		name    string
		total   time.Duration
		fn      func(r *rig, ctx context.Context) error
		after   time.Duration
		limit   time.Duration // 0: no total is over
		outcome string
	}{
		{"TotalTimeout", 0, wait, 7 * time.Second, 7 * time.Second, "timeout"},
		{"shorter", 2 * time.Second, wait, 2 * time.Second, 2 * time.Second, "timeout"},
		{"longer", time.Hour, wait, time.Hour, time.Hour, "timeout"},
		{"the cause is told inside", 0, func(_ *rig, ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, 7 * time.Second, 7 * time.Second, "timeout"},
		{"lifted", resilient.Unbounded, func(r *rig, ctx context.Context) error {
			if _, ok := ctx.Deadline(); ok {
				r.Error("a deadline")
			}
			time.Sleep(24 * time.Hour)
			return ctx.Err()
		}, 24 * time.Hour, 0, "success"},
		{"ignored, with success", 0, func(*rig, context.Context) error { time.Sleep(time.Minute); return nil }, time.Minute, 0, "success"},
		{"in the round trip", 3 * time.Second, func(r *rig, ctx context.Context) error { return r.fetch(ctx, "/hang") }, 3 * time.Second, 3 * time.Second, "timeout"},
		{"in the body", 3 * time.Second, func(r *rig, ctx context.Context) error { return r.fetch(ctx, "/stall") }, 3 * time.Second, 3 * time.Second, "timeout"},
		{"in a later request", 8 * time.Second, func(r *rig, ctx context.Context) error {
			if err := r.fetch(ctx, "/slow"); err != nil {
				r.Error(err)
			}
			return r.fetch(ctx, "/hang")
		}, 8 * time.Second, 8 * time.Second, "timeout"},
		{"of an execution within", 5 * time.Second, func(r *rig, ctx context.Context) error {
			var err error
			if d := took(func() {
				err = r.call(ctx, resilient.Call[string]{Total: time.Second}, func(ctx context.Context) error { return wait(r, ctx) })
			}); d != time.Second {
				r.Errorf("after %v", d)
			}
			r.expired(err, time.Second)
			return ctx.Err() // the outer one goes on
		}, time.Second, 0, "success timeout"},
		{"of an execution around", 2 * time.Second, func(r *rig, ctx context.Context) error {
			err := r.execute(ctx, func(ctx context.Context) error { return wait(r, ctx) })
			r.expired(err, 2*time.Second)
			return err
		}, 2 * time.Second, 2 * time.Second, "timeout timeout"},
		{"of an execution around, and over", 2 * time.Second, func(r *rig, ctx context.Context) error {
			<-ctx.Done()
			err := r.execute(ctx, func(context.Context) error { r.Error("called"); return nil })
			r.expired(err, 2*time.Second)
			return err
		}, 2 * time.Second, 2 * time.Second, "timeout timeout"},
		{"of an execution around, in the queue", 2 * time.Second, func(r *rig, ctx context.Context) error {
			time.Sleep(1950 * time.Millisecond)
			go r.fetch(ctx, "/hang") // has the permit
			time.Sleep(1)
			err := r.execute(ctx, func(context.Context) error { r.Error("called"); return nil })
			r.expired(err, 2*time.Second)
			return err
		}, 2 * time.Second, 2 * time.Second, "timeout timeout"},
		{"of an execution around, in an exchange", 2 * time.Second, func(r *rig, ctx context.Context) error {
			return r.execute(ctx, func(ctx context.Context) error { return r.fetch(ctx, "/hang") })
		}, 2 * time.Second, 2 * time.Second, "timeout timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
				r.server.On("/hang", testserver.HangBeforeHeaders())
				r.server.On("/stall", testserver.StallInBody(1))
				r.server.On("/slow", testserver.After(4*time.Second, testserver.OK("ok")))
				var err error
				d := took(func() {
					err = r.call(r.Context(), resilient.Call[string]{Total: c.total}, func(ctx context.Context) error { return c.fn(r, ctx) })
				})
				if d != c.after {
					r.Errorf("after %v, want %v", d, c.after)
				}
				if c.limit > 0 {
					r.expired(err, c.limit)
				} else if err != nil {
					r.Error(err)
				}
				r.executed(words(c.outcome))
			})
		})
	}
}

// An error of the func's own when the total is over: both are told.
func TestExecuteTotalAndError(t *testing.T) {
	inOne(t, setting{}, func(r *rig) {
		for _, own := range []error{errBoom, &resilient.FullError{System: "insurer"}, &resilient.TimeoutError{System: "insurer", Phase: resilient.PhaseRead}} {
			err := r.execute(r.Context(), func(ctx context.Context) error { <-ctx.Done(); return own })
			if !errors.Is(err, resilient.ErrTimeout) || !errors.Is(err, own) || resilient.NotSent(err) {
				r.Errorf("%v, NotSent %v", err, resilient.NotSent(err))
			}
			if n, ok := err.(interface{ Timeout() bool }); !ok || !n.Timeout() {
				r.Errorf("%v: Timeout() is not true", err)
			}
			if code, _, ok := resilient.StatusCode(err); code != http.StatusGatewayTimeout || !ok {
				r.Errorf("%v: %d", err, code)
			}
		}
		r.executed(map[string]float64{"timeout": 3})
	})
}

// The caller's own deadline is no total of ours, whether it ends the func, an exchange in it or the wait for a permit.
func TestExecuteCallersDeadline(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		r.server.On("/hang", testserver.HangBeforeHeaders())
		within := func(d time.Duration, fn func(ctx context.Context) error) (after time.Duration, err error) {
			ctx, cancel := context.WithTimeoutCause(r.Context(), d, errBoom)
			defer cancel()
			after = took(func() { err = r.execute(ctx, fn) })
			return after, err
		}
		after, err := within(2*time.Second, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		if err != errBoom || after != 2*time.Second {
			r.Errorf("%v after %v", err, after)
		}
		after, err = within(2*time.Second, func(ctx context.Context) error { return r.fetch(ctx, "/hang") })
		r.timeout(err, "deadline")
		if after != 1900*time.Millisecond {
			r.Errorf("after %v", after)
		}
		go r.execute(r.Context(), func(context.Context) error { time.Sleep(time.Second); return nil })
		time.Sleep(time.Millisecond)
		after, err = within(50*time.Millisecond, func(context.Context) error { r.Error("called"); return nil })
		r.is(err, context.DeadlineExceeded, errBoom)
		if after != 50*time.Millisecond {
			r.Errorf("after %v", after)
		}
		_, err = within(-1, func(context.Context) error { r.Error("called"); return nil })
		r.is(err, context.DeadlineExceeded, errBoom)
		time.Sleep(time.Second)
		r.executed(map[string]float64{"cancelled": 4, "success": 1})
		r.outcomes(map[string]float64{"cancelled": 1})
	})
}

// That the caller's end has an error of another system's as its cause, as with an errgroup, makes it no refusal.
func TestExecuteCallersCause(t *testing.T) {
	inOne(t, setting{}, func(r *rig) {
		for _, cause := range []error{&resilient.FullError{System: "insurer"}, &resilient.OpenError{System: "insurer"}, &resilient.ClosedError{System: "insurer"}} {
			ctx, cancel := context.WithCancelCause(r.Context())
			cancel(cause)
			called := false
			_, err := resilient.Call[int]{Fallback: func(context.Context, error) (int, error) { called = true; return 0, nil }}.
				Do(ctx, r.Client, func(context.Context) (int, error) { r.Error("called"); return 0, nil })
			r.is(err, context.Canceled, cause)
			if called {
				r.Error("the fallback was called")
			}
		}
		r.executed(map[string]float64{"cancelled": 3})
	})
}

// A deadline that another system was given by our total is not the caller's.
func TestExecuteTotalIsAnothersDeadline(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		insurer := r.another("insurer", resilient.Config{})
		r.server.On("/hang", testserver.HangBeforeHeaders())
		for _, c := range []struct {
			caller  time.Duration // its deadline; 0: none
			outcome string
			called  int // the fallback, that many times
		}{{0, "timeout", 1}, {time.Minute, "timeout", 1}, {6 * time.Second, "cancelled", 0}} {
			before := r.metrics()["executions_total "+c.outcome]
			ctx, cancel := context.WithCancel(r.Context())
			if c.caller > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.caller)
			}
			called := 0
			_, err := resilient.Call[int]{
				Fallback:   func(_ context.Context, err error) (int, error) { called++; return 0, err },
				FallbackIf: func(err error) bool { return errors.Is(err, resilient.ErrTimeout) },
			}.Do(ctx, r.Client, func(ctx context.Context) (int, error) {
				time.Sleep(3 * time.Second)
				return 0, insurer.fetch(ctx, "/hang")
			})
			cancel()
			if e, ok := errors.AsType[*resilient.TimeoutError](err); !ok || e.Phase != resilient.PhaseDeadline || e.System != "insurer" {
				r.Error(err)
			}
			if n := r.metrics()["executions_total "+c.outcome]; n != before+1 || called != c.called {
				r.Errorf("caller's deadline %v: %v %s, fallback called %d times", c.caller, n-before, c.outcome, called)
			}
		}
	})
}
