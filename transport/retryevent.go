package transport

import (
	"errors"
	"time"
)

// A RetryEvent is something that a [Retry] did, or left.
type RetryEvent struct {
	System  string
	Attempt int           // its number: from 2, but 1 where the call itself was refused
	Outcome string        // one of the Retry constants
	Wait    time.Duration // what was waited before it; 0 where there was no pause
}

// The outcomes of a RetryEvent. The first five are those of the attempts after the
// first for which the budget had room: each has one of them.
const (
	RetrySuccess   = "success"          // an answer that is not repeated, when its headers had come
	RetryFailure   = "failure"          // it failed as the one before it may have
	RetryRefused   = "refused"          // by a layer below, by the gate, or by too near a deadline
	RetryCancelled = "cancelled"        // the caller's end came, in the pause or later
	RetryPanic     = "panic"            // something below panicked or ended its goroutine
	RetryExhausted = "budget_exhausted" // it was not made, only since the budget had no room
	RetryPaused    = "paused"           // the call was refused with a PausedError
	RetryLate      = "late"             // the call was refused with a LateError
)

// OnEvent sets a func that is called after each RetryEvent, outside of every lock.
// A panic in it is dropped. To be called before the first request.
func (r *Retry) OnEvent(f func(RetryEvent)) { r.hook = f }

// tell calls the hook in a goroutine that it may end or let panic without harm to a call.
func (r *Retry) tell(attempt int, outcome string, wait time.Duration) {
	if r.hook == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		r.hook(RetryEvent{System: r.system, Attempt: attempt, Outcome: outcome, Wait: wait})
	}()
	<-done
}

// outcomeOf returns that of a call that was refused here.
func outcomeOf(err error) string {
	if _, late := errors.AsType[*LateError](err); late {
		return RetryLate
	}
	return RetryPaused
}
