package transport_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

func (j *judge) reconfigure(b config.Breaker) (pending bool) {
	j.Helper()
	return j.Reconfigure(complete(j.T, config.Config{Breaker: b}))
}

// Rules change in place: what is in the window counts on, by the new ones, from the next failure.
func TestRulesChangeInPlace(t *testing.T) {
	many := strings.Repeat
	for name, row := range map[string]struct {
		before   config.Breaker
		do       string
		after    config.Breaker
		then     string
		want     string
		failures string
	}{
		"a lower ratio": {before: config.Breaker{FailureRatio: 0.9}, do: "sssssffff", after: config.Breaker{FailureRatio: 0.5}, then: "f", want: "open"},
		"a lower ratio, no failure since": {before: config.Breaker{FailureRatio: 0.9}, do: "ssssssffff",
			after: config.Breaker{FailureRatio: 0.3}, then: "ss", want: "closed"},
		"a higher ratio":                {before: config.Breaker{FailureRatio: 0.5}, do: "sssssffff", after: config.Breaker{FailureRatio: 0.9}, then: "f", want: "closed"},
		"fewer requests":                {do: "fff", after: config.Breaker{MinRequests: 4}, then: "f", want: "open"},
		"more requests":                 {do: many("f", 9), after: config.Breaker{MinRequests: 12}, then: "f", want: "closed"},
		"fewer in a row":                {do: "s" + many("s", 90) + "ff", after: config.Breaker{ConsecutiveFailures: 3}, then: "f", want: "open"},
		"no number in a row":            {do: many("s", 90) + many("f", 15), after: config.Breaker{ConsecutiveFailures: config.Off}, then: "f", want: "closed"},
		"a number in a row again":       {before: config.Breaker{ConsecutiveFailures: config.Off}, do: many("s", 90) + many("f", 20), then: "f", want: "open"},
		"all of them, and back at once": {do: "ffff", after: config.Breaker{MinRequests: 10, FailureRatio: 0.5}, then: many("f", 6), want: "open"},
	} {
		synctest.Test(t, func(t *testing.T) {
			j := newJudge(t, row.before)
			_ = j.do(row.do)
			if pending := j.reconfigure(row.after); pending {
				t.Errorf("%s: pending", name)
			}
			j.is("closed")
			_ = j.do(row.then)
			if got := j.State().State; got != row.want {
				t.Errorf("%s: %s, want %s", name, got, row.want)
			}
		})
	}
}

// What a failure is changes in place too, also for exchanges under way; the classifier stays.
func TestVerdictsChangeInPlace(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		cfg := r.cfg
		do := func(code int, wait time.Duration) {
			r.server.Default(testserver.After(wait, testserver.Status(code)))
			_, _ = r.get(r.Context(), r.all())
		}
		do(404, 0)
		r.state("closed")
		cfg.Breaker.FailureStatus = "404"
		r.breaker.Reconfigure(cfg)
		do(500, 0)
		r.state("closed")
		cfg.Breaker.FailureStatus, cfg.Breaker.SlowCall = "500-599", sec
		done := make(chan struct{})
		go func() { defer close(done); do(200, 2*sec) }()
		synctest.Wait()
		r.breaker.Reconfigure(cfg)
		<-done
		r.state("open")
	})
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, oneFailure)
		j.Classify(func(*http.Response, error) transport.Verdict { return transport.Success })
		j.reconfigure(config.Breaker{MinRequests: 1, ConsecutiveFailures: 1})
		if err := j.do("f"); err != errDown {
			t.Error(err)
		}
		j.is("closed")
	})
}

// changes are those that need a new gobreaker.
var changes = map[string]func(b *config.Breaker){
	"Window":         func(b *config.Breaker) { b.Window = time.Minute },
	"OpenFor":        func(b *config.Breaker) { b.OpenFor = 10 * sec },
	"HalfOpenProbes": func(b *config.Breaker) { b.HalfOpenProbes = 1 },
}

