package resilient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// What a client tells of itself, field by field.
func TestState(t *testing.T) {
	inBoth(t, setting{cfg: trips(2, permits(3))}, func(r *rig) {
		want := resilient.State{Name: "sber", Config: r.State().Config}
		want.Bulkhead.Name, want.Bulkhead.MaxConcurrent, want.Bulkhead.MaxWaiting = "sber", 3, 30
		want.Breaker.State, want.Health.Status = "closed", "unknown"
		is := func(when string) {
			r.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, r.State()); diff != "" {
				r.Errorf("%s: %s", when, diff)
			}
		}
		is("at first")

		r.server.On("/slow", testserver.After(2*time.Second, testserver.OK("ok")))
		end := r.mustSend(2, "/slow")
		time.Sleep(time.Second)
		execution := make(chan struct{})
		go resilient.Execute(r.Context(), r.Client, func(context.Context) (int, error) { <-execution; return 0, nil })
		want.Bulkhead.Active, want.InFlight, want.Oldest, want.Executions = 3, 2, time.Second, 1
		is("with an execution under way")
		waiting := r.mustSend(1, "/slow")
		want.Bulkhead.Waiting, want.InFlight = 1, 3
		is("with one that waits")
		close(execution)
		want.Bulkhead.Waiting, want.Executions = 0, 0
		is("when it has the execution's permit")
		end()
		waiting()
		want.Bulkhead.Active, want.InFlight, want.Oldest = 0, 0, 0
		is("at rest")

		transition := func(from, to, reason string, rate float64) {
			want.Transitions = append(want.Transitions, resilient.PastTransition{At: time.Now(), Transition: resilient.Transition{
				System: "sber", From: from, To: to, Reason: reason, FailureRate: rate}})
			if len(want.Transitions) > 10 {
				want.Transitions = want.Transitions[1:]
			}
		}
		r.server.Default(testserver.Status(500))
		r.get(r.Context())
		r.get(r.Context())
		rate := 2 / 6.0 // four have succeeded, the execution too
		transition("closed", "open", "consecutive_failures", rate)
		want.Breaker.State, want.Breaker.OpenUntil = "open", time.Now().Add(30*time.Second)
		want.Breaker.Reason, want.Breaker.FailureRate = "consecutive_failures", rate
		is("open")

		until := want.Breaker.OpenUntil
		r.ForceClosed(time.Minute)
		transition("open", "forced_closed", "forced", 0)
		want.Breaker.State, want.Breaker.OpenUntil = "forced_closed", time.Now().Add(time.Minute)
		is("forced closed") // with what is below
		r.ForceOpen(0)
		transition("forced_closed", "forced_open", "forced", 0)
		want.Breaker.State, want.Breaker.OpenUntil = "forced_open", time.Time{}
		is("forced open")
		r.Automatic()
		transition("forced_open", "open", "consecutive_failures", rate)
		want.Breaker.State, want.Breaker.OpenUntil = "open", until
		is("automatic again")

		for range 3 {
			time.Sleep(30*time.Second + 1)
			transition("open", "half_open", "", 0)
			want.Breaker.State, want.Breaker.OpenUntil = "half_open", time.Time{}
			r.State() // the look
			is("half-open")
			r.get(r.Context())
			transition("half_open", "open", "failed_probe", 0)
			want.Breaker.State, want.Breaker.OpenUntil = "open", time.Now().Add(30*time.Second)
			want.Breaker.Reason, want.Breaker.FailureRate = "failed_probe", 0
			is("a failed probe")
		}
		time.Sleep(30*time.Second + 1)
		transition("open", "half_open", "", 0)
		r.works()
		transition("half_open", "closed", "", 0)
		want.Breaker = r.State().Breaker
		if want.Breaker.State != "closed" || want.Breaker.Reason != "" || want.Breaker.FailureRate != 0 || !want.Breaker.OpenUntil.IsZero() {
			r.Errorf("closed: %+v", want.Breaker)
		}
		is("closed: ten transitions are kept")
		r.State().Transitions[0].From = "a copy's"
		is("the copy was changed")
		if diff := cmp.Diff([]resilient.State{want}, r.reg.States()); diff != "" {
			r.Errorf("the registry's: %s", diff)
		}
	})
}

