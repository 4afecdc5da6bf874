package exchange

import (
	"context"
	"sync"
	"time"
)

// A Scope is an execution around exchanges: they may use its permit, one at a
// time, and report to it. It is also the error with which the execution's
// context is cancelled when the execution is over, which is not the caller's
// end: an exchange that goes on then is governed by Parent.
//
// The exported fields are set before it is used.
type Scope struct {
	Parent   context.Context   // the caller's, of which the execution's own is a child
	Outer    *Scope            // the execution of the same client around this one, if any
	Deadline time.Time         // when the execution's context ends by its own bound; zero if it has none
	Expired  error             // the cause of that
	Judge    func(verdict int) // nil: nothing counts of what is within it
	Free     func()            // called once, when the execution is over and no exchange uses its permit

	mu         sync.Mutex
	lent, over bool
}

func (s *Scope) Error() string { return "exchange: the execution is over" }

// Borrow lends s's permit to an exchange, and reports whether it could.
func (s *Scope) Borrow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lent || s.over {
		return false
	}
	s.lent = true
	return true
}

// Release gives the permit back to s.
func (s *Scope) Release() {
	s.mu.Lock()
	s.lent = false
	free := s.over
	s.mu.Unlock()
	if free {
		s.Free()
	}
}

// Close says that the execution is over. An exchange that has its permit keeps it. To be called once.
func (s *Scope) Close() {
	s.mu.Lock()
	s.over = true
	free := !s.lent
	s.mu.Unlock()
	if free {
		s.Free()
	}
}

// IsExpiry reports whether cause is the end of s, or of one around it, by its own bound.
func (s *Scope) IsExpiry(cause error) bool {
	for ; s != nil; s = s.Outer {
		if s.Expired != nil && s.Expired == cause {
			return true
		}
	}
	return false
}

// governing returns the context that decides about ctx's end: ctx itself, or,
// if that ended only because an execution is over, the one around the execution.
func governing(ctx context.Context) context.Context {
	for ctx.Err() != nil {
		over, ok := context.Cause(ctx).(*Scope) //nolint:errorlint // the execution's own, no user's that wraps it
		if !ok {
			break
		}
		ctx = over.Parent
	}
	return ctx
}

// CallerDeadline returns the caller's deadline: not that of an execution of ours, which is a bound.
func (x *Exchange) CallerDeadline() (time.Time, bool) {
	d, ok := governing(x.caller).Deadline()
	for s := x.Scope; s != nil; s = s.Outer {
		if ok && d.Equal(s.Deadline) {
			d, ok = s.Parent.Deadline()
		}
	}
	return d, ok
}
