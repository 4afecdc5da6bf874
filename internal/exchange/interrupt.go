package exchange

import (
	"context"
	"errors"
	"math"
)

// Interrupt ends x's context, because of cause, with ctxErr as its error. It
// ends x too unless RoundTrip or a Read is running: then their return does.
// Only the first interruption counts. An upgraded connection outlives all but
// its Owner. A panic of the inner body or of an End is dropped here: this may be
// a goroutine of nobody's, and it would end the process.
func (x *Exchange) Interrupt(by By, cause, ctxErr error) {
	if carryOut := x.mark(by, cause, ctxErr); carryOut != nil {
		carryOut()
	}
}

// mark notes an interruption, also in the exchange within x, before anybody can
// see a context end, and returns what is then to be done, or nil.
func (x *Exchange) mark(by By, cause, ctxErr error) (carryOut func()) {
	x.mu.Lock()
	if x.over || x.cause != nil || x.upgraded && by != Owner {
		x.mu.Unlock()
		return nil
	}
	if x.closed { // the inner Close is taking its time; its return ends x
		x.mu.Unlock()
		return func() { x.cancel(ctxErr) }
	}
	x.interrupted(by, cause)
	open, busy, upload := x.open, x.reading > 0, x.upload
	closing := make(chan struct{})
	x.closing = closing // a Read that returns waits for that before it ends x
	x.mu.Unlock()       // the inner one's lock may be held by one who asks for x's context

	var inner *Exchange
	var within func()
	if open {
		if inner = x.innerExchange(); inner != nil {
			within = inner.mark(by, cause, ctxErr)
		}
	}
	return func() {
		defer close(closing)
		defer func() { _ = recover() }()
		x.cancel(ctxErr)
		switch {
		case !open && upload != nil:
			upload.Close() // net/http waits for a Read of it to return
		case open && !busy:
			defer x.end(nil)
		}
		switch {
		case within != nil:
			within() // a Close would look like the caller's
		case open && inner == nil:
			x.inner.Close()
		}
	}
}

// interrupted notes who it was and what was going on. It needs x.mu.
func (x *Exchange) interrupted(by By, cause error) {
	x.cause, x.outcome.By = cause, by
	switch {
	case !x.open && (x.inUpload || x.badBody != nil):
		x.outcome.Idle = 1
	case x.open && x.reading == 0 && x.lastRead == never:
		x.outcome.Idle = math.MaxInt64
	case x.open && x.reading == 0:
		x.outcome.Idle = max(1, x.Elapsed()-x.lastRead)
	}
}

// callerGone interrupts x because the caller's context ended, or, if that means
// nothing for x, waits for the end of the one that counts.
func (x *Exchange) callerGone() {
	ctx, err := governing(x.caller)
	if err == nil {
		x.rewatch(ctx)
		return
	}
	by, cause := x.gone(ctx)
	x.Interrupt(by, cause, err)
}

// gone says who ended ctx, the one that governs x, and why.
func (x *Exchange) gone(ctx context.Context) (By, error) {
	if cause := context.Cause(ctx); x.Scope.IsExpiry(cause) {
		return Bound, cause
	}
	return Caller, CallerError(ctx)
}

// blame makes the caller's end the cause of err if it came first: the watch on
// its context may be late, or there is none. It needs x.mu.
func (x *Exchange) blame(err error) {
	if x.over || x.closed || x.upgraded || x.cause != nil || err == errNoReturn {
		return
	}
	if ctx, gone := governing(x.caller); gone != nil && (x.Sent || errors.Is(err, gone)) {
		x.interrupted(x.gone(ctx))
		return
	}
	if !x.Sent {
		return
	}
	select {
	case <-x.Request.Cancel: // deprecated, but http.Client.Timeout sets it
		x.interrupted(Caller, err)
	default:
	}
}
