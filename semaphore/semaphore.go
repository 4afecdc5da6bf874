package semaphore

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// A Bulkhead hands out permits to call one system. *Semaphore is one; a lease from a limit that several processes share
// could be another. Implementations must be safe for concurrent use.
type Bulkhead interface {
	// Acquire takes a permit, waiting for one at most wait; 0 or less: not at all. It returns a permit or an error, never both.
	//
	// The error of a bulkhead that has no room matches [ErrUnavailable]. If ctx ended, the error matches ctx.Err() and does
	// not match ErrUnavailable.
	Acquire(ctx context.Context, wait time.Duration) (Permit, error)
}

// A Permit is the right to one call. It is given back with Release, once, by any goroutine. Release does not block.
type Permit interface {
	Release()
}

// Limits bound a [Semaphore]. Both count callers, from 0 to math.MaxInt32; more is taken as that, less panics.
type Limits struct {
	MaxConcurrent int // permits; 0 admits nobody
	MaxWaiting    int // callers who may wait for a permit at the same time; 0 = nobody waits
}

// taken returns the limits as they are taken: the gate's word has room for no more.
func (l Limits) taken(name string) (Limits, error) {
	if l.MaxConcurrent < 0 || l.MaxWaiting < 0 {
		return l, fmt.Errorf("semaphore: %s: negative limit: %+v", name, l)
	}
	return Limits{min(l.MaxConcurrent, math.MaxInt32), min(l.MaxWaiting, math.MaxInt32)}, nil
}

// A Semaphore is a [Bulkhead] within this process: a number of permits, and a queue of those who wait for one.
// It is made by [New], safe for concurrent use, and must not be copied. A release happens before the acquisition that it makes possible.
//
// A Semaphore keeps the channels and timers of its waiters for the next ones: if it was used in a testing/synctest bubble,
// it belongs to that bubble.
type Semaphore struct {
	gate    gate      // has the number of permits out while mu is free; see lock
	waiters sync.Pool // of *waiter, to be used again
	epoch   time.Time // what deadlines count from

	// All that follows is behind mu. Whenever mu is free:
	//
	//	somebody waits  ⇒  state.Active ≥ state.MaxConcurrent, and the gate is shut.
	//
	// So no permit lies idle while somebody waits for it, and nobody overtakes the queue.
	mu     sync.Mutex
	queue  queue
	alarm  alarm
	closed error // Close's argument
	state  State // Active holds only between lock and unlock; Waiting is unused, as queue.len says it
}

// New returns a Semaphore with all its permits free. The name is the system's; errors and State tell it.
// New panics if a limit is negative.
func New(name string, l Limits) *Semaphore {
	s := &Semaphore{state: State{Name: name}, epoch: time.Now()}
	s.queue.root.prev, s.queue.root.next = &s.queue.root, &s.queue.root
	s.Resize(l)
	return s
}

// Name returns the name given to New.
func (s *Semaphore) Name() string { return s.state.Name }

