package transport_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/transport"
)

// Who sees that a forced state is over ends that one, not another that has been set meanwhile.
func TestForceSetWhileAnotherEnds(t *testing.T) {
	b := transport.NewBreaker("sber", complete(t, config.Config{}))
	b.OnTransition(func(transport.Transition) {}) // which has them wait for one another
	var looks sync.WaitGroup
	var stop atomic.Bool
	for range 3 {
		looks.Go(func() {
			for !stop.Load() {
				_ = b.Peek()
			}
		})
	}
	for i := range 10_000 {
		b.ForceClosed(1)
		b.ForceOpen(0)
		if s := b.State(); s.State != "forced_open" {
			t.Errorf("%d: %+v", i, s)
			break
		}
	}
	stop.Store(true)
	looks.Wait()
}

// Whatever races, each transition begins where the one before it ended, and the last one ends with what is seen; an end that is
// told belongs to the state that is told.
func TestForceUnderLoad(t *testing.T) {
	settings := func(openFor time.Duration) config.Config {
		return complete(t, config.Config{Breaker: config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 2, OpenFor: openFor}})
	}
	b := transport.NewBreaker("sber", settings(20*time.Microsecond))
	var mu sync.Mutex // guards told
	var told []transport.Transition
	kinds := map[string]int{}
	b.OnTransition(func(tr transport.Transition) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, tr)
		kinds[tr.From+">"+tr.To]++
	})
	var all sync.WaitGroup
	var stop atomic.Bool
	again := func(f func(i int)) {
		all.Go(func() {
			for i := 0; !stop.Load(); i++ {
				f(i)
			}
		})
	}
	for range 3 {
		again(func(i int) {
			if done, err := b.Allow(); err == nil {
				done(transport.Verdict(i % 3))
			}
		})
	}
	again(func(i int) {
		switch i % 4 {
		case 0:
			b.ForceOpen(time.Hour)
		case 1:
			b.ForceClosed(10 * time.Microsecond)
		default:
			b.Automatic()
		}
		time.Sleep(time.Microsecond)
	})
	again(func(i int) {
		b.Reconfigure(settings(time.Duration(20+i%2) * time.Microsecond))
		time.Sleep(20 * time.Microsecond)
	})
	again(func(int) { _ = b.Peek() })
	again(func(int) {
		s := b.State()
		ends := map[string]bool{"open": true, "forced_open": true, "forced_closed": true}[s.State]
		if s.OpenUntil.IsZero() == ends {
			t.Errorf("%+v", s)
			stop.Store(true)
		}
	})
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(kinds) >= 6
	}
	time.Sleep(300 * ms)
	for deadline := time.Now().Add(10 * sec); !enough() && time.Now().Before(deadline); time.Sleep(10 * ms) { // on a busy machine
	}
	stop.Store(true)
	all.Wait()
	b.Automatic()
	last := ""
	for range 100 { // of State's transitions the hook is told a moment later
		mu.Lock()
		told := told[len(told)-1].To
		mu.Unlock()
		if last = b.State().State; last == told {
			break
		}
		time.Sleep(ms)
	}
	mu.Lock()
	defer mu.Unlock()
	state := "closed"
	for i, tr := range told {
		if tr.From != state || tr.To == state || strings.HasPrefix(tr.To, "forced") != (tr.Reason == transport.Forced) {
			t.Fatalf("%d of %d: %+v after %s", i, len(told), tr, state)
		}
		state = tr.To
	}
	if state != last || len(kinds) < 6 {
		t.Errorf("ends with %s, told until %s; %v", last, state, kinds)
	}
}