// The metrics have a series for each state and each transition there can be, from the beginning: one state is 1, and each
// transition is counted.
func TestForcedMetrics(t *testing.T) {
	inBoth(t, setting{cfg: trips(1, permits(2))}, func(r *rig) {
		states := []string{"closed", "open", "half_open", "forced_open", "forced_closed"}
		counted := map[string]float64{}
		automatic := map[string]bool{"closed>open": true, "open>half_open": true, "half_open>closed": true, "half_open>open": true}
		for _, from := range states {
			for _, to := range states {
				if from != to && (strings.HasPrefix(from+to, "forced") || strings.HasPrefix(to, "forced")) || automatic[from+">"+to] {
					counted["breaker_transitions_total "+from+" "+to] = 0
				}
			}
		}
		is := func(state string) {
			r.Helper()
			m, got := r.metrics(), map[string]float64{}
			for name, v := range m {
				if strings.HasPrefix(name, "breaker_transitions_total ") {
					got[name] = v
				}
			}
			if diff := cmp.Diff(counted, got); diff != "" {
				r.Errorf("%s: %s", state, diff)
			}
			for _, s := range states {
				if v, ok := m["breaker_state "+s]; !ok || (v == 1) != (s == state) || v != 0 && v != 1 {
					r.Errorf("breaker_state %s is %v in %s", s, v, state)
				}
			}
		}
		if len(counted) != 18 {
			r.Fatalf("%d kinds of transitions", len(counted))
		}
		is("closed")
		now := "closed"
		to := func(next string, act func()) {
			r.Helper()
			act()
			synctest.Wait()
			if now != next {
				counted[fmt.Sprintf("breaker_transitions_total %s %s", now, next)]++ // labels in alphabetical order: from, to
			}
			now = next
			is(now)
		}
		open := func() { r.ForceOpen(0) }
		closed := func() { r.ForceClosed(0) }
		for _, below := range []string{"closed", "open", "half_open"} {
			switch below {
			case "open":
				r.server.Default(testserver.Status(500))
				to("open", func() { r.get(r.Context()) })
			case "half_open":
				time.Sleep(30*time.Second + 1)
				to("half_open", func() { r.State() })
			}
			to("forced_open", open)
			to("forced_open", open)
			to("forced_closed", closed)
			to(below, r.Automatic)
			to(below, r.Automatic)
			to("forced_closed", closed)
			to("forced_open", open)
			to(below, r.Automatic)
		}
		to("open", func() { r.get(r.Context()) })
		time.Sleep(30*time.Second + 1)
		to("half_open", func() { r.State() })
		to("closed", r.works)
		for name, n := range counted {
			if n == 0 {
				r.Errorf("%s was not seen", name)
			}
		}
		r.outcomes(map[string]float64{"error_status": 2, "success": 1})
	})
}

// One WARN for each, which says that it was by force, and on the way back why the breaker is open; nothing for the same again.
func TestForcedLogs(t *testing.T) {
	var log bytes.Buffer
	inBoth(t, setting{cfg: trips(1, permits(2)), opts: []resilient.Option{textLog(&log)}}, func(r *rig) {
		is := func(want string, act func()) {
			r.Helper()
			if got := logged(&log, func() { act(); synctest.Wait() }); got != want {
				r.Errorf("logged %s\nwant   %s", got, want)
			}
		}
		const warn = "level=WARN msg=\"circuit breaker "
		is(warn+`forced_open" system=sber prev_state=closed new_state=forced_open reason=forced`, func() { r.ForceOpen(time.Second) })
		is("", func() { r.ForceOpen(2 * time.Second) })
		is("", func() { time.Sleep(2 * time.Second) })
		is(warn+`closed" system=sber prev_state=forced_open new_state=closed`, func() { r.State() })
		is(warn+`open" system=sber prev_state=closed new_state=open reason=consecutive_failures failure_rate=1`, func() {
			r.server.Default(testserver.Status(500))
			r.get(r.Context())
		})
		is(warn+`forced_closed" system=sber prev_state=open new_state=forced_closed reason=forced`, func() { r.ForceClosed(0) })
		is(warn+`open" system=sber prev_state=forced_closed new_state=open reason=consecutive_failures failure_rate=1`, r.Automatic)
		is(warn+`half_open" system=sber prev_state=open new_state=half_open`, func() { time.Sleep(30*time.Second + 1); r.State() })
		is(warn+`open" system=sber prev_state=half_open new_state=open failed_probe=true`, func() { r.get(r.Context()) })
	})
}

