//go:build !race

package semaphore_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/resilient-go/resilient/semaphore"
)

// W-08: no timer, goroutine or anything else is made on the fast path; only the error in a refusal; nothing for a hand-off, once
// the queue has been in use. (Not under the race detector, which makes sync.Pool forget.)
func TestAllocs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 1})
	measure := func(name string, want float64, f func()) {
		t.Helper()
		if got := testing.AllocsPerRun(1000, f); got != want {
			t.Errorf("%s: %v allocations, want %v", name, got, want)
		}
	}
	measure("fast path", 0, func() {
		p, err := s.Acquire(ctx, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		p.Release()
	})
	measure("fast path, TryAcquire", 0, func() {
		if !s.TryAcquire() {
			t.Fatal("full")
		}
		s.Release()
	})
	n := 0
	add := func(_ context.Context, i int) (int, error) { n += i; return n, nil }
	guarded := semaphore.Guard(s, time.Hour, add)
	measure("Do", 0, func() {
		if _, err := semaphore.Do(ctx, s, time.Hour, func(ctx context.Context) (int, error) { return add(ctx, 1) }); err != nil {
			t.Fatal(err)
		}
	})
	measure("Guard", 0, func() {
		if _, err := guarded(ctx, 1); err != nil {
			t.Fatal(err)
		}
	})
	r := semaphore.NewRegistry()
	release, err := r.Own(s)
	if err != nil {
		t.Fatal(err)
	}
	measure("an owner's", 0, func() {
		b, err := r.Get("sber")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := semaphore.Do(ctx, b, time.Hour, func(ctx context.Context) (int, error) { return add(ctx, 1) }); err != nil {
			t.Fatal(err)
		}
	})
	release()

	hold(t, s, 1)
	measure("refusal", 1, func() {
		if _, err := s.Acquire(ctx, 0); !errors.Is(err, semaphore.ErrUnavailable) {
			t.Fatal(err)
		}
	})
	measure("refusal after a wait", 1, func() {
		if _, err := s.Acquire(ctx, time.Microsecond); !errors.Is(err, semaphore.ErrUnavailable) {
			t.Fatal(err)
		}
	})
	measure("State", 0, func() { _ = s.State() })

	stop, stopped := false, make(chan bool)
	go func() {
		defer close(stopped)
		for over := false; !over; {
			if _, err := s.Acquire(ctx, time.Hour); err != nil {
				t.Error(err)
				return
			}
			over = stop // which the permit guards
			s.Release()
		}
	}()
	measure("hand-off", 0, func() {
		for s.State().Waiting == 0 {
			runtime.Gosched()
		}
		s.Release()
		if _, err := s.Acquire(ctx, time.Hour); err != nil {
			t.Fatal(err)
		}
	})
	stop = true
	s.Release()
	<-stopped
}
