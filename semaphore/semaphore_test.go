package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resilient-go/resilient/semaphore"
)

var (
	_ semaphore.Bulkhead = (*semaphore.Semaphore)(nil)
	_ semaphore.Permit   = (*semaphore.Semaphore)(nil)
)

const ms = time.Millisecond

var errClosed = errors.New("closed")

// A call is an Acquire in a goroutine of its own. Before it is done, there is no err and nothing took any time.
type call struct{ outcome atomic.Pointer[outcome] }

type outcome struct {
	err  error
	took time.Duration
}

func start(ctx context.Context, s *semaphore.Semaphore, wait time.Duration) *call {
	c, began := new(call), time.Now()
	go func() {
		_, err := s.Acquire(ctx, wait)
		c.outcome.Store(&outcome{err, time.Since(began)})
	}()
	synctest.Wait()
	return c
}

func (c *call) done() bool { return c.outcome.Load() != nil }

func (c *call) get() outcome {
	if o := c.outcome.Load(); o != nil {
		return *o
	}
	return outcome{}
}

func (c *call) err() error          { return c.get().err }
func (c *call) took() time.Duration { return c.get().took }
func (c *call) String() string {
	if !c.done() {
		return "waiting"
	}
	return fmt.Sprintf("%v after %v", c.err(), c.took())
}

// pass lets time pass in a bubble, and all that happens by then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// hold takes n permits, which must be free.
func hold(t *testing.T, s *semaphore.Semaphore, n int) {
	t.Helper()
	for range n {
		if p, err := s.Acquire(t.Context(), 0); err != nil || p != semaphore.Permit(s) {
			t.Fatalf("Acquire() = %v, %v, want a permit", p, err)
		}
	}
}

// check compares the state's counts, given as in "2/3 active, 1/5 waiting, 0 full, 0 waited".
func check(t *testing.T, s *semaphore.Semaphore, want string) {
	t.Helper()
	st := s.State()
	got := fmt.Sprintf("%d/%d active, %d/%d waiting, %d full, %d waited",
		st.Active, st.MaxConcurrent, st.Waiting, st.MaxWaiting, st.RejectedFull, st.RejectedWaited)
	if got != want {
		t.Errorf("state is %s\nwant     %s", got, want)
	}
	if st.Rejected != st.RejectedFull+st.RejectedWaited {
		t.Errorf("%d rejected, but %d full and %d waited", st.Rejected, st.RejectedFull, st.RejectedWaited)
	}
}

// conserved checks that nothing is in use or waiting, and that there are exactly n permits.
func conserved(t *testing.T, s *semaphore.Semaphore, n int) {
	t.Helper()
	if st := s.State(); st.Active != 0 || st.Waiting != 0 {
		t.Errorf("%d active and %d waiting, want none", st.Active, st.Waiting)
	}
	got := 0
	for got <= n && s.TryAcquire() {
		got++
	}
	if got != n {
		t.Errorf("%d permits to take, want %d", got, n)
	}
	for range got {
		s.Release()
	}
}

func panics(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	f()
}

func TestTakesFreePermitsAtOnce(t *testing.T) {
	s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 3, MaxWaiting: 5})
	if s.Name() != "sber" {
		t.Errorf("Name() = %q", s.Name())
	}
	hold(t, s, 2)
	check(t, s, "2/3 active, 0/5 waiting, 0 full, 0 waited")
	if !s.TryAcquire() {
		t.Error("TryAcquire() = false with a free permit")
	}
	if s.TryAcquire() {
		t.Error("TryAcquire() = true without a free permit")
	}
	check(t, s, "3/3 active, 0/5 waiting, 0 full, 0 waited") // a TryAcquire is no rejection
	for range 3 {
		s.Release()
	}
	conserved(t, s, 3)
}

