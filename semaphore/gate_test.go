package semaphore

import (
	"testing"
	"time"
)

// While there are free permits and nobody waits, nobody needs the mutex.
func TestFastPathTakesNoLock(t *testing.T) {
	s := New("sber", Limits{MaxConcurrent: 2})
	s.State() // shuts the gate, and opens it again
	s.mu.Lock()
	defer s.mu.Unlock()
	done := make(chan bool)
	go func() {
		defer close(done)
		if _, err := s.Acquire(t.Context(), 0); err != nil {
			t.Error(err)
		}
		if !s.TryAcquire() {
			t.Error("no permit")
		}
		s.Release()
		s.Release()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("blocked")
	}
}

// The alarm is for all who are due in the queue's order, those at the same moment included: only who is due earlier needs a timer.
func TestWhoNeedsATimer(t *testing.T) {
	s := New("sber", Limits{MaxConcurrent: 1, MaxWaiting: 9})
	defer func() { s.alarm.timer.Stop() }()
	for _, w := range []struct {
		due   time.Duration
		alone bool
	}{{time.Hour, false}, {time.Hour, false}, {time.Minute, true}, {2 * time.Hour, false}, {time.Hour, true}} {
		if got := s.alarm.takes(&waiter{due: w.due}, w.due, s); got == w.alone {
			t.Errorf("due after %v: the alarm takes it: %t", w.due, got)
		}
	}
}
