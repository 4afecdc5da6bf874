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
	Client   any               // whose execution it is
	Parent   context.Context   // the caller's, of which the execution's own is a child
	Around   *Scope            // the execution around this one, of whatever client, if any
	Deadline time.Time         // when the execution's context ends by its own bound; zero if it has none
	Expired  error             // the cause of that
	Judge    func(verdict int) // nil: nothing counts of what is within it
	Report   func()            // called once, when the execution is over and no exchange that uses its permit has yet to be judged
	Free     func()            // called once, after that, when no exchange uses its permit

	mu     sync.Mutex
	lent   bool
	unsaid bool // the one who has the permit has yet to be judged
	over   bool // nothing is lent any more
	closed bool // Close has done its part
}

type scopeKey struct{}

// In returns ctx as the execution's own.
func (s *Scope) In(ctx context.Context) context.Context { return context.WithValue(ctx, scopeKey{}, s) }

// ScopeIn returns the innermost execution that ctx is of, or nil.
func ScopeIn(ctx context.Context) *Scope {
	s, _ := ctx.Value(scopeKey{}).(*Scope)
	return s
}

// Of returns the innermost of client's among s and those around it, or nil.
func (s *Scope) Of(client any) *Scope {
	for s != nil && s.Client != client {
		s = s.Around
	}
	return s
}

func (s *Scope) Error() string { return "exchange: the execution is over" }

// Borrow lends s's permit to an exchange, and reports whether it could.
func (s *Scope) Borrow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lent || s.over {
		return false
	}
	s.lent, s.unsaid = true, true
	return true
}

// Say tells s the verdict on the exchange that uses its permit, once. It comes before Release, a stream's long before.
func (s *Scope) Say(verdict int) {
	s.Judge(verdict)
	s.mu.Lock()
	report := s.over
	s.unsaid = false
	s.mu.Unlock()
	if report {
		s.Report()
	}
}

// Release gives the permit back to s.
func (s *Scope) Release() {
	s.mu.Lock()
	report, free := s.over && s.unsaid, s.closed // unsaid: it panicked too early
	s.lent, s.unsaid = false, false
	s.mu.Unlock()
	if report {
		s.Report()
	}
	if free {
		s.Free()
	}
}

// Close says that the execution is over. An exchange that has its permit keeps it. To be called once.
func (s *Scope) Close() {
	s.mu.Lock()
	s.over = true
	report := !s.unsaid
	s.mu.Unlock()
	if report {
		s.Report()
	}
	s.mu.Lock()
	s.closed = true
	free := !s.lent
	s.mu.Unlock()
	if free {
		s.Free()
	}
}

// IsExpiry reports whether cause is the end of s, or of one of the same client's around it, by its own bound.
func (s *Scope) IsExpiry(cause error) bool {
	for ; s != nil; s = s.Around.Of(s.Client) {
		if s.Expired != nil && s.Expired == cause { //nolint:errorlint // that very one, not another execution's alike
			return true
		}
	}
	return false
}

// IsTotal reports whether deadline is that of s, or of one of the same client's around it.
func (s *Scope) IsTotal(deadline time.Time) bool {
	for ; s != nil; s = s.Around.Of(s.Client) {
		if deadline.Equal(s.Deadline) {
			return true
		}
	}
	return false
}

// governing returns the context that decides about ctx's end: ctx itself, or,
// if that ended only because an execution is over, the one around the execution;
// and how that had ended when it was asked. To ask again could hear of the end of
// another execution, which means nothing.
func governing(ctx context.Context) (_ context.Context, err error) {
	for {
		if err = ctx.Err(); err == nil {
			return ctx, nil
		}
		over, ok := context.Cause(ctx).(*Scope) //nolint:errorlint // the execution's own, no user's that wraps it
		if !ok {
			return ctx, err
		}
		ctx = over.Parent //nolint:fatcontext // outwards, not deeper
	}
}

// Governed returns ctx or, if that ended only because an execution is over, one
// with its values that ends as the one around the execution does.
func Governed(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		if over, ok := context.Cause(ctx).(*Scope); ok { //nolint:errorlint // as in governing
			around, _ := governing(over.Parent)
			return &governed{around, ctx}
		}
	}
	return ctx
}

type governed struct {
	context.Context
	values context.Context
}

// Value returns what the context for values has, unless that is a context:
// package context looks so for what ends one and why.
func (g *governed) Value(key any) any {
	v := g.values.Value(key)
	if _, ok := v.(context.Context); ok {
		return g.Context.Value(key)
	}
	return v
}

// CallerDeadline returns the caller's deadline: not that of an execution of ours, which is a bound.
func (x *Exchange) CallerDeadline() (time.Time, bool) {
	caller, _ := governing(x.caller)
	d, ok := caller.Deadline()
	for s := x.Scope; s != nil; s = s.Around.Of(s.Client) {
		if ok && d.Equal(s.Deadline) {
			d, ok = s.Parent.Deadline()
		}
	}
	return d, ok
}
