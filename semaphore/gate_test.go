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
