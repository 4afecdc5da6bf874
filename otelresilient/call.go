package otelresilient

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/resilient-go/resilient"
)

// A system is what is kept for one client.
type system struct {
	*Telemetry
	name attribute.KeyValue

	mu    sync.Mutex
	state string             // of the breaker, as last told
	calls map[*call]struct{} // under way
	hosts map[hostPort]bool  // that metrics know by name
}

func newSystem(t *Telemetry, name string) *system {
	return &system{Telemetry: t, name: SystemKey.String(name), state: "closed", calls: map[*call]struct{}{}, hosts: map[hostPort]bool{}}
}

// calls is the layer around all others.
type calls struct {
	s    *system
	next http.RoundTripper
}

// Where a call is: who can have caused a transition of the breaker.
const (
	entering = iota // no attempt of it has been admitted yet
	away            // with the transport, or with the caller
	ending          // the transport has returned something, and the layers are looking at it
)

// A call is one RoundTrip of a client, to the end of its body.
type call struct {
	s     *system
	ctx   context.Context
	span  trace.Span
	start time.Time
	busy  atomic.Int32 // RoundTrip, and Reads and Closes of the body, under way

	mu     sync.Mutex
	where  int
	since  time.Time // it has been there
	state  string    // the breaker's, when it was asked
	status int
	ended  bool
}

type callKey struct{}

var errPanic = errors.New("panic")

func (l *calls) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	c := l.s.begin(req)
	c.busy.Add(1)
	err = errPanic // unless RoundTrip returns
	defer func() {
		if err != nil {
			c.end(err)
		}
		c.busy.Add(-1)
	}()
	out := req.WithContext(c.ctx)
	resp, err = l.next.RoundTrip(out)
	if err != nil {
		return resp, err
	}
	if resp.Request == out {
		resp.Request = req
	}
	c.answered(resp, req.Method)
	return resp, nil
}

func (s *system) begin(req *http.Request) *call {
	c := &call{s: s, start: time.Now()}
	c.since = c.start
	s.mu.Lock()
	c.state = s.state
	s.calls[c] = struct{}{}
	s.mu.Unlock()
	method := methodOf(req)
	ctx, span := s.tracer.Start(req.Context(), s.name.Value.AsString()+" "+spanName(method), trace.WithTimestamp(c.start),
		trace.WithAttributes(s.name, StateKey.String(c.state), semconv.HTTPRequestMethodKey.String(method)))
	c.span, c.ctx = span, context.WithValue(ctx, callKey{}, c)
	return c
}

// answered watches the body of a response to its end.
func (c *call) answered(resp *http.Response, method string) {
	c.mu.Lock()
	c.status, c.where = resp.StatusCode, away
	c.mu.Unlock()
	if bodyless(resp, method) {
		c.end(nil)
		return
	}
	resp.Body = watch(resp, c)
}

// sent is called when an attempt of c has been admitted.
func (c *call) sent(attempt int) {
	c.s.mu.Lock()
	state := c.s.state
	c.s.mu.Unlock()
	c.mu.Lock()
	c.state, c.where = state, away
	c.mu.Unlock()
	if attempt > 1 {
		c.span.AddEvent("resilient.retry", trace.WithAttributes(attemptKey.Int(attempt)))
	}
}

// came is called when the transport has returned something. If nobody waits for
// that, something has interrupted c, because of err, and it is over.
func (c *call) came(err error) {
	c.mu.Lock()
	c.where, c.since = ending, time.Now()
	c.mu.Unlock()
	if err != nil && c.busy.Load() == 0 {
		c.end(err)
	}
}

// enter, leave and done are what the body of c tells.
func (c *call) enter() { c.busy.Add(1) }

func (c *call) leave() {
	c.busy.Add(-1)
	c.mu.Lock()
	c.where = away
	c.mu.Unlock()
}

func (c *call) closing() {}

func (c *call) done(err error) { c.end(err) }

