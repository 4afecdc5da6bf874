package transport_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

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