// The breaker is open by hand while hung calls hold all permits: nobody waits for one only to hear that (B-13).
func TestCase_B13_Forced(t *testing.T) {
	inBoth(t, setting{cfg: permits(2)}, func(r *rig) {
		r.server.Default(testserver.HangBeforeHeaders())
		for range 2 {
			go r.get(r.Context())
		}
		synctest.Wait()
		r.held(2)
		again, err := r.reg.Client("sber") // another handle
		if err != nil {
			r.Fatal(err)
		}
		again.ForceOpen(time.Minute)
		for range 2 {
			if d := took(func() {
				_, err := r.get(r.Context())
				r.is(err, resilient.ErrCircuitOpen, resilient.ErrUnavailable)
				if e, ok := errors.AsType[*resilient.OpenError](err); !ok || !e.Forced || !resilient.NotSent(err) {
					r.Error(err)
				}
				if code, after, ok := resilient.StatusCode(err); code != 503 || after < 59*time.Second || !ok {
					r.Errorf("%d, %v, %v", code, after, ok)
				}
				ran := false
				_, err = resilient.Execute(r.Context(), r.Client, func(context.Context) (int, error) { ran = true; return 0, nil })
				if r.is(err, resilient.ErrCircuitOpen); ran {
					r.Error("ran")
				}
			}); d != 0 {
				r.Errorf("refused after %v", d)
			}
			time.Sleep(600 * time.Millisecond)
		}
		if n := r.server.Stats().Concurrent; n != 2 {
			r.Errorf("%d at the server: those under way go on", n)
		}
		time.Sleep(time.Minute)
		r.works()
		r.outcomes(map[string]float64{"timeout": 2, "refused_open": 2, "success": 1})
	})
}

// Scrapes, looks, reloads, forced states and requests at once: everybody finishes, and each snapshot adds up (M-07, R-09, B-16).
func TestCase_M07_Reload(t *testing.T) {
	server, err := testserver.Start(testserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, opts := range [][]resilient.Option{nil, {resilient.Observe()}} {
		r := newRig(t, setting{cfg: permits(8), opts: append(opts, resilient.OnStateChange(func(resilient.Transition) {}), resilient.WithDialContext(server.Dial))})
		var stop atomic.Bool
		var all sync.WaitGroup
		again := func(f func(i int)) {
			all.Go(func() {
				for i := 0; !stop.Load(); i++ {
					f(i)
				}
			})
		}
		again(func(int) { r.conserved() })
		again(func(int) {
			if s := r.State(); s.Bulkhead.Waiting < 0 || s.InFlight < 0 || len(s.Transitions) > 10 {
				t.Errorf("%+v", s)
			}
		})
		again(func(i int) {
			if err := r.Reconfigure(permits(1 + i%8)); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
		})
		again(func(i int) {
			[]func(){func() { r.ForceOpen(time.Millisecond) }, func() { r.ForceClosed(0) }, r.Automatic}[i%3]()
			time.Sleep(time.Millisecond)
		})
		for range 8 {
			again(func(int) {
				resp, err := r.RoundTrip(r.request(context.Background(), "GET", nil))
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if err != nil && (opts != nil || !errors.Is(err, resilient.ErrUnavailable)) {
					t.Error(err)
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		stop.Store(true)
		all.Wait()
		r.Automatic()
		r.held(0)
		if s := r.State(); s.Bulkhead.Waiting != 0 || s.Bulkhead.MaxConcurrent != s.Config.Bulkhead.MaxConcurrent {
			t.Errorf("%+v", s)
		}
		if _, err := r.get(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