func TestRefusesAtOnce(t *testing.T) {
	for _, wait := range []time.Duration{0, -1, math.MinInt64} {
		synctest.Test(t, func(t *testing.T) {
			s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 2, MaxWaiting: 5})
			hold(t, s, 2)
			start(t.Context(), s, 10*ms)
			pass(5 * ms)

			p, err := s.Acquire(t.Context(), wait)
			if p != nil {
				t.Errorf("a permit %v beside the error", p)
			}
			want := &semaphore.FullError{System: "sber", Max: 2, Active: 2, Waiting: 1, Reason: semaphore.ReasonFull}
			if diff := cmp.Diff(error(want), err); diff != "" {
				t.Errorf("wait %v: %s", wait, diff)
			}
			if !s.State().LastRejection.Equal(time.Now()) {
				t.Errorf("last rejection at %v, want now", s.State().LastRejection)
			}
			check(t, s, "2/2 active, 1/5 waiting, 1 full, 0 waited")
			pass(5 * ms)
		})
	}
}

func TestRefusesAfterTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 5})
		hold(t, s, 1)
		if !s.State().LastRejection.IsZero() {
			t.Error("a rejection before the first")
		}
		for range 2 { // the second waiter is the first one's, used again
			short, long := start(t.Context(), s, 7*ms), start(t.Context(), s, 9*ms)
			check := func(c *call, want *semaphore.FullError) {
				t.Helper()
				if diff := cmp.Diff(error(want), c.err()); diff != "" || c.took() != want.Waited {
					t.Errorf("after %v: %s", c.took(), diff)
				}
				if !s.State().LastRejection.Equal(time.Now()) {
					t.Errorf("last rejection at %v, want now", s.State().LastRejection)
				}
			}
			pass(7 * ms)
			check(short, &semaphore.FullError{System: "sber", Max: 1, Active: 1, Waiting: 1, Waited: 7 * ms, Reason: semaphore.ReasonWaited})
			if long.done() {
				t.Error("gave up too early")
			}
			pass(2 * ms)
			check(long, &semaphore.FullError{System: "sber", Max: 1, Active: 1, Waited: 9 * ms, Reason: semaphore.ReasonWaited})
		}
		check(t, s, "1/1 active, 0/5 waiting, 0 full, 4 waited")
		s.Release()
		conserved(t, s, 1)
	})
}

func TestMaxWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 2})
		hold(t, s, 1)
		first, second, third := start(t.Context(), s, time.Hour), start(t.Context(), s, time.Hour), start(t.Context(), s, time.Hour)
		if first.done() || second.done() || !errors.Is(third.err(), semaphore.ErrBulkheadFull) || third.took() != 0 {
			t.Errorf("%v, %v and %v, want only the third refused, at once", first, second, third)
		}
		check(t, s, "1/1 active, 2/2 waiting, 1 full, 0 waited")
		s.Release()
		fourth := start(t.Context(), s, time.Hour) // there is room again
		for range 3 {
			s.Release()
			synctest.Wait()
		}
		if !first.done() || !second.done() || !fourth.done() {
			t.Errorf("still waiting: %v, %v, %v", first, second, fourth)
		}
		conserved(t, s, 1)
	})
	s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1}) // nobody waits
	hold(t, s, 1)
	if _, err := s.Acquire(t.Context(), time.Hour); !errors.Is(err, semaphore.ErrBulkheadFull) {
		t.Errorf("got %v, want a refusal", err)
	}
}

// W-05: a done context takes nothing, whether or not there is something to take.
func TestDoneContextTakesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, prepare := range map[string]func(*semaphore.Semaphore){
		"free":   func(*semaphore.Semaphore) {},
		"full":   func(s *semaphore.Semaphore) { s.TryAcquire() },
		"closed": func(s *semaphore.Semaphore) { s.Close(errClosed) },
	} {
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 1})
		prepare(s)
		before := s.State()
		if p, err := s.Acquire(ctx, time.Hour); err != context.Canceled || p != nil {
			t.Errorf("%s: got %v, %v, want context.Canceled itself", name, p, err)
		}
		if diff := cmp.Diff(before, s.State()); diff != "" {
			t.Errorf("%s: state changed: %s", name, diff)
		}
	}
}