// end ends c, unless that has been done.
func (c *call) end(err error) {
	c.mu.Lock()
	over := c.ended
	c.ended = true
	c.mu.Unlock()
	if over {
		return
	}
	c.s.mu.Lock()
	delete(c.s.calls, c)
	c.s.mu.Unlock()

	word := ""
	reason, after := c.s.refusal(err)
	switch {
	case reason != "":
		word = "refused_" + reason
		c.refused(err, reason, after)
	case err != nil:
		word = errorWord(err)
	case c.status >= 400:
		word = statusWord(c.status)
	}
	attrs := []attribute.KeyValue{c.s.name}
	if word != "" {
		attrs = append(attrs, semconv.ErrorTypeKey.String(word))
	}
	c.s.callDuration.Record(c.ctx, time.Since(c.start).Seconds(), metric.WithAttributes(attrs...))

	attrs = append(attrs, StateKey.String(c.state))
	if c.status != 0 {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(c.status))
	}
	if timeout, ok := errors.AsType[*resilient.TimeoutError](err); ok {
		attrs = append(attrs, phaseKey.String(string(timeout.Phase)))
	}
	c.span.SetAttributes(attrs...)
	fail(c.span, word, err)
	c.span.End()
}

// refused notes a refusal, and the state that it tells of.
func (c *call) refused(err error, reason string, after time.Duration) {
	if open, ok := errors.AsType[*resilient.OpenError](err); ok && reason == "open" {
		switch {
		case open.Forced:
			c.state = "forced_open"
		case open.Probing:
			c.state = "half_open"
		default:
			c.state = "open"
		}
	}
	c.s.refusals.Add(c.ctx, 1, metric.WithAttributes(c.s.name, reasonKey.String(reason)))
	attrs := []attribute.KeyValue{c.s.name, reasonKey.String(reason), StateKey.String(c.state)}
	if after > 0 {
		attrs = append(attrs, afterKey.Float64(after.Seconds()))
	}
	c.span.AddEvent("resilient.refused", trace.WithAttributes(attrs...))
}

// refusal names the refusal of s that err is, or returns "". What made the caller's
// context end may be one of another system's.
func (s *system) refusal(err error) (reason string, after time.Duration) {
	if !errors.Is(err, resilient.ErrUnavailable) {
		return "", 0
	}
	name := s.name.Value.AsString()
	if e, ok := errors.AsType[*resilient.FullError](err); ok && e.System == name {
		return string(e.Reason), 0
	}
	if e, ok := errors.AsType[*resilient.OpenError](err); ok && e.System == name {
		return "open", e.RetryAfter
	}
	if e, ok := errors.AsType[*resilient.ClosedError](err); ok && e.System == name {
		return "closed", 0
	}
	if e, ok := errors.AsType[*resilient.PausedError](err); ok && e.System == name {
		return "paused", e.RetryAfter
	}
	if e, ok := errors.AsType[*resilient.LateError](err); ok && e.System == name {
		return "late", 0
	}
	return "", 0
}

// transition counts a change of the breaker's state, and notes it in the span of the
// call that made it, if one did. The breaker tells of one while that call waits for it:
// for its admission where probes are let through, and else for its end, which has
// just come. Nobody made what was forced by hand.
func (s *system) transition(t resilient.Transition) {
	attrs := []attribute.KeyValue{s.name, fromKey.String(t.From), toKey.String(t.To)}
	if t.Reason != "" {
		attrs = append(attrs, reasonKey.String(t.Reason))
	}
	s.transitions.Add(background, 1, metric.WithAttributes(attrs...))
	if t.FailureRate > 0 {
		attrs = append(attrs, rateKey.Float64(t.FailureRate))
	}
	s.mu.Lock()
	s.state = t.To
	var who *call
	switch {
	case t.Reason == "forced":
	case t.To == "half_open":
		who = s.find(entering, time.Time.Before)
	default:
		who = s.find(ending, time.Time.After)
	}
	s.mu.Unlock()
	if who != nil {
		who.span.AddEvent("resilient.transition", trace.WithAttributes(attrs...))
	}
}

// find returns the call whose time of coming to a place is before, or after, those of all others that are there.
// It needs the lock.
func (s *system) find(where int, wins func(a, b time.Time) bool) (found *call) {
	var best time.Time
	for c := range s.calls {
		c.mu.Lock()
		here, since := c.where == where, c.since
		c.mu.Unlock()
		if here && (found == nil || wins(since, best)) {
			found, best = c, since
		}
	}
	return found
}

// fail marks a span as failed, if there is a word for it.
func fail(span trace.Span, word string, err error) {
	if word == "" {
		return
	}
	description := ""
	if err != nil {
		description = err.Error()
	}
	span.SetAttributes(semconv.ErrorTypeKey.String(word))
	span.SetStatus(codes.Error, description)
}
