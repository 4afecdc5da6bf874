package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// executed checks the counts of executions that are not 0.
func (r *rig) executed(want map[string]float64) {
	r.Helper()
	got := map[string]float64{}
	for name, v := range r.metrics() {
		if o, ok := strings.CutPrefix(name, "executions_total "); ok && v != 0 {
			got[o] = v
		}
	}
	if !maps.Equal(got, want) {
		r.Errorf("executions %v, want %v", got, want)
	}
}

// words counts each word of s.
func words(s string) map[string]float64 {
	counts := map[string]float64{}
	for word := range strings.FieldsSeq(s) {
		counts[word]++
	}
	return counts
}

// probes is n probes of a breaker that 500s open.
func probes(n int) resilient.Config {
	cfg := trips(3, permits(4))
	cfg.Breaker.HalfOpenProbes = n
	return cfg
}

// What a breaker with one probe is after a probe of each verdict.
var after = map[resilient.Verdict]string{resilient.Success: "closed", resilient.Failure: "open", resilient.Neutral: "half_open"}

// What an execution says about the system, and what it is counted as.
func TestExecuteVerdict(t *testing.T) {
	type call = resilient.Call[string]
	says := func(v resilient.Verdict) call { return call{Classify: func(error) resilient.Verdict { return v }} }
	never := call{Classify: func(err error) resilient.Verdict { panic(fmt.Sprint("asked about ", err)) }}
	cancelled := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(time.Second, func() { cancel(&resilient.FullError{System: "another"}) })
		return ctx, func() { cancel(nil) }
	}
	deadline := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Second)
	}
	wait := func(_ *rig, ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	good := func(r *rig, ctx context.Context) error { return r.fetch(ctx, "/") }
	bad := func(r *rig, ctx context.Context) error { return r.fetch(ctx, "/fails") }
	nothing := func(*rig, context.Context) error { return nil }
	fails := func(*rig, context.Context) error { return errBoom }
	neutral := func(r *rig, ctx context.Context) error { // its own end of its own request
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		r.timeout(r.fetch(ctx, "/hang"), "deadline")
		return nil
	}
	returns := func(err error) func(*rig, context.Context) error {
		return func(*rig, context.Context) error { return err }
	}
	one := func(f ...func(*rig, context.Context) error) func(*rig, context.Context) error { // the last one's error
		return func(r *rig, ctx context.Context) (err error) {
			for _, f := range f {
				err = f(r, ctx)
			}
			return err
		}
	}
	for _, c := range []struct {
		name    string
		call    call
		caller  func(ctx context.Context) (context.Context, context.CancelFunc)
		fn      func(r *rig, ctx context.Context) error
		want    resilient.Verdict
		outcome string
	}{
		{"a good exchange", call{}, nil, good, resilient.Success, "success"},
		{"a 404", call{}, nil, func(r *rig, ctx context.Context) error { return r.fetch(ctx, "/404") }, resilient.Success, "success"},
		{"good, then failed", call{}, nil, one(good, bad), resilient.Failure, "success"},
		{"failed, then good", call{}, nil, one(bad, good), resilient.Failure, "success"},
		{"a domain error over a good one", call{}, nil, one(good, fails), resilient.Success, "error"},
		{"an error over a failed one", call{}, nil, one(bad, fails), resilient.Failure, "error"},
		{"only neutral", call{}, nil, neutral, resilient.Neutral, "success"},
		{"only neutral, and an error", call{}, nil, one(neutral, fails), resilient.Neutral, "error"},
		{"neutral and good", call{}, nil, one(neutral, good), resilient.Success, "success"},
		{"neutral and failed", call{}, nil, one(bad, neutral), resilient.Failure, "success"},
		{"none", call{}, nil, nothing, resilient.Success, "success"},
		{"none, and an error", call{}, nil, fails, resilient.Failure, "error"},
		{"none, and the func's own deadline", call{}, nil, returns(context.DeadlineExceeded), resilient.Failure, "error"},
		{"none, and the caller cancels", never, cancelled, wait, resilient.Neutral, "cancelled"},
		{"none, and the caller's deadline", never, deadline, wait, resilient.Neutral, "cancelled"},
		{"none, and the caller's end is not told", never, cancelled, one(wait, fails), resilient.Neutral, "cancelled"},
		{"the caller's end over a good one", never, cancelled, one(good, wait), resilient.Success, "cancelled"},
		{"the caller's deadline in an exchange", never, deadline, func(r *rig, ctx context.Context) error { return r.fetch(ctx, "/hang") }, resilient.Neutral, "cancelled"},
		{"none, and the total is over", never, nil, wait, resilient.Failure, "timeout"},
		{"the total is over after a good one", never, nil, one(good, wait), resilient.Success, "timeout"},
		{"the total is over in an exchange", never, nil, func(r *rig, ctx context.Context) error {
			time.Sleep(3 * time.Second)
			err := r.fetch(ctx, "/hang")
			r.timeout(err, "total")
			return err
		}, resilient.Failure, "timeout"},
		{"a bound of an exchange", never, nil, func(r *rig, ctx context.Context) error { return r.fetch(ctx, "/hang") }, resilient.Failure, "timeout"},
		{"another system has no room", never, nil, returns(&resilient.FullError{System: "another"}), resilient.Neutral, "error"},
		{"another system is unknown", never, nil, returns(fmt.Errorf("adapter: %w", &resilient.NotFoundError{Name: "x"})), resilient.Neutral, "error"},
		{"another system takes too long", never, nil, returns(&resilient.TimeoutError{System: "another", Phase: resilient.PhaseRead}), resilient.Failure, "timeout"},
		{"an invalid request", never, nil, func(r *rig, ctx context.Context) error {
			req := r.to(ctx, "/")
			req.Method = "BAD METHOD"
			_, err := r.RoundTrip(req)
			return err
		}, resilient.Neutral, "error"},
		{"panic", never, nil, func(*rig, context.Context) error { panic(errBoom) }, resilient.Failure, "panic"},
		{"panic over a good one", never, nil, one(good, func(*rig, context.Context) error { panic(errBoom) }), resilient.Success, "panic"},
		{"panic over a failed one", never, nil, one(bad, func(*rig, context.Context) error { panic(errBoom) }), resilient.Failure, "panic"},
		{"Goexit", never, nil, func(*rig, context.Context) error { runtime.Goexit(); return nil }, resilient.Failure, "panic"},
		{"Classify: failure of a good result", says(resilient.Failure), nil, good, resilient.Failure, "success"},
		{"Classify: success of a failed exchange", says(resilient.Success), nil, bad, resilient.Success, "success"},
		{"Classify: success of an error", says(resilient.Success), nil, fails, resilient.Success, "error"},
		{"Classify: neutral of an error", says(resilient.Neutral), nil, one(bad, fails), resilient.Neutral, "error"},
		{"Classify: what it is asked", call{Classify: func(err error) resilient.Verdict {
			return map[bool]resilient.Verdict{true: resilient.Neutral, false: resilient.Failure}[err == errBoom]
		}}, nil, fails, resilient.Neutral, "error"},
		{"Classify: no verdict at all", says(42), nil, good, resilient.Failure, "success"},
		{"WithClassifier: no verdict at all", call{}, nil, func(r *rig, ctx context.Context) error { return r.fetch(ctx, "/odd") }, resilient.Failure, "success"},
		{"Classify: panics", never, nil, good, resilient.Neutral, "success"},
		{"Classify: ends its goroutine", call{Classify: func(error) resilient.Verdict { runtime.Goexit(); return 0 }}, nil, one(bad, fails), resilient.Neutral, "error"},
		{"nested, failed", call{}, nil, func(r *rig, ctx context.Context) error {
			return one(func(r *rig, ctx context.Context) error {
				r.execute(ctx, func(ctx context.Context) error { return bad(r, ctx) })
				r.breaker("half_open")
				return nil
			}, good)(r, ctx)
		}, resilient.Failure, "success success"},
		{"nested, good, and a domain error", call{}, nil, func(r *rig, ctx context.Context) error {
			return r.execute(ctx, func(ctx context.Context) error { good(r, ctx); return errBoom })
		}, resilient.Success, "error error"},
		{"nested, neutral", call{}, nil, func(r *rig, ctx context.Context) error {
			return r.execute(ctx, func(ctx context.Context) error { return neutral(r, ctx) })
		}, resilient.Neutral, "success success"},
		{"nested, no verdict at all", call{}, nil, func(r *rig, ctx context.Context) error {
			return r.call(ctx, says(-1), func(context.Context) error { return nil })
		}, resilient.Failure, "success success"},
		{"a stream, by its headers", call{}, nil, func(r *rig, ctx context.Context) error {
			resp := r.send(resilient.WithBounds(ctx, resilient.Bounds{Total: resilient.Unbounded, Read: resilient.Unbounded}), "/hang/after")
			defer resp.Body.Close()
			return errBoom
		}, resilient.Success, "error"},
		{"a stream without headers", call{Total: time.Hour}, nil, func(r *rig, ctx context.Context) error {
			ctx, cancel := context.WithTimeout(resilient.WithBounds(ctx, resilient.Bounds{Total: time.Hour, Read: time.Hour}), 8*time.Second)
			defer cancel()
			r.fetch(ctx, "/hang")
			return errBoom
		}, resilient.Neutral, "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			classify := resilient.WithClassifier(func(resp *http.Response, err error) resilient.Verdict {
				switch {
				case resp != nil && resp.Request.URL.Path == "/odd":
					return 42
				case err != nil, resp.StatusCode >= 500:
					return resilient.Failure
				}
				return resilient.Success
			})
			inBoth(t, setting{cfg: probes(1), opts: []resilient.Option{classify}}, func(r *rig) {
				r.server.On("/fails", testserver.Status(500))
				r.server.On("/404", testserver.Status(404))
				r.server.On("/hang", testserver.HangBeforeHeaders())
				r.server.On("/hang/after", testserver.StallInBody(1))
				r.halfOpen()
				ctx, cancel := context.WithCancel(r.Context())
				if c.caller != nil {
					ctx, cancel = c.caller(r.Context())
				}
				defer cancel()
				wantPanic := map[bool]any{true: errBoom}[strings.HasPrefix(c.name, "panic")]
				if c.name == "Classify: panics" {
					wantPanic = "asked about <nil>"
				}
				var wg sync.WaitGroup
				wg.Go(func() { // of its own, which may end
					defer func() {
						if p := recover(); p != wantPanic {
							r.Errorf("panicked with %v, want %v", p, wantPanic)
						}
					}()
					r.call(ctx, c.call, func(ctx context.Context) error { return c.fn(r, ctx) })
				})
				wg.Wait()
				r.inside(0, 0, 0)
				r.breaker(after[c.want])
				r.executed(words(c.outcome))
				time.Sleep(r.State().Config.Breaker.OpenFor + 1)
				r.works() // and counted once: nothing is left of it
				r.breaker("closed")
			})
		})
	}
}

