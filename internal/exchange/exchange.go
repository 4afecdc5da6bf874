package exchange

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// An Exchange is one request and its response, from RoundTrip to the end of
// the body. It is also the body's wrapper and the context of the request that
// is sent, since each of those would have to be allocated beside it.
//
// The exported fields are set before the function of a Layer that may need
// them is called, and are for reading.
type Exchange struct {
	Request *http.Request // the caller's, not to be changed
	Start   time.Time     // of RoundTrip; the times below count from here

	Admitted time.Duration // the layers had begun, or refused it
	Sent     bool          // to the base
	Answered time.Duration // the headers had come
	Status   int           // of the response; 0 if there is none

	Stream bool // set by a layer: its total and its silence are not to be bounded

	Outcome // for End

	layers []*Layer
	holds  [maxLayers]Hold
	caller context.Context
	unhook func() bool  // stops watching caller
	sent   http.Request // the caller's, in x's context and with a watched body
	inner  io.ReadCloser
	node   node

	mu       sync.Mutex
	open     bool // RoundTrip has returned, or is about to
	upgraded bool
	closed   bool // by the caller, before anything interrupted x
	over     bool
	cause    error // what interrupted x
	ctxErr   error // what its context says then
	outer    *Exchange
	badBody  error
	inUpload bool // the transport is in the caller's body

	reading     int // Reads in the inner body
	everRead    bool
	silentSince time.Duration // of the present wait; never if nobody waits
	lastRead    time.Duration // when the last Read returned

	contextState
}

// An Outcome is how an exchange ended.
type Outcome struct {
	Fault      error // nil if the body was read to its end, or closed by the caller
	By         By    // who interrupted it
	Refused    bool  // by a layer's Begin, or by its own form
	Panicked   bool  // or ended its goroutine
	Upgraded   bool  // to another protocol (101)
	BadBody    bool  // RoundTrip failed, and the caller's own body was to blame
	InBody     bool  // when it was interrupted the transport was waiting for the caller's body
	Unattended bool  // when it was interrupted nobody was waiting for the system
	NeverRead  bool  // and nobody had ever read the body
	Idle       time.Duration
}

// By is who interrupted an exchange.
type By uint8

const (
	Nobody By = iota
	Caller    // its context ended, or its deadline shortened the bound that fired
	Bound     // a timeout of ours
	Owner     // the client was closed
)

const never = time.Duration(-1)

// Elapsed returns the time since x's Start.
func (x *Exchange) Elapsed() time.Duration { return time.Since(x.Start) }

// Caller returns the caller's context.
func (x *Exchange) Caller() context.Context { return x.caller }

// Silence returns how long the system has been silent towards a caller that
// waits for it, or a negative duration if nobody waits. A piece of the request
// body that is taken is no silence.
func (x *Exchange) Silence() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.silentSince == never {
		return never
	}
	return x.Elapsed() - x.silentSince
}

// silence notes since when the caller has been waiting, or that it is not.
func (x *Exchange) silence(since time.Duration) {
	x.mu.Lock()
	x.silentSince = since
	x.mu.Unlock()
}

// Interrupt ends x's context, because of cause, with ctxErr as its error. It
// ends x too unless RoundTrip or a Read is running: then their return does.
// Only the first interruption counts. An upgraded connection outlives all but its Owner.
func (x *Exchange) Interrupt(by By, cause, ctxErr error) {
	x.mu.Lock()
	if x.over || x.cause != nil || x.upgraded && by != Owner {
		x.mu.Unlock()
		return
	}
	if !x.closed {
		x.interrupted(by, cause)
	}
	open, busy := x.open, x.reading > 0
	x.mu.Unlock()

	x.cancel(ctxErr)
	if !open {
		return
	}
	func() {
		defer func() { _ = recover() }() // this goroutine is nobody's: the panic would end the process
		x.inner.Close()
	}()
	if !busy {
		x.end(nil)
	}
}

// interrupted notes who it was, and what was going on. It needs x.mu, or an x that no one else has.
func (x *Exchange) interrupted(by By, cause error) {
	x.cause, x.By = cause, by
	x.InBody = x.inUpload
	if x.Unattended = x.open && x.reading == 0; x.Unattended {
		x.NeverRead, x.Idle = !x.everRead, x.Elapsed()-x.lastRead
	}
}

func (x *Exchange) callerGone() { x.Interrupt(Caller, CallerError(x.caller), x.caller.Err()) }

// end ends x unless it is over. A nil err is a good end. It returns what the
// caller should see of err: whatever interrupted x comes first.
func (x *Exchange) end(err error) error {
	x.mu.Lock()
	panicked := err == errNoReturn
	if err != nil && !panicked && x.Sent && !x.over && x.cause == nil {
		x.blameCaller(err)
	}
	if x.cause != nil {
		err = x.cause
	}
	if x.over {
		x.mu.Unlock()
		return err
	}
	x.over, x.Panicked = true, panicked
	if !x.closed {
		x.Fault = err
		x.BadBody = err != nil && !x.open && x.cause == nil && x.badBody != nil
	}
	x.Upgraded = x.upgraded
	outer := x.outer
	x.mu.Unlock()

	if x.unhook != nil {
		x.unhook()
	}
	defer x.cancel(context.Canceled) // last, so that nothing it wakes finds x not given back
	if outer != nil {
		defer outer.endWith(x)
	}
	x.giveBack(len(x.layers)-1, true)
	return err
}

// blameCaller makes the caller's end the cause of err if it came first: the
// watch on its context may be late, or there is none.
func (x *Exchange) blameCaller(err error) {
	if x.caller.Err() != nil {
		x.cause, x.By = CallerError(x.caller), Caller
		return
	}
	select {
	case <-x.Request.Cancel: // deprecated, but http.Client.Timeout sets it
		x.cause, x.By = err, Caller
	default:
	}
}

// giveBack ends layers i and outwards, those that outlive an upgrade only if
// streams is set. One that panics does not keep the others from ending.
func (x *Exchange) giveBack(i int, streams bool) {
	if i < 0 {
		return
	}
	defer x.giveBack(i-1, streams)
	if h := &x.holds[i]; h.begun && !h.ended && (streams || !x.layers[i].Streams) {
		h.ended = true
		x.layers[i].End(x, h)
	}
}

// adopt makes outer end when x does. There is a foreign layer between them,
// but it left x's body alone, so the bounds inside reach what outer holds.
func (x *Exchange) adopt(outer *Exchange) {
	x.mu.Lock()
	x.outer = outer
	over := x.over
	x.mu.Unlock()
	if over {
		outer.endWith(x)
	}
}

func (x *Exchange) endWith(inner *Exchange) {
	inner.mu.Lock()
	cause, how := inner.cause, inner.Outcome
	inner.mu.Unlock()
	x.mu.Lock()
	if !x.over && x.cause == nil && !x.closed && cause != nil {
		x.cause, x.By = cause, how.By
		x.Unattended, x.NeverRead, x.Idle = how.Unattended, how.NeverRead, how.Idle
	}
	x.mu.Unlock()
	x.end(how.Fault)
}

func (x *Exchange) waiting(start, heard bool) {
	for _, l := range x.layers {
		if l.Waiting != nil {
			l.Waiting(start, heard)
		}
	}
}