// While it is closed a breaker begins a new window, without a transition; with the settings it had it goes on with its own.
func TestNewWindowWhileClosed(t *testing.T) {
	changes := map[string]func(b *config.Breaker){"nothing": func(*config.Breaker) {},
		"Window": changes["Window"], "OpenFor": changes["OpenFor"], "HalfOpenProbes": changes["HalfOpenProbes"]}
	for name, change := range changes {
		synctest.Test(t, func(t *testing.T) {
			cfg := config.Breaker{MinRequests: 4, ConsecutiveFailures: 5}
			j := newJudge(t, cfg)
			var told []transport.Transition
			j.OnTransition(func(tr transport.Transition) { told = append(told, tr) })
			_ = j.do("fff")
			change(&cfg)
			for range 3 { // the second and third change nothing
				if j.reconfigure(cfg) {
					t.Errorf("%s: pending", name)
				}
			}
			_ = j.do("f")
			if got, want := j.State().State, map[bool]string{true: "open", false: "closed"}[name == "nothing"]; got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
			_ = j.do("fff")
			j.is("open")
			full := complete(t, config.Config{Breaker: cfg}).Breaker
			if s := j.State(); time.Until(s.OpenUntil) != full.OpenFor {
				t.Errorf("%s: open for %v", name, time.Until(s.OpenUntil))
			}
			time.Sleep(full.OpenFor + 1)
			for range full.HalfOpenProbes {
				j.is("half_open")
				_ = j.do("s")
			}
			j.is("closed")
			if len(told) != 3 || told[0].FailureRate != 1 {
				t.Errorf("%s: told %v", name, told)
			}
		})
	}
}

// While it is open or half-open a breaker goes on as it is until it has closed.
func TestOldSettingsUntilClosed(t *testing.T) {
	for name, change := range changes {
		for _, state := range []string{"open", "half_open"} {
			synctest.Test(t, func(t *testing.T) {
				cfg := config.Breaker{MinRequests: 2, HalfOpenProbes: 2, OpenFor: 20 * sec}
				j := newJudge(t, cfg)
				_ = j.do("ff")
				if state == "half_open" {
					time.Sleep(20*sec + 1)
					j.is("half_open")
					_ = j.do("s")
				}
				change(&cfg)
				for range 2 {
					if !j.reconfigure(cfg) {
						t.Errorf("%s: not pending", name)
					}
				}
				j.is(state)
				if state == "open" {
					time.Sleep(20 * sec)
					j.is("open")
					time.Sleep(1)
					_ = j.do("s")
				}
				j.is("half_open") // one of two probes
				_ = j.do("f")
				if s := j.State(); s.State != "open" || time.Until(s.OpenUntil) != 20*sec {
					t.Errorf("%s: %+v", name, s)
				}
				time.Sleep(20*sec + 1)
				_ = j.do("ss")
				j.is("closed")
				if j.reconfigure(cfg) {
					t.Errorf("%s: still pending", name)
				}
				_ = j.do("ff")
				full := complete(t, config.Config{Breaker: cfg}).Breaker
				if s := j.State(); s.State != "open" || time.Until(s.OpenUntil) != full.OpenFor {
					t.Errorf("%s: %+v, want the new OpenFor", name, s)
				}
				time.Sleep(full.OpenFor + 1)
				_ = j.do(strings.Repeat("s", full.HalfOpenProbes))
				j.is("closed")
			})
		}
	}
}

// Of changes that wait for the breaker to close the last one counts, and one back to what it has is none.
func TestPendingChangeIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 1}
		with := func(d time.Duration) config.Breaker { b := old; b.OpenFor = d; return b }
		j := newJudge(t, old)
		_ = j.do("f")
		if !j.reconfigure(with(5*sec)) || !j.reconfigure(with(7*sec)) {
			t.Error("not pending")
		}
		time.Sleep(30*sec + 1)
		_ = j.do("s")
		j.is("closed")
		_ = j.do("f")
		if d := time.Until(j.State().OpenUntil); d != 7*sec {
			t.Errorf("open for %v, want the last change's", d)
		}
		if !j.reconfigure(with(9*sec)) || j.reconfigure(with(7*sec)) {
			t.Error("pending, and nothing is to change")
		}
		time.Sleep(7*sec + 1)
		_ = j.do("s")
		_ = j.do("f")
		if d := time.Until(j.State().OpenUntil); d != 7*sec {
			t.Errorf("open for %v", d)
		}
	})
}

