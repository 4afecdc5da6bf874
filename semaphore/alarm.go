package semaphore

import (
	"errors"
	"time"
)

// errWaited tells a waiter that it is due. It never reaches a caller.
var errWaited = errors.New("waited")

// An alarm is one timer for all waiters of a queue whose deadlines are in the queue's order, as they are where all wait for the
// same time. With a timer for each, a turn in a queue of a hundred costs a third more (measured: 600 ns, not 440). Who is due
// before somebody in front of it still has one of its own. The alarm is guarded by the Semaphore's mu.
type alarm struct {
	timer *time.Timer   // nil if nobody has waited yet
	set   bool          // it will ring, at the latest when the first of its waiters is due
	last  time.Duration // when the last of them is, who may have left
}

// takes reports whether the alarm will tell w, the last in the queue.
func (a *alarm) takes(w *waiter, wait time.Duration, s *Semaphore) bool {
	if w.due < a.last {
		return false
	}
	a.last = w.due
	switch {
	case a.set: // rings for somebody who was there before, and then for w
	case a.timer == nil:
		a.timer = time.AfterFunc(wait, s.expire)
	default:
		a.timer.Reset(wait)
	}
	a.set = true
	return true
}

// rang tells those in q who are due, and sets the timer for the one who is next.
func (a *alarm) rang(q *queue, now time.Duration) {
	a.set = false
	for w := q.root.next; w != &q.root; w = w.next {
		switch {
		case w.alone || w.told:
		case w.due <= now:
			w.told = true
			w.outcome <- errWaited
		default:
			a.set = true
			a.timer.Reset(w.due - now)
			return
		}
	}
}

// rings returns a channel that tells when wait is over.
func (w *waiter) rings(wait time.Duration) <-chan time.Time {
	if w.timer == nil {
		w.timer = time.NewTimer(wait)
	} else {
		w.timer.Reset(wait)
	}
	return w.timer.C
}
