package transport

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

type attemptKey struct{}

// Attempt returns the number of the attempt that a request with context ctx is, 1
// for the first. Layers below a [Retry], the base and httptrace see it in the
// request's context; it is 1 where there is none.
func Attempt(ctx context.Context) int {
	if n, ok := ctx.Value(attemptKey{}).(int); ok {
		return n
	}
	return 1
}

func (p *RetryPolicy) heedsDeadline() bool { return p.DeadlineHeader != "" || p.DeadlineFloor > 0 }

// strays reports whether req follows a redirect to another host than the first request was for, which is not the
// system and is told nothing.
func strays(req *http.Request) bool {
	first := req
	for first.Response != nil && first.Response.Request != nil {
		first = first.Response.Request
	}
	return first != req && (first.URL == nil || req.URL == nil || first.URL.Host != req.URL.Host)
}

// deadline returns a copy of h that says how much is left of ctx's deadline, nil if
// nothing is to be said, or an error if too little is left.
func (c *call) deadline(ctx context.Context, h http.Header) (http.Header, error) {
	if !c.heedsDeadline() {
		return nil, nil
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil, nil
	}
	left := time.Until(deadline)
	if left <= 0 || left < c.DeadlineFloor {
		return nil, &LateError{System: c.system, Left: left, Floor: c.DeadlineFloor}
	}
	if c.DeadlineHeader == "" || h == nil || strays(c.req) { // a nil one is invalid, for the layers below to say
		return nil, nil
	}
	h = h.Clone()
	h.Set(c.DeadlineHeader, strconv.FormatInt(max(1, left.Milliseconds()), 10))
	return h, nil
}
