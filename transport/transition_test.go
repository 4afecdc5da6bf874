package transport_test

import (
	"fmt"
	"runtime"
	"slices"
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

var oneFailure = config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 1}

func TestTransitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, config.Breaker{MinRequests: 4, FailureRatio: 0.5, ConsecutiveFailures: config.Off, HalfOpenProbes: 1})
		var got []string
		j.OnTransition(func(tr transport.Transition) {
			got = append(got, fmt.Sprintf("%s %s>%s %.2f %s", tr.System, tr.From, tr.To, tr.FailureRate, tr.Reason))
		})
		_ = j.do("sfff")
		time.Sleep(30*time.Second + 1)
		_ = j.do("f")
		time.Sleep(30*time.Second + 1)
		_ = j.do("s")
		_ = j.do("sff" + "f")
		want := []string{
			"sber closed>open 0.75 failure_ratio", "sber open>half_open 0.00 ", "sber half_open>open 0.00 failed_probe",
			"sber open>half_open 0.00 ", "sber half_open>closed 0.00 ", "sber closed>open 0.75 failure_ratio",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
	})
}

// A hook may ask the breaker anything and use it: no lock is held (B-14).
func TestHookUsesTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		var got []string
		r.breaker.OnTransition(func(tr transport.Transition) {
			_, err := r.get(t.Context(), r.all())
			got = append(got, fmt.Sprint(tr.To, " ", r.breaker.State().State, " ", r.breaker.Peek() == nil, " ", err == nil))
		})
		r.trip()
		time.Sleep(r.cfg.Breaker.OpenFor + 1)
		if _, err := r.get(t.Context(), r.all()); err != nil {
			t.Error(err)
		}
		want := []string{"open open false false", "half_open half_open true false", "closed closed true true"} // the probe is taken by who makes the transition
		if !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
	})
}

func TestHookPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, oneFailure)
		n := 0
		j.OnTransition(func(transport.Transition) { n++; panic("boom") })
		_ = j.do("f")
		time.Sleep(30*time.Second + 1)
		_ = j.do("s")
		j.is("closed")
		if n != 3 {
			t.Errorf("%d transitions told", n)
		}
	})
}

// A hook that ends its goroutine loses no transition and no slot, where it is
// called at an exchange's end or by State.
func TestHookGoexits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, oneFailure)
		var got []string
		j.OnTransition(func(tr transport.Transition) { got = append(got, tr.To); runtime.Goexit() })
		swallow(func() { _ = j.do("f") })
		time.Sleep(30*time.Second + 1)
		swallow(func() { _ = j.State() })
		swallow(func() { _ = j.do("s") })
		j.is("closed")
		synctest.Wait() // State does not wait for hooks
		if want := "[open half_open closed]"; fmt.Sprint(got) != want {
			t.Errorf("got %v", got)
		}
	})
}

// While a hook blocks, everybody else goes on, and it is told the rest after.
func TestHookBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, oneFailure)
		unblock := make(chan struct{})
		var got []string
		j.OnTransition(func(tr transport.Transition) { <-unblock; got = append(got, tr.To) })
		go j.do("f")
		synctest.Wait()
		time.Sleep(30*time.Second + 1)
		d := took(func() {
			if j.Peek() != nil || j.do("s") != nil || j.State().State != "closed" || j.do("f") == nil || j.Peek() == nil {
				t.Error("not as without a hook")
			}
		})
		if d != 0 || len(got) != 0 {
			t.Errorf("%v, %v", d, got)
		}
		close(unblock)
		synctest.Wait()
		if want := "[open half_open closed open]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
}

// Under load from all sides: each transition once, in order, one at a time.
func TestTransitionsUnderLoad(t *testing.T) {
	b := transport.NewBreaker("sber", complete(t, config.Config{Breaker: config.Breaker{
		MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 2, OpenFor: 20 * time.Microsecond,
	}}))
	var inside atomic.Int32
	var mu sync.Mutex // guards seen
	var seen []transport.Transition
	b.OnTransition(func(tr transport.Transition) {
		if inside.Add(1) != 1 {
			t.Error("two at a time")
		}
		mu.Lock()
		seen = append(seen, tr)
		n := len(seen)
		mu.Unlock()
		if n%7 == 0 {
			defer inside.Add(-1)
			panic("boom")
		}
		runtime.Gosched()
		inside.Add(-1)
	})
	good, bad := b.Wrap(answer(200)), b.Wrap(answer(500))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 2000 {
				rt := good
				if (n+i)%5 == 0 {
					rt = bad
				}
				_, _ = read(rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil)))
				if n%50 == 0 {
					_ = b.State()
					time.Sleep(time.Microsecond)
				}
			}
		})
	}
	all.Wait()
	last := b.State().State
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // State does not wait for hooks
		mu.Lock()
		told := len(seen) > 0 && seen[len(seen)-1].To == last
		mu.Unlock()
		if told || time.Now().After(deadline) {
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) < 10 {
		t.Fatalf("only %d transitions", len(seen))
	}
	state := "closed"
	for i, tr := range seen {
		if tr.From != state || !strings.Contains("closed>open open>half_open half_open>open half_open>closed", tr.From+">"+tr.To) {
			t.Fatalf("%d: %+v after %s", i, tr, state)
		}
		state = tr.To
	}
	if state != last {
		t.Errorf("ends with %s, told until %s", last, state)
	}
}

// A hook that ends its goroutine, as t.FailNow does, while a probe is let
// through takes the probe's slot with it.
func TestHookGoexitsInBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, oneFailure)
		j.OnTransition(func(tr transport.Transition) {
			if tr.To == "half_open" {
				runtime.Goexit()
			}
		})
		_ = j.do("f")
		time.Sleep(30*time.Second + 1)
		swallow(func() { _ = j.do("s") })
		time.Sleep(time.Hour)
		if err := j.do("s"); err != nil {
			t.Errorf("an hour later: %v", err)
		}
	})
}
