package transport

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// A Retry repeats requests where that can do no harm. It is a layer for the
// outside of a chain, outside the bulkhead: no permit is held during a pause, and
// each attempt is an exchange of its own, with a permit and a verdict of its own.
//
// Repeated is what failed by an error of the transport, by a timeout of ours, or by
// an answer whose status is in the policy's Statuses, if the request may be
// repeated: a GET, HEAD, OPTIONS or TRACE; a PUT or DELETE where the policy says so;
// any other with an Idempotency-Key or X-Idempotency-Key in its Header map (as for
// net/http, a key without a value is not sent and counts), or if [NotSent] says that
// nothing of it had left. Its body has to be none, [http.NoBody], or one that
// GetBody gives again. Never repeated are refusals (what matches
// [semaphore.ErrUnavailable]), invalid requests, what the caller or its deadline
// ended, redirects and the requests that follow one (whose hops would multiply the
// attempts), streams (see [WithBounds] and [Retry.Streams]), and whatever had an
// answer that went to the caller, also if its body then breaks off.
//
// An attempt is made only if its pause leaves the caller's deadline and the
// policy's bounds intact, and the budget has room. Otherwise the last answer is
// returned as it came, with its body, at once. Of an answer that is given up for
// another attempt, which is decided before the pause, the body is read to its end,
// if that is near, and closed. If the next attempt is then refused, the caller gets
// a [RetryError]; it gets the last answer if that was an error or had no body.
//
// net/http itself repeats what it may when an idle connection turns out to be dead.
// That is within an attempt, and not counted here. [http.Request.Cancel], which is
// deprecated, is not heeded during a pause.
//
// Its methods may be called concurrently, but for those that are to be called
// before the first request.
type Retry struct {
	system  string
	policy  atomic.Pointer[RetryPolicy]
	budget  budget
	gate    gate
	streams func(*http.Request) bool
	peek    func() error
	hook    func(RetryEvent)
	jitter  func(most time.Duration) time.Duration // above 0, at most that
	closed  context.Context                        // ends with Close
	end     context.CancelFunc
}

// NewRetry returns a Retry with policy p.
func NewRetry(system string, p RetryPolicy) *Retry {
	now := time.Now()
	r := &Retry{system: system, budget: budget{epoch: now}, gate: gate{epoch: now}, jitter: jitter}
	r.closed, r.end = context.WithCancel(context.Background())
	r.Reconfigure(p)
	return r
}

// Reconfigure sets the policy of the calls that begin from now on, and the budget
// of all. The budget and the gate go on, but for a budget whose window changes,
// which begins anew.
func (r *Retry) Reconfigure(p RetryPolicy) { r.policy.Store(&p) }

// Streams sets a func that tells the requests that are streams, for which
// [WithBounds] was not used. It is asked about requests that failed. To be called
// before the first request.
func (r *Retry) Streams(f func(*http.Request) bool) { r.streams = f }

// Peek sets a func that tells why a request would be refused now, or nil: a
// breaker's Peek, or that the client is closed. A pause that would end in a refusal
// is then not begun, and the answer not given up. To be called before the first request.
func (r *Retry) Peek(f func() error) { r.peek = f }

// Close ends the pauses, those under way and those to come: what becomes of the
// attempts after them is for the layers below to say, which are to refuse them.
func (r *Retry) Close() { r.end() }

// Wrap returns next behind this layer: it is a [Layer], to be given to [Chain].
func (r *Retry) Wrap(next http.RoundTripper) http.RoundTripper { return &retrying{r, next} }

// A retrying is a Retry around next.
type retrying struct {
	r    *Retry
	next http.RoundTripper
}

// CloseIdleConnections lets [http.Client.CloseIdleConnections] reach the base.
func (t *retrying) CloseIdleConnections() {
	if ci, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		ci.CloseIdleConnections()
	}
}

func (t *retrying) RoundTrip(req *http.Request) (*http.Response, error) {
	p := t.r.policy.Load()
	if p.MaxAttempts < 2 && !p.Gate && !p.heedsDeadline() && Attempt(req.Context()) == 1 {
		return t.next.RoundTrip(req)
	}
	c := call{Retry: t.r, RetryPolicy: p, next: t.next, req: req, start: time.Now()}
	out, err := c.prepare(1, req.Body)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		c.tell(1, outcomeOf(err), 0)
		return nil, err
	}
	resp, err := c.send(out)
	if c.MaxAttempts < 2 || c.refused(err) {
		return resp, err
	}
	c.earn()
	if !c.failed(resp, err) {
		return resp, err
	}
	a := answer{resp: resp, err: err, sent: !NotSent(err)}
	return c.again(&a)
}

// A call is one RoundTrip of a retrying.
type call struct {
	*Retry
	*RetryPolicy // as it was when the call began
	next         http.RoundTripper
	req          *http.Request
	start        time.Time
}

// prepare returns what attempt n is to send, which is the caller's own request if
// there is nothing to say in it, or a refusal.
func (c *call) prepare(n int, body io.ReadCloser) (*http.Request, error) {
	ctx := c.req.Context()
	if n == 1 && ctx.Err() != nil {
		return c.req, nil // that is for the layers below to say
	}
	if c.Gate {
		if left := c.gate.left(); left > 0 {
			return nil, &PausedError{System: c.system, RetryAfter: left}
		}
	}
	header, err := c.deadline(ctx, c.req.Header)
	if err != nil {
		return nil, err
	}
	if n == 1 && Attempt(ctx) == 1 && header == nil {
		return c.req, nil
	}
	if n != Attempt(ctx) { // a first attempt has to say so within one of another client's
		ctx = context.WithValue(ctx, attemptKey{}, n)
	}
	out := c.req.WithContext(ctx)
	if body != nil {
		out.Body = body
	}
	if header != nil {
		out.Header = header
	}
	return out, nil
}

// send does one attempt.
func (c *call) send(out *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(out)
	if err != nil {
		if resp != nil && resp.Body != nil {
			resp.Body.Close()
		}
		return nil, err
	}
	if resp != nil {
		if resp.Request == out {
			resp.Request = c.req
		}
		c.heed(resp)
	}
	return resp, nil
}
