package exchange

import (
	"context"
	"time"
)

// A ctx is an Exchange seen as the context of the request that is sent: the
// caller's, ended early by an interruption or by the exchange's end. It exists
// because context.WithCancelCause and a context.AfterFunc on it, which do the
// same, allocate two more.
type ctx Exchange

// contextState is the part of an Exchange that belongs to its ctx. It is guarded by the Exchange's mu.
type contextState struct {
	done     chan struct{} // nil if x has no context of its own
	deadline time.Duration // since Start; 0 if there is none
	doneErr  error
	child    func()
	children context.Context // parent of all but the first
	endMore  context.CancelFunc
}

// derive gives x a context of its own, which Interrupt can end.
func (x *Exchange) derive() {
	if x.done != nil {
		return
	}
	x.mu.Lock()
	x.done = make(chan struct{})
	if x.cause != nil { // already
		x.doneErr = context.Canceled
		close(x.done)
	}
	x.mu.Unlock()
	x.watch()
}

// watch has x interrupted when the caller's context ends.
func (x *Exchange) watch() {
	if x.caller.Done() == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.unhook == nil {
		x.unhook = context.AfterFunc(x.caller, x.callerGone)
	}
}

// rewatch does so when ctx ends, since the caller's has ended without meaning it.
func (x *Exchange) rewatch(ctx context.Context) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over && !x.upgraded {
		x.unhook = context.AfterFunc(ctx, x.callerGone)
	}
}

// endWithCaller ends the context of x, which is over, with ctx, or with the one that counts if only an execution is over then.
func (x *Exchange) endWithCaller(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		if next, err := governing(ctx); err == nil {
			x.endWithCaller(next)
		} else {
			x.cancel(err)
		}
	})
	context.AfterFunc(x.Context(), func() { stop() })
}

// Context is what the layers below, and whatever a Begin waits for, should heed.
func (x *Exchange) Context() context.Context {
	if x.done != nil {
		return (*ctx)(x)
	}
	return x.caller
}

// SetDeadline tells those below when a bound will end x, at the latest; it counts from x's Start.
func (x *Exchange) SetDeadline(d time.Duration) {
	if x.deadline == 0 || d < x.deadline {
		x.deadline = d
	}
}

func (c *ctx) Done() <-chan struct{} { return c.done }

func (c *ctx) Value(key any) any {
	v := c.caller.Value(key)
	if _, ok := v.(context.Context); ok { // as for governed
		return Governed(c.caller).Value(key)
	}
	return v
}

func (c *ctx) Deadline() (time.Time, bool) {
	caller, _ := governing(c.caller)
	d, ok := caller.Deadline()
	if bound := c.Start.Add(c.deadline); c.deadline != 0 && (!ok || bound.Before(d)) {
		return bound, true
	}
	return d, ok
}

func (c *ctx) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doneErr
}

// AfterFunc lets package context hang children below c without a goroutine for
// each. The first (http.Transport's) is kept until c ends; others come and go
// below a standard context, since there is no telling how many there will be.
func (c *ctx) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.doneErr != nil:
		go f()
		return stays
	case c.child == nil:
		c.child = f
		return stays
	case c.children == nil:
		c.children, c.endMore = context.WithCancel(context.WithoutCancel(c.caller))
	}
	return context.AfterFunc(c.children, f)
}

// stays is a stop function that comes too late: a child that has ended does not mind being ended again.
func stays() bool { return false }

// cancel ends x's context, if it has one, with err.
func (x *Exchange) cancel(err error) {
	x.mu.Lock()
	if x.done == nil || x.doneErr != nil {
		x.mu.Unlock()
		return
	}
	x.doneErr = err
	close(x.done)
	child, endMore := x.child, x.endMore
	x.child = nil
	x.mu.Unlock()
	if child != nil {
		child()
	}
	if endMore != nil {
		endMore()
	}
}
