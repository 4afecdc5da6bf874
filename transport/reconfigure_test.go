package transport_test

import (
	"errors"
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