// Exchanges report to the window that admitted them: what they say late is nothing to the new one, even if it would have tripped
// the old one, or does.
func TestLateReportsGoToTheOldWindow(t *testing.T) {
	for _, how := range []string{"Allow", "exchange", "stream"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, testserver.Options{Memory: true}, config.Config{Breaker: config.Breaker{MinRequests: 2, FailureRatio: 1, ConsecutiveFailures: 2, HalfOpenProbes: 1}})
			told := 0
			r.breaker.OnTransition(func(transport.Transition) { told++ })
			ctx := r.Context()
			if how == "stream" {
				ctx = transport.WithBounds(ctx, transport.Bounds{Total: transport.Unbounded})
			}
			var all sync.WaitGroup
			r.server.Default(testserver.After(2*sec, testserver.Status(500)))
			for range 4 {
				if how != "Allow" {
					all.Go(func() { _, _ = r.get(ctx, r.all()) })
					continue
				}
				done, err := r.breaker.Allow()
				if err != nil {
					t.Fatal(err)
				}
				all.Go(func() { time.Sleep(2 * sec); done(transport.Failure) })
			}
			synctest.Wait()
			cfg := r.cfg
			cfg.Breaker.Window = time.Minute
			r.breaker.Reconfigure(cfg)
			time.Sleep(2*sec + 1)
			all.Wait()
			r.state("closed")
			if err := r.probe(); err != nil || told != 0 {
				t.Errorf("%s: %v, %d transitions told", how, err, told)
			}
			r.server.Default(testserver.Status(500))
			_, _ = r.get(ctx, r.all())
			r.state("closed")
			_, _ = r.get(ctx, r.all())
			r.state("open")
		})
	}
}

// Nobody is refused for what a window has seen that was replaced while they asked: without a transition to open there is no refusal.
func TestNoRefusalByAReplacedWindow(t *testing.T) {
	settings := [2]config.Config{complete(t, oneProbe), complete(t, oneProbe)}
	settings[1].Breaker.OpenFor = time.Hour
	for i := range 20_000 {
		b := transport.NewBreaker("sber", settings[0])
		done, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		var refused atomic.Int32
		var all sync.WaitGroup
		all.Go(func() { b.Reconfigure(settings[1]) })
		all.Go(func() { done(transport.Failure) })
		for range 2 {
			all.Go(func() {
				if _, err := b.Allow(); err != nil {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if b.State().State == "closed" && refused.Load() > 0 {
			t.Fatalf("%d: %d refused by a breaker that never opened", i, refused.Load())
		}
	}
}

// Of two that reconfigure at once one is the last, in everything.
func TestConcurrentReconfigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := [2]config.Config{}
		for i := range settings {
			settings[i] = complete(t, config.Config{Breaker: config.Breaker{MinRequests: 1 + i, ConsecutiveFailures: config.Off, OpenFor: time.Duration(1+i) * time.Minute}})
		}
		for i := range 8000 {
			b := transport.NewBreaker("sber", complete(t, config.Config{}))
			var all sync.WaitGroup
			for _, cfg := range settings {
				all.Go(func() { b.Reconfigure(cfg) })
			}
			all.Wait()
			failures := 0
			for ; b.State().State == "closed"; failures++ {
				if done, err := b.Allow(); err == nil {
					done(transport.Failure)
				}
			}
			if openFor := time.Until(b.State().OpenUntil); openFor != time.Duration(failures)*time.Minute {
				t.Fatalf("%d: opened after %d failures, for %v: the settings are mixed", i, failures, openFor)
			}
		}
	})
}

// Under load from all sides swaps lose nobody: who is admitted can report, and the breaker of the last settings works by them.
func TestReconfigureUnderLoad(t *testing.T) {
	setting := func(i int) config.Config {
		return complete(t, config.Config{Breaker: config.Breaker{MinRequests: 3, ConsecutiveFailures: 3, HalfOpenProbes: 1 + i%3,
			OpenFor: time.Duration(20+i%7) * time.Microsecond, FailureRatio: 0.5 + float64(i%5)/10}})
	}
	b := transport.NewBreaker("sber", setting(0))
	good, bad := b.Wrap(answer(200)), b.Wrap(answer(500))
	var all, swaps sync.WaitGroup
	var stop atomic.Bool
	for range 2 {
		swaps.Go(func() {
			for i := 0; !stop.Load(); i++ {
				b.Reconfigure(setting(i))
				time.Sleep(10 * time.Microsecond)
			}
		})
	}
	for i := range 4 {
		all.Go(func() {
			for n := range 5000 {
				rt := good
				if (n/20+i)%3 == 0 {
					rt = bad
				}
				if _, err := read(rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))); err != nil && !errors.Is(err, transport.ErrCircuitOpen) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	stop.Store(true)
	swaps.Wait()
	ok := 0
	for deadline := time.Now().Add(10 * sec); ok < 3 && time.Now().Before(deadline); {
		if _, err := read(good.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))); err == nil {
			ok++
		}
	}
	if s := b.State(); s.State != "closed" || ok < 3 {
		t.Fatalf("%+v after %d successes", s, ok)
	}
	final := complete(t, config.Config{Breaker: config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 1, OpenFor: time.Hour}})
	if b.Reconfigure(final) {
		t.Error("pending")
	}
	_, _ = read(bad.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil)))
	if s := b.State(); s.State != "open" || time.Until(s.OpenUntil) < 59*time.Minute {
		t.Errorf("%+v", s)
	}
}

