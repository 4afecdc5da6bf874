package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/resilient-go/resilient/semaphore"
)

// A model is a semaphore too slow and too simple to be wrong.
type model struct {
	max, maxWaiting, active int
	full, waited            int
	last                    time.Time // rejection
	closed                  bool
	queue, calls            []*modelCall
}

type modelCall struct {
	call   *call
	cancel context.CancelFunc
	began  time.Time
	wait   time.Duration
	gone   time.Duration // the caller's deadline, after began
	result string        // "" while it waits
	took   time.Duration
}

func (m *model) acquire(c *modelCall) {
	m.calls = append(m.calls, c)
	switch {
	case c.gone <= 0:
		c.result = "gone"
	case m.closed:
		c.result = "closed"
	case m.active < m.max:
		m.active++
		c.result = "permit"
	case c.wait <= 0 || len(m.queue) >= m.maxWaiting:
		m.full++
		m.last = time.Now()
		c.result = "full"
	default:
		m.queue = append(m.queue, c)
	}
}

// leave ends c's wait, if it waits.
func (m *model) leave(c *modelCall, result string, at time.Time) {
	if i := slices.Index(m.queue, c); i >= 0 {
		m.queue = slices.Delete(m.queue, i, i+1)
		c.result, c.took = result, at.Sub(c.began)
	}
}

// pass gives up those whose time is over by now.
func (m *model) pass(now time.Time) {
	for _, c := range slices.Clone(m.queue) {
		switch since := now.Sub(c.began); {
		case c.gone <= since && c.gone < c.wait:
			m.leave(c, "gone", c.began.Add(c.gone))
		case c.wait <= since:
			m.leave(c, "waited", c.began.Add(c.wait))
			m.waited++
			if at := c.began.Add(c.wait); at.After(m.last) {
				m.last = at
			}
		}
	}
}

func (m *model) grant(now time.Time) {
	for m.active < m.max && len(m.queue) > 0 {
		m.active++
		m.leave(m.queue[0], "permit", now)
	}
}

func (m *model) close(now time.Time) {
	for !m.closed && len(m.queue) > 0 {
		m.leave(m.queue[0], "closed", now)
	}
	m.closed, m.max, m.maxWaiting = true, 0, 0
}

func (c *call) result() string {
	_, isFull := errors.AsType[*semaphore.FullError](c.err())
	switch err := c.err(); {
	case !c.done():
		return ""
	case err == nil:
		return "permit"
	case isFull:
		full, _ := errors.AsType[*semaphore.FullError](err)
		if full.Waited != c.took() {
			return fmt.Sprintf("%s, but says after %v", full.Reason, full.Waited)
		}
		return string(full.Reason)
	case err == errClosed:
		return "closed"
	case err == context.Canceled || err == context.DeadlineExceeded:
		return "gone"
	default:
		return err.Error()
	}
}

// Whatever is done to it in whatever order, a Semaphore does what the model does: the same callers get in, at the same moment, the
// others get the same errors, and the state is the same.
func TestModel(t *testing.T) {
	steps := 0
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) { checkModel(t, &steps) })
	})
	t.Logf("%d steps", steps)
}

func checkModel(t *rapid.T, steps *int) {
	limits := rapid.Custom(func(t *rapid.T) semaphore.Limits {
		return semaphore.Limits{MaxConcurrent: rapid.IntRange(0, 4).Draw(t, "max"), MaxWaiting: rapid.IntRange(0, 8).Draw(t, "waiting")}
	})
	l := limits.Draw(t, "limits")
	s, m := semaphore.New("sber", l), &model{max: l.MaxConcurrent, maxWaiting: l.MaxWaiting}
	t.Cleanup(func() {
		for _, c := range m.calls {
			c.cancel()
		}
	})

	acquire := func(t *rapid.T) {
		c := &modelCall{
			began: time.Now(),
			wait:  time.Duration(rapid.IntRange(-1, 20).Draw(t, "wait")) * ms,
			// Between whole milliseconds, so that it never is just when the wait ends.
			gone: time.Duration(rapid.IntRange(-1, 40).Draw(t, "deadline"))*ms + ms/2,
		}
		ctx := context.Context(nil)
		ctx, c.cancel = context.WithTimeout(context.Background(), c.gone)
		m.acquire(c)
		c.call = start(ctx, s, c.wait)
	}
	t.Repeat(map[string]func(*rapid.T){
		"acquire":  acquire,
		"acquire2": acquire, // more often than the others
		"acquire3": acquire,
		"tryAcquire": func(t *rapid.T) {
			got, want := s.TryAcquire(), m.active < m.max
			if got != want {
				t.Fatalf("TryAcquire() = %v, want %v", got, want)
			}
			if got {
				m.active++
			}
		},
		"release": func(t *rapid.T) {
			if m.active == 0 {
				t.Skip("nothing to release")
			}
			s.Release()
			m.active--
		},
		"cancel": func(t *rapid.T) {
			if len(m.queue) == 0 {
				t.Skip("nobody to cancel")
			}
			c := rapid.SampledFrom(m.queue).Draw(t, "waiter")
			c.cancel()
			m.leave(c, "gone", time.Now())
		},
		"pass": func(t *rapid.T) {
			pass(time.Duration(rapid.IntRange(1, 15).Draw(t, "time")) * ms)
			m.pass(time.Now())
		},
		"resize": func(t *rapid.T) {
			l := limits.Draw(t, "limits")
			s.Resize(l)
			if !m.closed {
				m.max, m.maxWaiting = l.MaxConcurrent, l.MaxWaiting
			}
		},
		"close": func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
				t.Skip("not now")
			}
			s.Close(errClosed)
			m.close(time.Now())
		},
		"": func(t *rapid.T) {
			*steps++
			synctest.Wait()
			m.grant(time.Now())
			for i, c := range m.calls {
				if got := c.call.result(); got != c.result || c.call.took() != c.took {
					t.Fatalf("caller %d: %q after %v, want %q after %v", i, got, c.call.took(), c.result, c.took)
				}
			}
			want := semaphore.State{
				Name: "sber", MaxConcurrent: m.max, MaxWaiting: m.maxWaiting, Active: m.active, Waiting: len(m.queue),
				Rejected: uint64(m.full + m.waited), RejectedFull: uint64(m.full), RejectedWaited: uint64(m.waited), LastRejection: m.last,
			}
			if diff := cmp.Diff(want, s.State()); diff != "" {
				t.Fatalf("state: %s", diff)
			}
		},
	})

	pass(time.Second) // all waits are over, and every permit comes back
	for range m.active {
		s.Release()
	}
	if st := s.State(); st.Active != 0 || st.Waiting != 0 {
		t.Fatalf("in the end, %d active and %d waiting", st.Active, st.Waiting)
	}
	for range m.max {
		if !s.TryAcquire() {
			t.Fatal("a permit was lost")
		}
	}
	if s.TryAcquire() {
		t.Fatal("a permit too many")
	}
}