// W-04, W-12: the caller's end is seen at once while waiting; it is the caller's error, with its cause, and no rejection.
func TestCallerEndsTheWait(t *testing.T) {
	var (
		errBudget = errors.New("budget spent")
		bg        = context.Background()
	)
	tests := []struct {
		name    string
		ctx     func() (context.Context, context.CancelFunc)
		want    []error // the error itself, if it is one
		text    string
		timeout bool
	}{
		{"cancel", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(bg)
			time.AfterFunc(10*ms, cancel)
			return ctx, cancel
		}, []error{context.Canceled}, "context canceled", false},
		{"cancel with a cause", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(bg)
			time.AfterFunc(10*ms, func() { cancel(errBudget) })
			return ctx, func() { cancel(nil) }
		}, []error{context.Canceled, errBudget}, "context canceled: budget spent", false},
		{"cancel with a timeout as its cause", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(bg)
			time.AfterFunc(10*ms, func() { cancel(context.DeadlineExceeded) })
			return ctx, func() { cancel(nil) }
		}, []error{context.Canceled, context.DeadlineExceeded}, "context canceled: context deadline exceeded", false},
		{"deadline", func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(bg, 10*ms)
		}, []error{context.DeadlineExceeded}, "context deadline exceeded", true},
		{"deadline with a cause", func() (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(bg, 10*ms, errBudget)
		}, []error{context.DeadlineExceeded, errBudget}, "context deadline exceeded: budget spent", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 1})
				hold(t, s, 1)
				ctx, cancel := test.ctx()
				defer cancel()
				waiting := start(ctx, s, time.Hour)
				pass(time.Hour)
				done := start(ctx, s, time.Hour) // the same from a context that is done already
				if waiting.took() != 10*ms {
					t.Errorf("returned after %v, want 10ms", waiting.took())
				}
				for _, err := range []error{waiting.err(), done.err()} {
					if len(test.want) == 1 && err != test.want[0] {
						t.Errorf("got %#v, want %v itself", err, test.want[0])
					}
					for _, want := range test.want {
						if !errors.Is(err, want) {
							t.Errorf("%v is not %v", err, want)
						}
					}
					if errors.Is(err, semaphore.ErrUnavailable) {
						t.Errorf("%v is ErrUnavailable", err)
					}
					if err.Error() != test.text {
						t.Errorf("got %q, want %q", err, test.text)
					}
					if e, ok := err.(interface{ Timeout() bool }); (ok && e.Timeout()) != test.timeout {
						t.Errorf("%v: Timeout() is not %v", err, test.timeout)
					}
				}
				check(t, s, "1/1 active, 0/1 waiting, 0 full, 0 waited")
				s.Release()
				conserved(t, s, 1)
			})
		})
	}
}

// W-03, W-10: strictly first come, first served, past those who have left; no later caller gets in between.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: n})
		hold(t, s, 1)
		var (
			calls   [n]*call
			cancels [n]context.CancelFunc
			want    []int
		)
		for i := range calls {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			wait := time.Hour
			if i%5 == 2 {
				wait = 10 * ms
			}
			calls[i], cancels[i] = start(ctx, s, wait), cancel
			if i%3 != 0 && wait == time.Hour {
				want = append(want, i)
			}
		}
		for i := 0; i < n; i += 3 { // the first one among them
			cancels[i]()
		}
		pass(10 * ms)
		var got []int
		for range want {
			s.Release()
			if s.TryAcquire() {
				t.Fatal("TryAcquire went past the queue")
			}
			if _, err := s.Acquire(t.Context(), 0); err == nil {
				t.Fatal("Acquire went past the queue")
			}
			synctest.Wait()
			for i, c := range calls {
				if c.done() && c.err() == nil && !slices.Contains(got, i) {
					got = append(got, i)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order: %s", diff)
		}
		s.Release()
		conserved(t, s, 1)
	})
}

// W-10: a holder that comes back at once does not starve the one who waits.
func TestNoBarging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 2})
		hold(t, s, 1)
		waiting := start(t.Context(), s, 100*ms)
		pass(50 * ms)
		s.Release()
		again := start(t.Context(), s, 100*ms) // without a look at who is next
		if !waiting.done() || waiting.err() != nil || again.done() {
			t.Errorf("the waiter: %v, the holder: %v", waiting, again)
		}
		s.Release()
		synctest.Wait()
		s.Release()
		conserved(t, s, 1)
	})
}

// A watched context has no error when first asked, and asked's from then on. It is asked for the second time when a wait has ended,
// before the waiter acts on that, so whatever asked does coincides with that end.
type watched struct {
	context.Context
	asked func() error
	times int
	err   error
}

func (c *watched) Err() error {
	if c.times++; c.times == 2 {
		c.err = c.asked()
	}
	return c.err
}

