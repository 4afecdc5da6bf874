package transport_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// Each state, each call, with an end and without: what is to be seen, who is admitted, what is told, and what it is afterwards.
func TestForce(t *testing.T) {
	states := map[string]func(j *judge){
		"closed":    func(*judge) {},
		"open":      func(j *judge) { _ = j.do("f") },
		"half_open": func(j *judge) { _ = j.do("f"); time.Sleep(30*sec + 1); j.is("half_open") },
	}
	calls := map[string]func(b *transport.Breaker, d time.Duration){
		"forced_open":   (*transport.Breaker).ForceOpen,
		"forced_closed": (*transport.Breaker).ForceClosed,
	}
	for below, prepare := range states {
		for state, force := range calls {
			for _, d := range []time.Duration{0, -1, 10 * sec} {
				t.Run(fmt.Sprint(below, " ", state, " ", d), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						j := newJudge(t, oneFailure)
						var told []string
						j.OnTransition(func(tr transport.Transition) { told = append(told, tr.From+">"+tr.To+" "+tr.Reason) })
						prepare(j)
						synctest.Wait() // for the look that made it half-open
						told = nil
						force(j.Breaker, d)
						force(j.Breaker, d) // again is no transition
						until := time.Time{}
						if d > 0 {
							until = time.Now().Add(d)
						}
						if s := j.State(); s.State != state || !s.OpenUntil.Equal(until) {
							t.Errorf("%+v, want %s until %v", s, state, until)
						}
						for range 20 {
							switch err := j.Peek(); {
							case state == "forced_closed":
								if err != nil || j.do("f") != errDown {
									t.Error("refused, or not sent", err)
								}
							default:
								want := transport.OpenError{System: "sber", Forced: true, RetryAfter: max(0, d)}
								if e := j.refused(); *e != want {
									t.Errorf("%+v, want %+v", *e, want)
								}
								if e, ok := errors.AsType[*transport.OpenError](err); !ok || *e != want {
									t.Errorf("Peek says %v", err)
								}
							}
						}
						time.Sleep(max(0, d-1))
						if s := j.State(); s.State != state {
							t.Errorf("%+v a moment before its end", s)
						}
						if d > 0 {
							time.Sleep(1)
						} else {
							j.Automatic()
							j.Automatic()
						}
						j.is(below)
						if err := j.do("s"); (err != nil) != (below == "open") {
							t.Error(err)
						}
						synctest.Wait()
						back := map[string]string{"closed": "", "open": "failure_ratio", "half_open": ""}[below]
						want := []string{below + ">" + state + " forced", state + ">" + below + " " + back}
						if below == "half_open" {
							want = append(want, "half_open>closed ") // the one probe
						}
						if !slices.Equal(told, want) {
							t.Errorf("told %q, want %q", told, want)
						}
					})
				})
			}
		}
	}
}

// From one forced state to the other, and a new end in place of an old one, which then ends nothing.
func TestForceAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, oneFailure)
		var told []string
		j.OnTransition(func(tr transport.Transition) { told = append(told, tr.From+">"+tr.To) })
		j.ForceOpen(sec)
		time.Sleep(sec / 2)
		j.ForceOpen(10 * sec)
		time.Sleep(9 * sec)
		j.is("forced_open")
		j.ForceClosed(sec)
		j.is("forced_closed")
		j.ForceClosed(0)
		time.Sleep(time.Hour)
		j.is("forced_closed")
		j.ForceOpen(sec)
		time.Sleep(time.Hour)
		j.ForceOpen(sec) // its end came, but nobody looked: no transition was seen, and none is told
		j.is("forced_open")
		j.Automatic()
		j.is("closed")
		synctest.Wait()
		if got, want := strings.Join(told, " "), "closed>forced_open forced_open>forced_closed forced_closed>forced_open forced_open>closed"; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	})
}

// What exchanges report that were admitted before a forced state counts below it, unseen; what is admitted within it reports nothing.
func TestForceHidesWhatHappensBelow(t *testing.T) {
	for _, force := range []func(b *transport.Breaker, d time.Duration){(*transport.Breaker).ForceOpen, (*transport.Breaker).ForceClosed} {
		synctest.Test(t, func(t *testing.T) {
			j := newJudge(t, config.Breaker{MinRequests: 100, ConsecutiveFailures: 2, HalfOpenProbes: 1})
			told := 0
			j.OnTransition(func(transport.Transition) { told++ })
			j.after = sec
			for range 2 {
				go j.do("f")
				synctest.Wait()
			}
			force(j.Breaker, 0)
			state := j.State().State
			time.Sleep(2 * sec) // they fail, which trips
			if s := j.State(); s.State != state || told != 1 || s.Reason != transport.ConsecutiveFailures || s.FailureRate != 1 {
				t.Errorf("%+v, %d transitions told", s, told)
			}
			j.Automatic()
			if s := j.State(); s.State != "open" || time.Until(s.OpenUntil) != 29*sec || told != 2 {
				t.Errorf("%+v for %v, %d transitions told", s, time.Until(s.OpenUntil), told)
			}
			force(j.Breaker, 0)
			time.Sleep(time.Minute)
			j.after = 0
			for range 5 { // admitted or not, they decide nothing
				_ = j.do("sf")
			}
			j.is(state)
			j.Automatic()
			j.is("half_open")
			_ = j.do("s")
			j.is("closed")
		})
	}
}