// New bounds are for exchanges that begin from then on; those under way keep theirs.
func TestTimeoutsReconfigure(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		r.server.Default(testserver.HangBeforeHeaders())
		rt := r.timeouts.Wrap(r.base)
		old := make(chan error, 1)
		go func() { _, err := r.get(r.Context(), rt); old <- err }()
		time.Sleep(sec)
		cfg := r.cfg
		cfg.ConnectTimeout, cfg.ReadTimeout, cfg.TotalTimeout = 100*ms, sec, 2*sec
		r.timeouts.Reconfigure(cfg)
		if d := took(func() { _, err := r.get(r.Context(), rt); isTimeout(r, err, transport.PhaseRead, sec) }); d != sec {
			r.Errorf("after %v", d)
		}
		r.server.Default(testserver.Trickle(1, 500*ms, -1))
		if d := took(func() { _, err := r.get(r.Context(), rt); isTimeout(r, err, transport.PhaseTotal, 2*sec) }); d != 2*sec {
			r.Errorf("after %v", d)
		}
		if d := took(func() { isTimeout(r, <-old, transport.PhaseRead, 5*sec) }); d != sec {
			r.Errorf("the old one ended %v later", d)
		}
	})
}

// Once HTTP/2 was allowed a request whose body can be had again may have been sent before a dial fails, for good.
func TestTimeoutsReconfigureProtocol(t *testing.T) {
	cfg := complete(t, config.Config{})
	with := cfg
	with.Protocol = config.HTTP2
	timeouts := transport.NewTimeouts("sber", cfg)
	base := transport.Base(cfg)
	base.DialContext = (&transport.Dialer{Timeout: cfg.ConnectTimeout, Dial: refuse}).DialContext
	rt := timeouts.Wrap(base)
	for i, step := range []struct {
		cfg  config.Config
		want bool
	}{{cfg, true}, {with, false}, {cfg, false}} {
		timeouts.Reconfigure(step.cfg)
		_, err := rt.RoundTrip(newRequest(t, t.Context(), "POST", "http://sber.test/", strings.NewReader("x")))
		if got := transport.NotSent(err); got != step.want {
			t.Errorf("%d: %v: NotSent is %v", i, err, got)
		}
	}
}