// W-02, W-03, L-06: two ends at once.
func TestCoincidences(t *testing.T) {
	closed := func(s *semaphore.Semaphore) { s.Close(errClosed) }
	release := (*semaphore.Semaphore).Release
	nothing := func(*semaphore.Semaphore) {}
	tests := []struct {
		name       string
		wakes      func(*semaphore.Semaphore) // ends the wait, if not the timer
		meanwhile  func(*semaphore.Semaphore)
		gone       error // the caller's end, meanwhile
		want       error
		then       string
		nextIsNext bool // who waits behind has the permit
	}{
		{"end of the wait, nothing", nothing, nothing, nil, semaphore.ErrBulkheadFull, "1/1 active, 1/9 waiting, 0 full, 1 waited", false},
		{"end of the wait, grant", nothing, release, nil, nil, "1/1 active, 1/9 waiting, 0 full, 0 waited", false},
		{"end of the wait, close", nothing, closed, nil, errClosed, "1/0 active, 0/0 waiting, 0 full, 0 waited", false},
		{"end of the wait, caller's end", nothing, nothing, context.Canceled, context.Canceled, "1/1 active, 1/9 waiting, 0 full, 0 waited", false},
		{"end of the wait, caller's end, grant", nothing, release, context.Canceled, context.Canceled, "1/1 active, 0/9 waiting, 0 full, 0 waited", true},
		{"end of the wait, caller's end, close", nothing, closed, context.Canceled, context.Canceled, "1/0 active, 0/0 waiting, 0 full, 0 waited", false},
		{"grant, caller's end", release, nothing, context.Canceled, context.Canceled, "1/1 active, 0/9 waiting, 0 full, 0 waited", true},
		{"grant, close", release, closed, nil, nil, "1/0 active, 0/0 waiting, 0 full, 0 waited", false},
		{"grant, caller's end, close", release, closed, context.Canceled, context.Canceled, "0/0 active, 0/0 waiting, 0 full, 0 waited", false},
		{"close, caller's end", closed, nothing, context.Canceled, context.Canceled, "1/0 active, 0/0 waiting, 0 full, 0 waited", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 9})
				hold(t, s, 1)
				ctx := &watched{Context: context.Background(), asked: func() error {
					test.meanwhile(s)
					return test.gone
				}}
				first := start(ctx, s, 10*ms)
				next := start(t.Context(), s, time.Hour)
				pass(5 * ms)
				test.wakes(s)
				pass(5 * ms)
				if !first.done() || !errors.Is(first.err(), test.want) {
					t.Fatalf("got %v, want %v", first, test.want)
				}
				check(t, s, test.then)
				if (next.done() && next.err() == nil) != test.nextIsNext {
					t.Errorf("the next one: %v", next)
				}
				for s.State().Active > 0 {
					s.Release()
					synctest.Wait()
				}
				conserved(t, s, s.State().MaxConcurrent)
			})
		})
	}
}

// W-02, L-06: the same, in the order in which the scheduler makes it.
func TestWaitAndReleaseAtTheSameInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 1})
		granted, refused := 0, uint64(0)
		for range 5000 {
			hold(t, s, 1)
			c := start(t.Context(), s, ms)
			pass(ms)
			s.Release() // by another goroutine than the taker's
			synctest.Wait()
			switch {
			case c.err() == nil:
				granted++
				s.Release()
			case errors.Is(c.err(), semaphore.ErrBulkheadFull):
				refused++
			default:
				t.Fatal(c.err())
			}
			if st := s.State(); st.Active != 0 || st.Waiting != 0 || st.Rejected != refused {
				t.Fatalf("after %d granted, %d refused: %v", granted, refused, st)
			}
		}
	})
}

// W-13
func TestReleaseWithoutAPermitPanics(t *testing.T) {
	s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 2})
	panics(t, "semaphore: sber: more releases than permits taken", s.Release)
	conserved(t, s, 2) // it can still be used
	hold(t, s, 1)
	s.Close(errClosed)
	s.Release()
	panics(t, "semaphore: sber: more releases than permits taken", s.Release)
}