// Acquire takes a permit, waiting for one at most wait; 0 or less: not at all. The Permit is s itself.
//
// The error is
//   - a [*FullError] if no permit was free and either none came free within wait, or wait ≤ 0, or the queue was full;
//   - the caller's own end if ctx is done, or is before the wait ends: ctx.Err() itself or, where [context.Cause] is another
//     error, one that matches both and whose Timeout method is ctx.Err()'s;
//   - Close's argument if s is closed.
func (s *Semaphore) Acquire(ctx context.Context, wait time.Duration) (Permit, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if s.gate.enter() {
		return s, nil
	}
	w, err := s.enqueue(wait)
	if w != nil {
		err = s.await(ctx, w, wait)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// TryAcquire takes a permit if one is free, and reports whether it did. A false is not counted as a rejection.
func (s *Semaphore) TryAcquire() bool {
	if s.gate.enter() {
		return true
	}
	s.lock()
	defer s.unlock()
	return s.take()
}

// Release gives a permit back, whoever took it; the first in the queue gets it. Release does not block.
// It panics if no permit is out.
func (s *Semaphore) Release() {
	if s.gate.leave() {
		return
	}
	s.lock()
	defer s.unlock()
	if s.state.Active == 0 {
		panic("semaphore: " + s.state.Name + ": more releases than permits taken")
	}
	s.state.Active--
}

// Resize changes the limits. More permits go to those who wait first. Fewer throw nobody out: permits that are out stay so,
// and nobody gets another until fewer than MaxConcurrent are; those who wait go on waiting, even if more than MaxWaiting.
// Resize does nothing once s is closed. It panics if a limit is negative.
func (s *Semaphore) Resize(l Limits) {
	l, err := l.taken(s.state.Name)
	if err != nil {
		panic(err.Error())
	}
	s.lock()
	defer s.unlock()
	if s.closed == nil {
		s.state.MaxConcurrent, s.state.MaxWaiting = l.MaxConcurrent, l.MaxWaiting
	}
}

// Close ends admission for good: each one who waits and each later Acquire gets err, which is not counted as a rejection.
// Permits that are out stay so, and are released as before. Only the first Close has an effect. Close panics if err is nil.
func (s *Semaphore) Close(err error) {
	if err == nil {
		panic("semaphore: " + s.state.Name + ": closed without an error")
	}
	s.lock()
	defer s.unlock()
	s.close(err)
}

// close is Close between lock and unlock.
func (s *Semaphore) close(err error) {
	if s.closed != nil {
		return
	}
	s.closed = err
	s.state.MaxConcurrent, s.state.MaxWaiting = 0, 0
	for s.queue.len > 0 {
		s.queue.pop().outcome <- err
	}
}

// State returns what s is like at this moment.
func (s *Semaphore) State() State {
	s.lock()
	defer s.unlock()
	state := s.state
	state.Waiting = s.queue.len
	return state
}

// lock takes mu and shuts the gate, so that nothing moves until unlock.
func (s *Semaphore) lock() {
	s.mu.Lock()
	s.state.Active = s.gate.shut()
}

// unlock makes the invariant true, whatever has changed since lock: it hands free permits to those who wait, opens the gate
// if nobody does any more, and gives mu back.
func (s *Semaphore) unlock() {
	for s.queue.len > 0 && s.take() {
		s.queue.pop().outcome <- nil
	}
	limit := s.state.MaxConcurrent
	if s.queue.len > 0 {
		limit = 0
	}
	s.gate.open(s.state.Active, limit)
	s.mu.Unlock()
}

// take takes a permit if one is free. To be called between lock and unlock, as is refuse.
func (s *Semaphore) take() bool {
	if s.state.Active >= s.state.MaxConcurrent {
		return false
	}
	s.state.Active++
	return true
}

// refuse counts a rejection and returns the error that tells it.
func (s *Semaphore) refuse(r Reason, waited time.Duration) error {
	s.state.Rejected++
	if r == ReasonWaited {
		s.state.RejectedWaited++
	} else {
		s.state.RejectedFull++
	}
	s.state.LastRejection = time.Now()
	return &FullError{s.state.Name, s.state.MaxConcurrent, s.state.Active, s.queue.len, waited, r}
}

// enqueue puts a waiter into the queue. It returns none, but takes a permit, if one is free after all; and an error if there is
// nothing to wait for.
func (s *Semaphore) enqueue(wait time.Duration) (*waiter, error) {
	s.lock()
	defer s.unlock()
	switch {
	case s.closed != nil:
		return nil, s.closed
	case s.take():
		return nil, nil
	case wait <= 0 || s.queue.len >= s.state.MaxWaiting:
		return nil, s.refuse(ReasonFull, 0)
	}
	w, ok := s.waiters.Get().(*waiter)
	if !ok {
		w = &waiter{outcome: make(chan error, 2)}
	}
	w.due, w.told = time.Since(s.epoch)+wait, false
	s.queue.push(w)
	w.alone = !s.alarm.takes(w, wait, s)
	return w, nil
}

// expire tells those who are due that they are. They leave the queue themselves: until then they may still get a permit.
func (s *Semaphore) expire() {
	s.lock()
	defer s.unlock()
	s.alarm.rang(&s.queue, time.Since(s.epoch))
}

// await waits until w gets a permit (nil), wait is over, ctx is done or s is closed. It is the end of w.
func (s *Semaphore) await(ctx context.Context, w *waiter, wait time.Duration) (err error) {
	var due <-chan time.Time
	if w.alone {
		due = w.rings(wait)
	}
	select {
	case err = <-w.outcome:
	case <-due:
		err = errWaited
	case <-ctx.Done():
		err = errWaited // or not, as withdraw says
	}
	gone := ended(ctx) // asked once, so that nobody is counted as rejected and then told of its own end
	if err == errWaited {
		err = s.withdraw(w, gone, wait)
	}
	s.waiters.Put(w)
	if gone == nil {
		return err
	}
	if err == nil {
		s.Release() // granted as the caller left: pass it on
	}
	return gone
}

// withdraw takes w out of the queue and returns why: gone or, if that is nil, a refusal. If w is no longer in the queue, its outcome
// was decided in the meantime, and that is returned. Either way nothing more comes to w.
func (s *Semaphore) withdraw(w *waiter, gone error, wait time.Duration) error {
	s.lock()
	defer s.unlock()
	decided := !s.queue.remove(w)
	err := errWaited
	for len(w.outcome) > 0 || decided && err == errWaited {
		err = <-w.outcome
	}
	switch {
	case decided:
		return err
	case gone != nil:
		return gone
	}
	return s.refuse(ReasonWaited, time.Since(s.epoch)-(w.due-wait))
}