// Over a base that is not ours nothing is known of its connecting: no dial proves anything, and no limit is ours.
func TestForeignTimeouts(t *testing.T) {
	cfg := complete(t, config.Config{ConnectTimeout: 300 * ms, ReadTimeout: 2 * sec, TotalTimeout: 3 * sec})
	timeouts := transport.NewForeignTimeouts("sber", cfg)
	synctest.Test(t, func(t *testing.T) {
		rt := timeouts.Wrap(fake(hang))
		send := func() error {
			_, err := rt.RoundTrip(newRequest(t, t.Context(), "POST", "http://sber.test/", http.NoBody))
			return err
		}
		if d := took(func() { isTimeout(t, send(), transport.PhaseRead, 2*sec) }); d != 2*sec {
			t.Errorf("after %v", d)
		}
		other := cfg
		other.ReadTimeout, other.TotalTimeout = sec, 2*sec
		timeouts.Reconfigure(other)
		if d := took(func() { isTimeout(t, send(), transport.PhaseRead, sec) }); d != sec {
			t.Errorf("after %v", d)
		}
	})
	for _, own := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server, err := testserver.Start(testserver.Options{Protocol: testserver.HTTPS, Memory: true, AcceptDelay: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			base := transport.Base(cfg)
			base.DialContext, base.TLSClientConfig = server.Dial, server.TLS()
			defer base.CloseIdleConnections()
			wrap, limit := transport.NewForeignTimeouts("sber", cfg).Wrap, time.Duration(0)
			if own {
				wrap, limit = transport.NewTimeouts("sber", cfg).Wrap, cfg.ConnectTimeout
			}
			_, err = wrap(base).RoundTrip(newRequest(t, t.Context(), "POST", server.URL(), nil))
			isTimeout(t, err, transport.PhaseTLS, limit)
			if transport.NotSent(err) != own {
				t.Errorf("own %v: NotSent is %v", own, !own)
			}
			base.DialContext = refuse
			_, err = wrap(base).RoundTrip(newRequest(t, t.Context(), "POST", server.URL(), nil))
			if transport.NotSent(err) {
				t.Errorf("own %v: %v: a dial that is not ours proves nothing", own, err)
			}
		})
	}
}

// Allow is for what is no exchange: done counts once, however late, and a half-open breaker waits for it no longer than for an exchange.
func TestAllow(t *testing.T) {
	allow := func(j *judge) func(transport.Verdict) {
		j.Helper()
		done, err := j.Allow()
		if err != nil {
			j.Fatal(err)
		}
		return done
	}
	in := func(name string, cfg config.Breaker, f func(j *judge)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(newJudge(t, cfg)) }) })
	}
	in("counts once", config.Breaker{MinRequests: 2, ConsecutiveFailures: 2}, func(j *judge) {
		done := allow(j)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { done(transport.Failure) })
		}
		all.Wait()
		j.is("closed")
		done = allow(j)
		done(transport.Success)
		done(transport.Failure)
		j.is("closed")
		_ = j.do("f")
		j.is("open")
	})
	in("late", config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 1}, func(j *judge) {
		early := allow(j)
		_ = j.do("f")
		early(transport.Success) // of the time before
		j.is("open")
		time.Sleep(30*sec + 1)
		early(transport.Failure)
		j.is("half_open")
	})
	in("half-open", config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 2}, func(j *judge) {
		_ = j.do("f")
		time.Sleep(30*sec + 1)
		first, second := allow(j), allow(j)
		if _, err := j.Allow(); fmt.Sprint(err) != "transport: sber: circuit half open, and all its probes are taken" {
			j.Error(err)
		}
		first(transport.Success)
		time.Sleep(14*sec - 1)
		if _, err := j.Allow(); err == nil {
			j.Error("the second one's slot is free")
		}
		time.Sleep(1) // twice TotalTimeout
		synctest.Wait()
		third := allow(j)
		second(transport.Failure) // too late to say anything
		j.is("half_open")
		third(transport.Success)
		j.is("closed")
	})
	in("half-open, by the TotalTimeout in force", config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 1}, func(j *judge) {
		_ = j.do("f")
		time.Sleep(30*sec + 1)
		j.Reconfigure(complete(j.T, config.Config{ReadTimeout: 2 * sec, TotalTimeout: 4 * sec,
			Breaker: config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 1}}))
		lost := allow(j)
		time.Sleep(8 * sec)
		synctest.Wait()
		allow(j)(transport.Success)
		j.is("closed")
		lost(transport.Failure)
		j.is("closed")
	})
	in("refused", oneFailure, func(j *judge) {
		_ = j.do("f")
		done, err := j.Allow()
		if done != nil || !errors.Is(err, transport.ErrCircuitOpen) {
			j.Error(err)
		}
		j.ForceOpen(0)
		done, err = j.Allow()
		if done != nil || !errors.Is(err, transport.ErrCircuitOpen) {
			j.Error(err)
		}
	})
	in("forced closed", oneFailure, func(j *judge) {
		j.ForceClosed(0)
		done := allow(j)
		j.Automatic()
		done(transport.Failure)
		j.is("closed")
	})
}