// P-11: a permit goes back to where it came from, whatever else has the same name.
func TestPermitKnowsItsSemaphore(t *testing.T) {
	old := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1})
	permit, err := old.Acquire(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	replacement := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1})
	hold(t, replacement, 1)
	permit.Release()
	conserved(t, old, 1)
	check(t, replacement, "1/1 active, 0/0 waiting, 0 full, 0 waited")
}

// 0 admits nobody, and no wait for it is endless; negative is an error.
func TestZeroAndNegativeLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 0, MaxWaiting: 5})
		if s.TryAcquire() {
			t.Error("TryAcquire() = true without a permit")
		}
		now, later := start(t.Context(), s, 0), start(t.Context(), s, 100*ms)
		pass(time.Hour)
		for _, c := range []*call{now, later} {
			if !errors.Is(c.err(), semaphore.ErrBulkheadFull) {
				t.Errorf("got %v, want a refusal", c)
			}
		}
		if now.took() != 0 || later.took() != 100*ms {
			t.Errorf("refused after %v and %v, want 0s and 100ms", now.took(), later.took())
		}
		check(t, s, "0/0 active, 0/5 waiting, 1 full, 1 waited")
	})
	for _, l := range []semaphore.Limits{{MaxConcurrent: -1}, {MaxWaiting: -1}, {MaxConcurrent: math.MinInt, MaxWaiting: math.MinInt}} {
		panics(t, "semaphore: sber: negative limit", func() { semaphore.New("sber", l) })
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 2})
		panics(t, "semaphore: sber: negative limit", func() { s.Resize(l) })
		conserved(t, s, 2)
	}
	s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: math.MaxInt, MaxWaiting: math.MaxInt})
	check(t, s, "0/2147483647 active, 0/2147483647 waiting, 0 full, 0 waited")
	hold(t, s, 3)
	check(t, s, "3/2147483647 active, 0/2147483647 waiting, 0 full, 0 waited")
}

// growing with permits out.
func TestGrow(t *testing.T) {
	s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 2})
	hold(t, s, 2)
	s.Resize(semaphore.Limits{MaxConcurrent: 3, MaxWaiting: 7})
	check(t, s, "2/3 active, 0/7 waiting, 0 full, 0 waited")
	s.Release()
	s.Release()
	conserved(t, s, 3)
}

func TestGrowWakesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 9})
		hold(t, s, 1)
		var calls []*call
		for range 5 {
			calls = append(calls, start(t.Context(), s, time.Hour))
		}
		in := func(n int) {
			t.Helper()
			synctest.Wait()
			for i, c := range calls {
				if c.done() != (i < n) || c.err() != nil {
					t.Errorf("caller %d: %v, want the first %d to be in", i, c, n)
				}
			}
		}
		s.Resize(semaphore.Limits{MaxConcurrent: 3, MaxWaiting: 9})
		in(2)
		check(t, s, "3/3 active, 3/9 waiting, 0 full, 0 waited")
		s.Resize(semaphore.Limits{MaxConcurrent: 9, MaxWaiting: 9})
		in(5)
		check(t, s, "6/9 active, 0/9 waiting, 0 full, 0 waited")
		for range 6 {
			s.Release()
		}
		conserved(t, s, 9)
	})
}

func TestShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 4, MaxWaiting: 3})
		hold(t, s, 4)
		calls := []*call{start(t.Context(), s, time.Hour), start(t.Context(), s, time.Hour), start(t.Context(), s, time.Hour)}
		s.Resize(semaphore.Limits{MaxConcurrent: 2, MaxWaiting: 1})
		check(t, s, "4/2 active, 3/1 waiting, 0 full, 0 waited") // neither the holders nor the queue are thrown out
		if c := start(t.Context(), s, time.Hour); !errors.Is(c.err(), semaphore.ErrBulkheadFull) {
			t.Errorf("got %v, want a refusal, as the queue is beyond its limit", c)
		}
		for _, then := range []struct {
			state string
			in    int
		}{
			{"3/2 active, 3/1 waiting, 1 full, 0 waited", 0},
			{"2/2 active, 3/1 waiting, 1 full, 0 waited", 0},
			{"2/2 active, 2/1 waiting, 1 full, 0 waited", 1},
			{"2/2 active, 1/1 waiting, 1 full, 0 waited", 2},
			{"2/2 active, 0/1 waiting, 1 full, 0 waited", 3},
			{"1/2 active, 0/1 waiting, 1 full, 0 waited", 3},
		} {
			s.Release()
			synctest.Wait()
			check(t, s, then.state)
			for i, c := range calls {
				if c.done() != (i < then.in) || c.err() != nil {
					t.Errorf("caller %d: %v, want the first %d to be in", i, c, then.in)
				}
			}
		}
		hold(t, s, 1)
		s.Resize(semaphore.Limits{MaxConcurrent: 1}) // nobody waits
		s.Release()
		if s.TryAcquire() {
			t.Error("admitted beyond the smaller limit")
		}
		s.Release()
		conserved(t, s, 1)
	})
}

func TestResizeToZeroAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 9})
		hold(t, s, 1)
		short, long := start(t.Context(), s, 10*ms), start(t.Context(), s, 50*ms)
		s.Resize(semaphore.Limits{MaxConcurrent: 0, MaxWaiting: 9})
		s.Release()
		check(t, s, "0/0 active, 2/9 waiting, 0 full, 0 waited")
		pass(20 * ms)
		if !errors.Is(short.err(), semaphore.ErrBulkheadFull) || short.took() != 10*ms {
			t.Errorf("got %v, want a refusal after 10ms", short)
		}
		s.Resize(semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 9})
		synctest.Wait()
		if !long.done() || long.err() != nil || long.took() != 20*ms {
			t.Errorf("got %v, want a permit after 20ms", long)
		}
		s.Release()
		conserved(t, s, 1)
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 2, MaxWaiting: 9})
		hold(t, s, 2)
		waiting := []*call{start(t.Context(), s, time.Hour), start(t.Context(), s, time.Hour)}
		pass(ms)
		s.Close(errClosed)
		s.Close(errors.New("closed again"))
		synctest.Wait()
		later := []*call{start(t.Context(), s, time.Hour), start(t.Context(), s, 0)}
		for _, c := range append(waiting, later...) {
			if c.err() != errClosed {
				t.Errorf("got %v, want %v", c, errClosed)
			}
		}
		if waiting[0].took() != ms {
			t.Errorf("told after %v, want 1ms", waiting[0].took())
		}
		check(t, s, "2/0 active, 0/0 waiting, 0 full, 0 waited") // permits stay out; no rejections
		s.Resize(semaphore.Limits{MaxConcurrent: 5, MaxWaiting: 5})
		check(t, s, "2/0 active, 0/0 waiting, 0 full, 0 waited")
		s.Release()
		if s.TryAcquire() {
			t.Error("admitted by TryAcquire")
		}
		if _, err := s.Acquire(t.Context(), 0); err != errClosed {
			t.Errorf("got %v, want %v", err, errClosed)
		}
		s.Release()
		conserved(t, s, 0)
	})
	s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1})
	panics(t, "semaphore: sber: closed without an error", func() { s.Close(nil) })
	conserved(t, s, 1)
}

func TestManyTimeOutTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: n})
		hold(t, s, 1)
		var all sync.WaitGroup
		began := time.Now()
		for range n {
			all.Go(func() {
				if _, err := s.Acquire(t.Context(), 100*ms); !errors.Is(err, semaphore.ErrBulkheadFull) || time.Since(began) != 100*ms {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		}
		all.Wait()
		check(t, s, "1/1 active, 0/1000 waiting, 0 full, 1000 waited")
		s.Release()
		conserved(t, s, 1)
	})
}

func TestState(t *testing.T) {
	for _, test := range []struct {
		max, active, available int
		utilization            float64
	}{
		{4, 0, 4, 0},
		{4, 1, 3, 0.25},
		{4, 4, 0, 1},
		{4, 6, 0, 1.5},
		{0, 0, 0, 1},
		{0, 2, 0, 1},
	} {
		s := semaphore.State{MaxConcurrent: test.max, Active: test.active}
		if s.Available() != test.available || s.Utilization() != test.utilization {
			t.Errorf("%d of %d: %d available, utilization %v", test.active, test.max, s.Available(), s.Utilization())
		}
	}
	s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1})
	st := s.State()
	if st.Name != "sber" {
		t.Errorf("name is %q", st.Name)
	}
	st.Active, st.MaxConcurrent = 7, 7 // a copy
	conserved(t, s, 1)
}
