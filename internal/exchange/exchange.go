package exchange

import (
	"context"
	"errors"
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
// them is called, and are for reading, but for those that a layer sets in Begin.
type Exchange struct {
	Request  *http.Request // the caller's, not to be changed
	Start    time.Time     // of RoundTrip; the times below count from here
	Admitted time.Duration // the layers had begun, or refused it
	Answered time.Duration // the base had returned: the headers had come, or had not
	Status   int           // of the response; 0 if there is none

	Sent    bool   // to the base: no layer refused it
	Stream  bool   // set by a layer: neither its total nor its silence is to be bounded
	reading int32  // Reads in the inner body; guarded by mu, and here so that an Exchange just fits its size class
	Scope   *Scope // the execution that it is part of, or nil
	Lender  *Scope // set by a layer: whose permit it uses, and to which it reports; nil if to none

	chain  *chain
	holds  [maxLayers]Hold
	caller context.Context
	sent   http.Request // the caller's, in x's context and with a watched body
	inner  io.ReadCloser

	mu       sync.Mutex
	unhook   func() bool // stops watching caller
	open     bool        // RoundTrip has returned, or is about to: the caller's acts end x
	upgraded bool
	closed   bool      // by the caller, before anything interrupted x
	over     bool      // and outcome does not change any more
	released bool      // everything has been given back
	drained  bool      // the inner body was read to its end and closed, with closeErr
	inUpload bool      // the transport waits for the caller's body
	cause    error     // what interrupted x
	outcome  Outcome   // so far
	outer    *Exchange // ends with x
	upload   *upload   // the caller's body, if it is watched
	badBody  error     // what was wrong with that

	closeErr    error         // of the inner body, if drained
	closing     chan struct{} // closed when an interruption has closed the inner body
	silentSince time.Duration // of the present wait; never if nobody waits
	lastRead    time.Duration // when the last Read returned

	contextState
}

// An Outcome is how an exchange ended.
type Outcome struct {
	Fault    error // nil if the body was read to its end, or closed by the caller
	By       By    // who interrupted it
	Panicked bool  // something below, or it ended its goroutine
	Upgraded bool  // to another protocol (101)
	BadBody  bool  // it failed, and the caller's own body was to blame

	// Idle is for how long nobody had waited for the system when it was
	// interrupted: math.MaxInt64 if the body had never been read, 1 if RoundTrip
	// was waiting for the caller's body or that had failed, 0 if somebody did wait.
	Idle time.Duration
}

// By is who interrupted an exchange.
type By uint8

// The ones who can.
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

func (x *Exchange) silence(since time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.silentSince = since
}

// end ends x unless it is over. A nil err is a good end, and so is io.EOF once x
// is open. It returns what the caller should see of err: whatever interrupted x
// comes first.
func (x *Exchange) end(err error) error {
	x.mu.Lock()
	panicked, eof := err == errNoReturn, err == io.EOF && x.open
	if err != nil && !eof {
		x.blame(err)
	}
	if x.outcome.By == Owner && !x.Sent && err != nil && !errors.Is(err, context.Canceled) {
		x.cause, x.outcome.By = nil, Nobody // a refusal is one: nothing had begun for the owner to end
	}
	if x.cause != nil {
		err, eof = x.cause, false
	}
	if x.over {
		x.mu.Unlock()
		return err
	}
	x.over, x.outcome.Panicked, x.outcome.Upgraded = true, panicked, x.upgraded
	if !x.closed && !eof {
		x.outcome.Fault = err
		missing := !x.open && x.Request.Body == nil && x.Request.ContentLength != 0 // which HTTP/1 minds, and HTTP/2 does not
		x.outcome.BadBody = err != nil && x.cause == nil && (missing || x.badBody != nil)
	}
	outcome, outer, unhook := x.outcome, x.outer, x.unhook
	good := eof || err == nil && !x.closed
	x.mu.Unlock()

	if unhook != nil {
		unhook()
	}
	defer x.release(good) // last, so that nothing it wakes finds x not given back
	if eof {
		defer x.closeDrained()
	}
	if outer != nil {
		defer outer.endWith(x)
	}
	x.giveBack(len(x.chain.layers)-1, outcome, true)
	return err
}

// release ends x's context, but for an upload that goes on although the answer
// is complete: that ends it, or the caller does.
func (x *Exchange) release(good bool) {
	x.mu.Lock()
	x.released = true
	x.mu.Unlock()
	if x.done == nil {
		return
	}
	if !good || !x.uploading() {
		x.cancel(context.Canceled)
		return
	}
	caller, _ := governing(x.caller)
	x.endWithCaller(caller)
}

// uploading reports whether the transport has yet to close the caller's body, as far as that is watched.
func (x *Exchange) uploading() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.upload != nil && !x.upload.closed
}

// giveBack ends layers i and outwards, those that outlive an upgrade only if
// streams is set. One that panics does not keep the others from ending.
func (x *Exchange) giveBack(i int, o Outcome, streams bool) {
	if i < 0 {
		return
	}
	defer x.giveBack(i-1, o, streams)
	if h := &x.holds[i]; h.begun && (streams || !x.chain.layers[i].Streams) {
		h.begun = false
		x.chain.layers[i].End(x, h, o)
	}
}

// innerExchange returns the exchange that x's inner body is, if it is one. There is a
// foreign layer between them, but it left the body alone.
func (x *Exchange) innerExchange() *Exchange {
	inner := x.inner
	if l, ok := inner.(*limited); ok {
		inner = l.ReadCloser
	}
	switch b := inner.(type) {
	case *body:
		return (*Exchange)(b)
	case *stream:
		return (*Exchange)(b.body)
	}
	return nil
}

// adopt makes outer end when x does, so that the bounds inside reach what outer holds.
func (x *Exchange) adopt(outer *Exchange) {
	x.mu.Lock()
	x.outer = outer
	over := x.over
	x.mu.Unlock()
	if over {
		outer.endWith(x)
	}
}

// endWith needs an inner that is over.
func (x *Exchange) endWith(inner *Exchange) {
	x.mu.Lock()
	if how := inner.outcome; !x.over && x.cause == nil && !x.closed {
		x.cause, x.outcome.By, x.outcome.Idle = inner.cause, how.By, how.Idle
	}
	x.mu.Unlock()
	if inner.outcome.Panicked {
		x.end(errNoReturn)
	} else {
		x.end(inner.outcome.Fault)
	}
}

func (x *Exchange) waiting(at time.Duration, start, heard bool) {
	for i, l := range x.chain.layers {
		if l.Waiting != nil && !x.upgraded {
			l.Waiting(x, &x.holds[i], at, start, heard)
		}
	}
}
