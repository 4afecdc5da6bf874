package resilient

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// An execution is a func under way, guarded as an exchange is: one permit, one
// verdict, one total. Exchanges of the same client that are made with its context
// use its permit, one at a time, and report to it.
type execution struct {
	exchange.Scope
	c      *Client
	ctx    context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // of the total
	permit semaphore.Permit
	done   func(Verdict) // to the breaker; nil if nothing of it counts

	mu   sync.Mutex
	said [3]int  // verdicts of exchanges
	own  Verdict // of the func itself
	only bool    // own counts alone: a classifier's
}

// enter admits an execution. A total of 0 is TotalTimeout, a negative one none.
func (c *Client) enter(ctx context.Context, total time.Duration) (*execution, error) {
	e := &execution{c: c, stop: func() {}}
	e.Client, e.Parent, e.Around, e.Judge, e.Report, e.Free = c, ctx, exchange.ScopeIn(ctx), e.judge, e.report, e.free
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	c.stats.enter(e) // before it has a permit, so that a client is not over meanwhile
	if err := c.admit(e); err != nil {
		if cause := context.Cause(ctx); e.IsExpiry(cause) && errors.Is(err, context.DeadlineExceeded) {
			err = cause // the total of an execution around it, which is no caller's end
		}
		e.cancel(&e.Scope)
		c.stats.executionEnded(refusalName(err))
		c.stats.leave(e)
		return nil, err
	}
	if total = cmp.Or(total, c.cfg.Load().TotalTimeout); total > 0 {
		e.Expired = &TimeoutError{System: c.name, Phase: transport.PhaseTotal, Limit: total}
		e.Deadline = time.Now().Add(total)
		e.ctx, e.stop = context.WithDeadlineCause(e.ctx, e.Deadline, e.Expired)
	}
	if e.done == nil {
		e.Judge = nil // it would have been refused
	}
	e.ctx = e.In(e.ctx)
	return e, nil
}

// admit takes for e what the layers take for an exchange, or borrows the permit
// of the execution of the same client around it.
func (c *Client) admit(e *execution) (err error) {
	if err := e.Parent.Err(); err != nil {
		return exchange.CallerError(e.Parent)
	}
	if outer := e.Around.Of(c); outer != nil && outer.Borrow() {
		e.permit = outer
		if outer.Judge != nil {
			e.done = func(v Verdict) { outer.Say(int(v)) }
		}
		return nil
	}
	if c.opts.observe {
		e.permit, e.done, err = c.observe(e.Around.Of(c))
		return err
	}
	if err := c.peek(); err != nil {
		return err
	}
	e.permit, err = c.sem.Acquire(e.Parent, c.cfg.Load().Bulkhead.AcquireTimeout)
	if err != nil {
		return err
	}
	e.done, err = c.breaker.Allow()
	if err != nil {
		e.permit.Release()
	}
	return err
}

// refusalName names what kept an execution out. The cause of the caller's end may be another system's refusal.
func refusalName(err error) string {
	_, timeout := err.(*TimeoutError) //nolint:errorlint // that of an execution around it; what is deeper inside is the caller's
	switch {
	case timeout:
		return "timeout"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "cancelled"
	case errors.Is(err, ErrBulkheadFull):
		return "refused_full"
	case errors.Is(err, ErrCircuitOpen):
		return "refused_open"
	}
	return "refused_closed"
}

// judge notes what an exchange says. What is no verdict is a failure, as for the breaker.
func (e *execution) judge(verdict int) {
	if verdict < 0 || verdict >= len(e.said) {
		verdict = int(Failure)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.said[verdict]++
}

// leave ends e, whose func has returned err, or has not returned. It returns what
// the caller should see of that.
func (e *execution) leave(returned bool, err error, classify func(error) Verdict) error {
	defer e.stop()
	defer e.cancel(&e.Scope) // what goes on is governed by the caller's context
	defer e.Close()          // which reports and gives the permit back, if no exchange has it
	outcome := "panic"
	e.own = Failure
	if returned {
		outcome, err = e.ended(err)
	}
	defer e.c.stats.executionEnded(outcome)
	e.own = e.verdict(outcome, err)
	if returned && classify != nil && (outcome == "success" || outcome == "error" && e.own != Neutral) {
		e.own, e.only = Neutral, true // if it panics
		e.own = classify(err)
	}
	return err
}

// ended names how the func ended, and says that the total is over, or c closed, where the func's own error does not.
func (e *execution) ended(err error) (outcome string, seen error) {
	timeout, _ := errors.AsType[*TimeoutError](err)
	closed, _ := context.Cause(e.ctx).(*ClosedError) //nolint:errorlint // what Shutdown cancels e with
	own, _ := errors.AsType[*ClosedError](err)       // what it cancels exchanges with, before that
	switch {
	case err == nil:
		return "success", nil
	case e.expired():
		if timeout == nil {
			err = e.because(err)
		}
		return "timeout", err
	case closed != nil && closed.System == e.c.name && !errors.Is(err, ErrClosed):
		return "cancelled", e.because(err)
	case e.ctx.Err() != nil, e.isCallers(timeout), own != nil && own.Started && own.System == e.c.name:
		return "cancelled", err
	case timeout != nil:
		return "timeout", err
	}
	return "error", err
}

// isCallers reports whether t, if not nil, is due to the caller's deadline, and not
// to our total or to what the func has set itself, which a request takes for its caller's too.
func (e *execution) isCallers(t *TimeoutError) bool {
	d, ok := e.ctx.Deadline()
	return t != nil && t.Phase == transport.PhaseDeadline && ok && !e.IsTotal(d)
}

// because adds what ended e to err, or returns that alone if err says no more.
func (e *execution) because(err error) error {
	cause := context.Cause(e.ctx)
	if err == e.ctx.Err() { //nolint:errorlint // one that wraps it says more
		return cause
	}
	return exchange.Because(cause, err)
}

// expired reports whether a total of ours has ended e.
func (e *execution) expired() bool {
	return e.ctx.Err() != nil && e.Scope.IsExpiry(context.Cause(e.ctx))
}

// verdict is what the func itself says about the system, if no exchange does.
func (e *execution) verdict(outcome string, err error) Verdict {
	_, invalid := errors.AsType[*exchange.InvalidError](err)
	switch {
	case outcome == "success":
		return Success
	case outcome == "cancelled", invalid, errors.Is(err, ErrUnavailable), errors.Is(err, ErrNotFound):
		return Neutral
	}
	return Failure
}

// report tells the breaker the verdict.
func (e *execution) report() {
	e.mu.Lock()
	v := e.own
	switch {
	case e.only:
	case e.said[Failure] > 0:
		v = Failure
	case e.said[Success] > 0:
		v = Success
	case e.said[Neutral] > 0:
		v = Neutral
	}
	e.mu.Unlock()
	if e.done != nil {
		e.done(v)
	}
}

// free gives the permit back.
func (e *execution) free() {
	defer e.c.stats.leave(e)
	e.permit.Release()
}
