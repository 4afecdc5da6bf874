package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// For which errors a Fallback is called, without FallbackIf and with one that is always true.
func TestExecuteFallback(t *testing.T) {
	full := &resilient.FullError{System: "insurer"}
	returns := func(err error) func(*rig, context.Context) error {
		return func(*rig, context.Context) error { return err }
	}
	for _, c := range []struct {
		name        string
		prepare     func(r *rig)
		caller      time.Duration // after which it cancels; 0: it does not, negative: its deadline, and of the other sign
		fn          func(r *rig, ctx context.Context) error
		always, if_ bool
	}{
		{"success", nil, 0, returns(nil), false, false},
		{"full", func(r *rig) {
			go r.execute(r.Context(), func(context.Context) error { time.Sleep(time.Second); return nil })
			time.Sleep(1)
		}, 0, nil, true, true},
		{"open", func(r *rig) { r.trip() }, 0, nil, true, true},
		{"forced open", func(r *rig) { r.ForceOpen(0) }, 0, nil, true, true},
		{"closed", func(r *rig) { r.Close() }, 0, nil, true, true},
		{"a request beside another is refused", nil, 0, func(r *rig, ctx context.Context) error {
			resp := r.send(ctx, "/")
			defer resp.Body.Close()
			return fmt.Errorf("adapter: %w", r.fetch(ctx, "/"))
		}, true, true},
		{"another system has no room", nil, 0, returns(full), true, true},
		{"an error of the func's own", nil, 0, returns(errBoom), false, true},
		{"a bound of an exchange", nil, 0, func(r *rig, ctx context.Context) error { return r.fetch(ctx, "/hang") }, false, true},
		{"the total", nil, 0, func(_ *rig, ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, false, true},
		{"the total, and another has no room", nil, 0, func(_ *rig, ctx context.Context) error { <-ctx.Done(); return full }, true, true},
		{"the caller has gone", nil, time.Second, func(_ *rig, ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, false, false},
		{"the caller has gone, and another has no room", nil, time.Second, func(_ *rig, ctx context.Context) error { <-ctx.Done(); return full }, false, false},
		{"the caller had gone before", nil, 1, nil, false, false},
		{"the caller's deadline", nil, -time.Second, func(r *rig, ctx context.Context) error { return r.fetch(ctx, "/hang") }, false, false},
		{"the caller's deadline, and another has no room", nil, -time.Second, func(r *rig, ctx context.Context) error {
			return errors.Join(full, r.fetch(ctx, "/hang"))
		}, false, false},
		{"no such client", nil, 0, returns(&resilient.NotFoundError{Name: "x"}), false, false},
		{"no such client, wrapped", nil, 0, returns(fmt.Errorf("%w: %w", full, &resilient.NotFoundError{Name: "x"})), false, false},
		{"a name twice", nil, 0, returns(&resilient.DuplicateError{Name: "x"}), false, false},
		{"an invalid request", nil, 0, func(r *rig, ctx context.Context) error {
			req := r.to(ctx, "/")
			req.Method = "BAD METHOD"
			_, err := r.RoundTrip(req)
			return err
		}, false, false},
	} {
		for _, withIf := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, ", FallbackIf ", withIf), func(t *testing.T) {
				inOne(t, setting{cfg: permits(1)}, func(r *rig) {
					r.server.On("/hang", testserver.HangBeforeHeaders())
					if c.prepare != nil {
						c.prepare(r)
					}
					ctx, cancel := context.WithCancel(r.Context())
					switch {
					case c.caller == 1:
						cancel()
					case c.caller > 0:
						time.AfterFunc(c.caller, cancel)
					case c.caller < 0:
						ctx, cancel = context.WithTimeout(ctx, -c.caller)
					}
					defer cancel()
					var seen error
					called := 0
					call := resilient.Call[string]{Fallback: func(got context.Context, err error) (string, error) {
						called++
						seen = err
						if got != ctx {
							r.Error("not the caller's context")
						}
						return "fallback", nil
					}}
					if withIf {
						call.FallbackIf = func(error) bool { return true }
					}
					var own error
					result, err := call.Do(ctx, r.Client, func(ctx context.Context) (string, error) {
						if c.fn == nil {
							r.Error("called")
							return "", nil
						}
						own = c.fn(r, ctx)
						return "result", own
					})
					want := c.always || withIf && c.if_
					switch {
					case called != map[bool]int{true: 1}[want]:
						r.Errorf("called %d times, want %v, for %v", called, want, err)
					case want && (result != "fallback" || err != nil || seen == nil || own != nil && !errors.Is(seen, own)):
						r.Errorf("%q, %v, for %v, the func's is %v", result, err, seen, own)
					case !want && own != nil && (result != "result" || !errors.Is(err, own)):
						r.Errorf("%q, %v; the func's is %v", result, err, own)
					case !want && c.name != "success" && err == nil:
						r.Error("no error")
					}
					time.Sleep(time.Second)
				})
			})
		}
	}
}

// A Fallback that fails too: both errors are told, and its result is returned.
func TestExecuteFallbackFails(t *testing.T) {
	inOne(t, setting{}, func(r *rig) {
		r.ForceOpen(0)
		result, err := resilient.Call[string]{Fallback: func(context.Context, error) (string, error) { return "half", errBoom }}.
			Do(r.Context(), r.Client, func(context.Context) (string, error) { return "", nil })
		if result != "half" || !strings.Contains(err.Error(), "forced open") || !strings.Contains(err.Error(), "boom") {
			r.Errorf("%q, %v", result, err)
		}
		r.is(err, errBoom, resilient.ErrCircuitOpen, resilient.ErrUnavailable)
		if resilient.NotSent(err) { // what the fallback did is not known
			r.Error("NotSent")
		}
		r.executed(map[string]float64{"refused_open": 1})
	})
}

// The permit is back, the verdict told and the execution counted before the Fallback runs; it is outside of everything.
func TestExecuteFallbackHoldsNothing(t *testing.T) {
	inBoth(t, setting{cfg: trips(1, permits(1))}, func(r *rig) {
		call := resilient.Call[string]{
			FallbackIf: func(error) bool { return true },
			Fallback: func(ctx context.Context, err error) (string, error) {
				r.inside(0, 0, 0)
				r.breaker("open")
				r.executed(map[string]float64{"error": 1})
				if _, ok := ctx.Deadline(); ok || ctx.Err() != nil {
					r.Error("a context that is bounded")
				}
				time.Sleep(31 * time.Second)
				resp := r.send(ctx, "/") // of its own
				r.inside(1, 1, 0)
				return "fallback", resp.Body.Close()
			},
		}
		result, err := call.Do(r.Context(), r.Client, func(context.Context) (string, error) { return "", errBoom })
		if result != "fallback" || err != nil {
			r.Error(result, err)
		}
	})
}

// A panic of a Fallback, or of FallbackIf, is the caller's to see, and leaves nothing behind.
func TestExecuteFallbackPanics(t *testing.T) {
	inOne(t, setting{}, func(r *rig) {
		for _, call := range []resilient.Call[string]{
			{Fallback: func(context.Context, error) (string, error) { panic(errBoom) }, FallbackIf: func(error) bool { return true }},
			{Fallback: func(context.Context, error) (string, error) { r.Error("called"); return "", nil }, FallbackIf: func(error) bool { panic(errBoom) }},
		} {
			func() {
				defer func() {
					if p := recover(); p != errBoom {
						r.Errorf("panicked with %v", p)
					}
				}()
				call.Do(r.Context(), r.Client, func(context.Context) (string, error) { return "", errBoom })
			}()
		}
		r.executed(map[string]float64{"error": 2})
	})
}