// An execution of a half-open breaker is one probe, however many requests it makes.
func TestExecuteIsOneProbe(t *testing.T) {
	inBoth(t, setting{cfg: probes(2)}, func(r *rig) {
		r.halfOpen()
		for _, want := range []string{"half_open", "closed"} {
			err := r.execute(r.Context(), func(ctx context.Context) error {
				for range 3 {
					if err := r.fetch(ctx, "/"); err != nil {
						r.Error(err)
					}
					r.breaker("half_open")
				}
				return nil
			})
			if err != nil {
				r.Error(err)
			}
			r.breaker(want)
		}
		r.halfOpen()
		r.execute(r.Context(), func(ctx context.Context) error {
			return r.execute(ctx, func(ctx context.Context) error { // is the same probe
				resp := r.send(ctx, "/")
				defer resp.Body.Close()
				second := r.send(ctx, "/") // beside it: another
				defer second.Body.Close()
				err := r.fetch(ctx, "/") // and a third, which is one too many
				if e, ok := errors.AsType[*resilient.OpenError](err); !ok || !e.Probing {
					r.Error(err)
				}
				err = r.execute(r.Context(), func(context.Context) error { return nil })
				r.tells(err, told{is: []error{resilient.ErrUnavailable, resilient.ErrCircuitOpen}, notSent: true, status: 503})
				return nil
			})
		})
		r.breaker("closed")
		r.executed(map[string]float64{"success": 4, "refused_open": 1})
	})
}