// A forced state that has ended unseen ends with the next look, a Peek too, since a request that Peek refuses asks nobody else.
func TestForceEndsAtAnyLook(t *testing.T) {
	for name, look := range map[string]func(j *judge){
		"State":   func(j *judge) { _ = j.State() },
		"Peek":    func(j *judge) { _ = j.Peek() },
		"Allow":   func(j *judge) { _, _ = j.Allow() },
		"request": func(j *judge) { _ = j.do("s") },
	} {
		synctest.Test(t, func(t *testing.T) {
			j := newJudge(t, oneFailure)
			var told []string
			j.OnTransition(func(tr transport.Transition) { told = append(told, tr.To) })
			_ = j.do("f")
			j.ForceClosed(10 * sec)
			time.Sleep(20 * sec)
			if got := strings.Join(told, " "); got != "open forced_closed" {
				t.Errorf("%s: told %s before anybody looked", name, got)
			}
			look(j)
			synctest.Wait()
			if got := strings.Join(told, " "); got != "open forced_closed open" {
				t.Errorf("%s: told %s", name, got)
			}
		})
	}
}

// Who looks does not wait for a hook that is told of the end of a forced state.
func TestStateDoesNotWaitForHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, oneFailure)
		unblock := make(chan struct{})
		j.OnTransition(func(tr transport.Transition) {
			if tr.To == "closed" {
				<-unblock
			}
		})
		j.ForceOpen(sec)
		time.Sleep(sec)
		looked := make(chan string, 1)
		go func() { looked <- j.State().State }()
		synctest.Wait()
		select {
		case got := <-looked:
			if got != "closed" {
				t.Error(got)
			}
		default:
			t.Error("State waits for the hook")
		}
		close(unblock)
		synctest.Wait()
	})
}

// A hook may force, and is told of that after what it is being told.
func TestForceInHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, oneFailure)
		var told []string
		j.OnTransition(func(tr transport.Transition) {
			told = append(told, tr.To)
			if len(told) == 1 {
				j.ForceClosed(sec)
				j.is("forced_closed")
			}
		})
		_ = j.do("ffff")
		time.Sleep(sec)
		j.is("open")
		synctest.Wait()
		if got := strings.Join(told, " "); got != "open forced_closed open" {
			t.Error(got)
		}
	})
}

// A refusal by force takes nothing, closes the request's body, and tells that it was by force; the bulkhead asks before anybody waits.
func TestForcedOpenRefuses(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		r.breaker.ForceOpen(0)
		for _, rt := range []http.RoundTripper{r.all(), r.breaker.Wrap(r.base)} {
			body := &closedBody{Reader: strings.NewReader("x")}
			_, err := rt.RoundTrip(r.request(r.Context(), "POST", body))
			open, ok := errors.AsType[*transport.OpenError](err)
			if !ok || !open.Forced || open.RetryAfter != 0 || !errors.Is(err, semaphore.ErrUnavailable) || !transport.NotSent(err) || body.closed != 1 {
				r.Errorf("%v, NotSent %v, body closed %d times", err, transport.NotSent(err), body.closed)
			}
			if want := "transport: sber: circuit forced open"; err.Error() != want {
				r.Errorf("%q, want %q", err, want)
			}
		}
		if r.base.calls.Load() != 0 {
			r.Error("sent")
		}
		r.breaker.ForceOpen(1500 * ms)
		if _, err := r.get(r.Context(), r.all()); err.Error() != "transport: sber: circuit forced open for another 1.5s" {
			r.Error(err)
		}
		time.Sleep(1500 * ms)
		if _, err := r.get(r.Context(), r.all()); err != nil {
			r.Error(err)
		}
	})
}

// Streams and calls that are no exchanges are admitted by force too, and say nothing.
func TestForcedClosedAdmits(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		r.trip()
		r.breaker.ForceClosed(0)
		r.base.set(errDown)
		stream := transport.WithBounds(r.Context(), transport.Bounds{Total: transport.Unbounded})
		for range 3 {
			if _, err := r.get(stream, r.all()); err != errDown {
				r.Error(err)
			}
			done, err := r.breaker.Allow()
			if err != nil {
				r.Fatal(err)
			}
			done(transport.Success)
			done(transport.Failure)
		}
		r.base.set(nil)
		until := r.breaker.State()
		r.breaker.Automatic()
		if s := r.breaker.State(); s.State != "open" || s.Reason != until.Reason {
			r.Errorf("%+v, %+v", s, until)
		}
		time.Sleep(time.Minute)
		if _, err := r.get(stream, r.all()); err != nil {
			r.Error(err)
		}
		r.state("closed")
	})
}
