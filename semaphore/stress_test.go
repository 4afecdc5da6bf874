package semaphore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resilient-go/resilient/semaphore"
)

// These tests use real goroutines and real time: they look for what synctest's order of events would not show.

// W-02, W-03, L-06: permits are conserved while grants, ends of waits and callers' ends race.
func TestStress(t *testing.T) {
	const permits, callers, rounds = 3, 64, 100
	s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: permits, MaxWaiting: callers / 2})
	var (
		all              sync.WaitGroup
		inside, rejected atomic.Int64
	)
	for range callers {
		all.Go(func() {
			for range rounds {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(100))*time.Microsecond)
				p, err := s.Acquire(ctx, time.Duration(rand.IntN(100))*time.Microsecond)
				switch {
				case err == nil:
					if n := inside.Add(1); n > permits {
						t.Errorf("%d inside", n)
					}
					if rand.IntN(4) == 0 {
						time.Sleep(10 * time.Microsecond)
					}
					inside.Add(-1)
					p.Release()
				case errors.Is(err, semaphore.ErrBulkheadFull):
					rejected.Add(1)
				case !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("unexpected %v", err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if got := s.State().Rejected; got != uint64(rejected.Load()) {
		t.Errorf("%d rejections counted, want %d", got, rejected.Load())
	}
	conserved(t, s, permits)
}

// W-07: a permit that comes free is never missed by the one who waits for it.
func TestPingPong(t *testing.T) {
	s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 3})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 20_000 {
				p, err := s.Acquire(t.Context(), 10*time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				p.Release()
			}
		})
	}
	all.Wait()
	conserved(t, s, 1)
}

// limits change and the state is read while permits come and go.
func TestResizeAndStateWhileHot(t *testing.T) {
	const small, large, callers = 1, 8, 32
	s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: large, MaxWaiting: callers})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var (
		all    sync.WaitGroup
		inside atomic.Int64
	)
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				p, err := s.Acquire(ctx, time.Duration(rand.IntN(2000))*time.Microsecond)
				if err != nil {
					continue
				}
				if n := inside.Add(1); n > large {
					t.Errorf("%d inside", n)
				}
				inside.Add(-1)
				p.Release()
			}
		})
	}
	all.Go(func() {
		for ctx.Err() == nil {
			s.Resize(semaphore.Limits{MaxConcurrent: small, MaxWaiting: 2})
			time.Sleep(50 * time.Microsecond)
			s.Resize(semaphore.Limits{MaxConcurrent: large, MaxWaiting: callers})
		}
	})
	all.Go(func() {
		var before semaphore.State
		for ctx.Err() == nil {
			st := s.State()
			switch {
			case st.Waiting > 0 && st.Active < st.MaxConcurrent:
				t.Errorf("somebody waits beside a free permit: %+v", st)
			case st.Active < 0 || st.Active > large || st.Waiting < 0 || st.Waiting > callers:
				t.Errorf("impossible: %+v", st)
			case st.Rejected < before.Rejected || st.Rejected != st.RejectedFull+st.RejectedWaited:
				t.Errorf("rejections went from %+v to %+v", before, st)
			}
			before = st
		}
	})
	all.Wait()
	conserved(t, s, large)
	s.Resize(semaphore.Limits{MaxConcurrent: small})
	conserved(t, s, small)
}

// Close races everything: each caller gets a permit, which it gives back, or one of the errors; and in the end none is left.
func TestCloseWhileHot(t *testing.T) {
	for range 100 {
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 2, MaxWaiting: 6})
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				if i == 6 {
					s.Close(errClosed)
				}
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(100))*time.Microsecond)
					p, err := s.Acquire(ctx, time.Duration(rand.IntN(100))*time.Microsecond)
					cancel()
					if err == nil {
						p.Release()
					}
				}
			})
		}
		all.Wait()
		if _, err := s.Acquire(t.Context(), time.Hour); err != errClosed {
			t.Errorf("got %v, want %v", err, errClosed)
		}
		conserved(t, s, 0)
	}
}
