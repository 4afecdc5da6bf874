package transport

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/semaphore"
)

// An answer is the last one that was no refusal of ours, and what is ready for the next attempt.
type answer struct {
	resp *http.Response
	err  error
	lost int  // the status of one that was given up
	sent bool // something of the request may have been, by now

	body  io.ReadCloser // of the next attempt
	begun time.Time     // of the pause before it
	pause time.Duration
}

// take returns the answer to the caller.
func (a *answer) take() (*http.Response, error) {
	resp := a.resp
	a.resp = nil
	return resp, a.err
}

// close closes what nobody has taken.
func (a *answer) close() {
	if a.resp != nil && a.resp.Body != nil {
		a.resp.Body.Close()
	}
	if a.body != nil {
		a.body.Close()
	}
	a.resp, a.body = nil, nil
}

// replace notes the next answer. An error must not prove what is not so of all attempts.
func (a *answer) replace(resp *http.Response, err error) {
	a.close()
	if a.sent && NotSent(err) {
		err = exchange.MaybeSent(err)
	}
	a.resp, a.err, a.lost = resp, err, 0
	a.sent = a.sent || !NotSent(err)
}

const (
	drainSize = 4 << 10
	drainTime = 50 * time.Millisecond
)

// giveUp ends the exchange of an answer that is not returned, so that no permit is
// held in the pause. A body that ends soon is read, which saves its connection.
// Where there is no body the exchange has ended, and the answer can be kept.
func (a *answer) giveUp() {
	resp := a.resp
	if resp == nil || resp.Body == nil || reflect.TypeOf(resp.Body).Size() == 0 { // net/http's own "no body" types have no state
		return
	}
	a.resp, a.lost = nil, resp.StatusCode
	defer resp.Body.Close()
	if resp.ContentLength > drainSize {
		return
	}
	closed := make(chan struct{})
	timer := time.AfterFunc(min(a.pause, drainTime), func() {
		defer close(closed)
		defer func() { _ = recover() }() // the Close above will say it, where somebody hears
		resp.Body.Close()
	})
	_, _ = io.CopyN(io.Discard, resp.Body, drainSize+1)
	if !timer.Stop() {
		<-closed
	}
}

// again makes further attempts while there is reason to, and returns the last
// answer. It closes what it holds if a func of the caller's or a body panics.
func (c *call) again(a *answer) (*http.Response, error) {
	defer a.close()
	for n := 2; c.another(n, a); n++ {
		resp, err := c.attempt(n, a)
		if c.refused(err) {
			if a.lost != 0 {
				a.err = &RetryError{System: c.system, Attempt: n, Status: a.lost, Err: err}
			}
			break
		}
		a.replace(resp, err)
	}
	return a.take()
}

// another decides whether there is to be an attempt n after a. If so it makes
// ready for it and gives a up, since everything is settled but the layers below.
func (c *call) another(n int, a *answer) bool {
	if n > c.MaxAttempts || !c.failed(a.resp, a.err) || !c.repeatable(a.err) {
		return false
	}
	asked := time.Duration(0)
	if a.resp != nil {
		asked = retryAfter(a.resp.Header, time.Now())
	}
	if asked > c.MaxRetryAfter {
		return false
	}
	if c.Gate {
		asked = max(asked, c.gate.left())
	}
	a.pause = asked + c.jitter(c.ceiling(n))
	if !c.inTime(a.pause) || c.peek != nil && c.peek() != nil {
		return false
	}
	if !c.spend() {
		c.tell(n, RetryExhausted, 0)
		return false
	}
	if c.req.Body != nil && c.req.Body != http.NoBody {
		body, err := c.req.GetBody()
		if err != nil {
			return false
		}
		a.body = body
	}
	a.begun = time.Now()
	a.giveUp()
	return true
}

// attempt makes attempt n after the pause that is settled.
func (c *call) attempt(n int, a *answer) (resp *http.Response, err error) {
	outcome, waited := RetryPanic, time.Duration(0)
	defer func() { c.tell(n, outcome, waited) }()
	if a.lost != 0 && c.peek != nil {
		err = c.peek() // what was given up may have been what opened the breaker
	}
	if err == nil {
		err = c.wait(time.Until(a.begun.Add(a.pause)))
	}
	waited = time.Since(a.begun)
	if err == nil {
		var out *http.Request
		if out, err = c.prepare(n, a.body); err == nil {
			a.body = nil // closing it is up to the layers below
			resp, err = c.send(out)
		}
	}
	switch {
	case err != nil && c.req.Context().Err() != nil:
		outcome = RetryCancelled
	case c.refused(err):
		outcome = RetryRefused
	case c.failed(resp, err):
		outcome = RetryFailure
	default:
		outcome = RetrySuccess
	}
	return resp, err
}

// wait returns nil when d has passed, or c is closed, or how the caller's context ended.
func (c *call) wait(d time.Duration) error {
	ctx := c.req.Context()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-c.closed.Done():
	}
	if ctx.Err() != nil {
		return exchange.CallerError(ctx)
	}
	return nil
}

// refused reports whether err is a refusal of ours. The cause of a caller's end
// may be one of another system's.
func (c *call) refused(err error) bool {
	return errors.Is(err, semaphore.ErrUnavailable) && c.req.Context().Err() == nil
}