// A func that hangs, heeding nothing, does not keep a half-open breaker from deciding.
func TestExecuteHungProbe(t *testing.T) {
	inBoth(t, setting{cfg: probes(1)}, func(r *rig) {
		r.halfOpen()
		release := make(chan struct{})
		go r.execute(r.Context(), func(context.Context) error { <-release; return errBoom })
		time.Sleep(14*time.Second - 1)
		if err := r.fetch(r.Context(), "/"); !errors.Is(err, resilient.ErrCircuitOpen) {
			r.Error(err)
		}
		time.Sleep(2)
		if err := r.fetch(r.Context(), "/"); err != nil {
			r.Error(err)
		}
		r.breaker("closed")
		close(release)
		time.Sleep(time.Second)
		r.breaker("closed") // what it says now comes too late
	})
}

// A stream or an upgraded connection that leaves the func keeps the permit, but has said what it says: or a client of
// streams alone, half open, would never close.
func TestExecuteReportsBeforeStreamEnds(t *testing.T) {
	lifted := resilient.Bounds{Total: resilient.Unbounded, Read: resilient.Unbounded}
	for name, nested := range map[string]bool{"": false, "nested": true} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{cfg: probes(1)}, func(r *rig) {
				r.server.On("/stall", testserver.StallInBody(1))
				r.halfOpen()
				ctx := resilient.WithBounds(r.Context(), lifted)
				var resp *http.Response
				if nested {
					r.execute(ctx, func(ctx context.Context) error { resp = r.open(ctx, "/stall"); return nil })
				} else {
					resp = r.open(ctx, "/stall")
				}
				r.breaker("closed")
				r.inside(1, 1, map[bool]int{true: 2, false: 1}[nested])
				resp.Body.Close()
				r.inside(0, 0, 0)
				r.breaker("closed")
			})
		})
	}
	t.Run("upgraded", func(t *testing.T) {
		inOne(t, setting{cfg: probes(1)}, func(r *rig) {
			r.halfOpen()
			r.server.Default(testserver.Upgrade())
			resp, err := resilient.Execute(r.Context(), r.Client, func(ctx context.Context) (*http.Response, error) { return r.RoundTrip(r.upgrade(ctx)) })
			if err != nil {
				r.Fatal(err)
			}
			r.breaker("closed")
			r.inside(1, 1, 1)
			resp.Body.Close()
		})
	})
}

// While closed the verdicts count one for each execution, and one for each request beside it.
func TestExecuteCountsOnce(t *testing.T) {
	inBoth(t, setting{cfg: trips(5, permits(4))}, func(r *rig) {
		r.server.Default(testserver.Status(500))
		many := func(ctx context.Context) error {
			for range 10 {
				r.fetch(ctx, "/")
			}
			return nil
		}
		for range 4 {
			r.execute(r.Context(), many)
		}
		r.breaker("closed")
		r.execute(r.Context(), func(context.Context) error { return nil }) // a success between
		for range 4 {
			r.execute(r.Context(), many)
		}
		r.breaker("closed")
		r.execute(r.Context(), func(ctx context.Context) error {
			resp := r.send(ctx, "/")
			r.fetch(ctx, "/") // beside it, on its own account: the fifth
			r.breaker("open")
			if err := r.fetch(ctx, "/"); !errors.Is(err, resilient.ErrCircuitOpen) {
				r.Error(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			resp = r.send(ctx, "/") // with the permit of the func, which is in already
			return resp.Body.Close()
		})
		r.breaker("open")
	})
}
