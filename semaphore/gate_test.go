package semaphore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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

// Who is told that its time is over as its caller leaves takes the word along: the next one to use its place would believe it.
func TestNoWordIsLeft(t *testing.T) {
	s := New("sber", Limits{MaxConcurrent: 1, MaxWaiting: 9})
	if !s.TryAcquire() {
		t.Fatal("no permit")
	}
	w, err := s.enqueue(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.alarm.rang(&s.queue, w.due)
	s.mu.Unlock()
	if n := len(w.outcome); n != 1 {
		t.Fatalf("%d words", n)
	}
	if err := s.withdraw(w, context.Canceled, time.Hour); err != context.Canceled || len(w.outcome) != 0 {
		t.Errorf("%v, %d words are left", err, len(w.outcome))
	}
	s.alarm.timer.Stop()
}

// The shortest wait is one.
func TestWaitOfANanosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New("sber", Limits{MaxConcurrent: 1, MaxWaiting: 1})
		s.TryAcquire()
		_, err := s.Acquire(t.Context(), 1)
		if full, ok := errors.AsType[*FullError](err); !ok || full.Reason != ReasonWaited || full.Waited != 1 {
			t.Errorf("%+v", err)
		}
	})
}
