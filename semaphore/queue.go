package semaphore

import "time"

// A waiter is one caller in the queue. It is reused, with its channel and timer.
type waiter struct {
	outcome    chan error    // holds two: errWaited, which decides nothing, and then what does; nil is a permit
	due        time.Duration // when its wait is over, since the Semaphore's epoch
	alone      bool          // its own timer says so, as somebody in front of it waits for longer; else the alarm
	told       bool          // that it is due; guarded by the Semaphore's mu
	timer      *time.Timer   // nil if never needed; never stopped: it rests while nobody receives from it, and Reset leaves no stale tick
	prev, next *waiter       // nil when not in a queue
}

// A queue is a ring of waiters, first come first, so that any of them leaves in constant time.
type queue struct {
	root waiter // between last and first; its links must be set to itself
	len  int
}

func (q *queue) push(w *waiter) {
	w.prev, w.next = q.root.prev, &q.root
	w.prev.next, w.next.prev = w, w
	q.len++
}

// pop removes and returns the first; there must be one.
func (q *queue) pop() *waiter {
	w := q.root.next
	q.remove(w)
	return w
}

// remove reports whether w was in the queue; it no longer is.
func (q *queue) remove(w *waiter) bool {
	if w.next == nil {
		return false
	}
	w.prev.next, w.next.prev = w.next, w.prev
	w.prev, w.next = nil, nil
	q.len--
	return true
}
