package otelresilient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/resilient-go/resilient"
)

// attempts is the layer around the transport.
type attempts struct {
	s    *system
	next http.RoundTripper
}

// An attempt is a request that is sent, to the end of the response's body.
type attempt struct {
	s       *system
	call    *call // that it is part of
	ctx     context.Context
	http    bool // somebody is told of it
	span    trace.Span
	start   time.Time
	attrs   []attribute.KeyValue // of its measurements, those of the request first
	request int

	mu    sync.Mutex
	ended bool
	conn  *conn // that it uses, if it is known
}

func (l *attempts) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	a, out := l.s.attempt(req)
	err = errPanic // unless RoundTrip returns
	defer func() {
		if err != nil {
			a.done(err)
		}
	}()
	resp, err = l.next.RoundTrip(out)
	if err != nil {
		return resp, err
	}
	if resp == nil {
		err = errNothing
		return nil, err
	}
	if resp.Request == out {
		resp.Request = req
	}
	a.answered(resp)
	if bodyless(resp, req.Method) {
		a.done(nil)
		return resp, nil
	}
	a.call.came(nil) // the layers look at the headers, too
	resp.Body = watch(resp, a)
	return resp, nil
}

var errNothing = errors.New("otelresilient: the transport returned neither a response nor an error")

// attempt begins an attempt and returns what is to be sent.
func (s *system) attempt(req *http.Request) (*attempt, *http.Request) {
	ctx := req.Context()
	n := resilient.Attempt(ctx)
	a := &attempt{s: s, ctx: ctx, http: s.http, start: time.Now()}
	a.call, _ = ctx.Value(callKey{}).(*call)
	if a.call != nil {
		a.call.sent(n)
	}
	if !a.http {
		return a, req
	}
	return a, a.tell(req, n)
}

// tell begins the span and the measurements of a. It returns a request that carries the trace.
func (a *attempt) tell(req *http.Request, n int) *http.Request {
	method, at := methodOf(req), hostOf(req.URL)
	a.attrs = append(a.s.serverAttributes(at), semconv.URLScheme(req.URL.Scheme), a.s.name, semconv.HTTPRequestMethodKey.String(method))
	a.request = len(a.attrs)
	attrs := []attribute.KeyValue{a.s.name, semconv.HTTPRequestMethodKey.String(method), semconv.ServerAddress(at.host), semconv.ServerPort(at.port)}
	if a.call != nil {
		attrs = append(attrs, StateKey.String(a.call.state))
	}
	if method != req.Method && req.Method != "" {
		attrs = append(attrs, semconv.HTTPRequestMethodOriginal(req.Method))
	}
	if u := a.s.url(req.URL); u != "" {
		attrs = append(attrs, semconv.URLFull(u))
	}
	if again := n - 1 + hops(req); again > 0 {
		attrs = append(attrs, semconv.HTTPRequestResendCount(again))
	}
	parent := a.ctx
	a.ctx, a.span = a.s.tracer.Start(parent, spanName(method), trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(a.start), trace.WithAttributes(attrs...))
	a.s.activeRequests.Add(a.ctx, 1, metric.WithAttributes(a.attrs...))

	a.ctx = httptrace.WithClientTrace(a.ctx, &httptrace.ClientTrace{GotConn: a.gotConn})
	out := req.WithContext(afterFuncOf(a.ctx, parent))
	if req.Header != nil {
		out.Header = req.Header.Clone() // the caller's is not changed
		a.s.propagator.Inject(a.ctx, propagation.HeaderCarrier(out.Header))
	}
	return out
}

// hops returns how many redirects led to req.
func hops(req *http.Request) (n int) {
	for resp := req.Response; resp != nil && resp.Request != nil; resp = resp.Request.Response {
		n++
	}
	return n
}

// gotConn notes which connection a uses. net/http may try another.
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	if peer, err := netip.ParseAddrPort(addrOf(info.Conn)); err == nil {
		a.span.SetAttributes(semconv.NetworkPeerAddress(peer.Addr().String()), semconv.NetworkPeerPort(int(peer.Port())))
	}
	a.use(ours(info.Conn))
}

func addrOf(c net.Conn) string {
	if c == nil || c.RemoteAddr() == nil {
		return ""
	}
	return c.RemoteAddr().String()
}

func (a *attempt) use(c *conn) {
	a.mu.Lock()
	old := a.conn
	if a.ended {
		c = nil
	}
	a.conn = c
	a.mu.Unlock()
	c.use(1)
	old.use(-1)
}

func (a *attempt) answered(resp *http.Response) {
	if !a.http {
		return
	}
	version := map[int]string{1: "1.1", 2: "2", 3: "3"}[resp.ProtoMajor]
	if resp.ProtoMajor == 1 && resp.ProtoMinor == 0 {
		version = "1.0"
	}
	attrs := []attribute.KeyValue{semconv.HTTPResponseStatusCode(resp.StatusCode), semconv.NetworkProtocolVersion(version)}
	word := ""
	if resp.StatusCode >= 400 {
		word = statusWord(resp.StatusCode)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.span.SetAttributes(attrs...)
	fail(a.span, word, nil)
	a.attrs = append(a.attrs, attrs...)
	if word != "" {
		a.attrs = append(a.attrs, semconv.ErrorTypeKey.String(word))
	}
}

// enter, leave, closing and done are what the body of a tells.
func (a *attempt) enter() {}
func (a *attempt) leave() {}

// closing is a Close that comes. If the context has ended by then, that is why.
func (a *attempt) closing() {
	if err := a.ctx.Err(); err != nil {
		a.done(err)
	}
}

// done ends a, unless that has been done.
func (a *attempt) done(err error) {
	if a.call != nil {
		defer a.call.came(err)
	}
	if ctxErr := a.ctx.Err(); err != nil && ctxErr != nil && err != errPanic {
		err = ctxErr
	}
	if !a.http {
		return
	}
	a.mu.Lock()
	over := a.ended
	a.ended = true
	a.mu.Unlock()
	if over {
		return
	}
	a.use(nil)
	started := a.attrs[:a.request]
	a.s.activeRequests.Add(a.ctx, -1, metric.WithAttributes(started...))
	if err != nil {
		word := errorWord(err)
		a.attrs = append(a.attrs, semconv.ErrorTypeKey.String(word)) // the last of a key counts
		fail(a.span, word, err)
	}
	a.s.requestDuration.Record(a.ctx, time.Since(a.start).Seconds(), metric.WithAttributes(a.attrs...))
	a.span.End()
}

// A context with what hangs others below its ancestor without a goroutine for each.
type afterFunc struct {
	context.Context
	ancestor interface{ AfterFunc(func()) func() bool }
}

func (c afterFunc) AfterFunc(f func()) (stop func() bool) { return c.ancestor.AfterFunc(f) }

// afterFuncOf lets ctx, which ends with its ancestor, do what that one can: the
// client's own contexts spare net/http a goroutine for each request.
func afterFuncOf(ctx, ancestor context.Context) context.Context {
	if a, ok := ancestor.(interface{ AfterFunc(func()) func() bool }); ok {
		return afterFunc{ctx, a}
	}
	return ctx
}

// A watcher is told of what is done with a body.
type watcher interface {
	enter()
	closing()       // Close is about to be called
	done(err error) // nil: it was read to its end, or closed; it may come again
	leave()
}

type body struct {
	io.ReadCloser
	w        watcher
	upgraded bool
}

// watch returns the body of resp, watched by w. Only that of an upgrade can be written to.
func watch(resp *http.Response, w watcher) io.ReadCloser {
	b := &body{resp.Body, w, resp.StatusCode == http.StatusSwitchingProtocols}
	if writer, ok := resp.Body.(io.Writer); ok && b.upgraded {
		return &stream{b, writer}
	}
	return b
}

func (b *body) Read(p []byte) (n int, err error) {
	b.w.enter()
	defer b.w.leave()
	err = errPanic // unless Read returns
	defer func() {
		switch {
		case err == nil, err == io.EOF && b.upgraded: // a half-closed peer still listens
		case err == io.EOF:
			b.w.done(nil)
		default:
			b.w.done(err)
		}
	}()
	n, err = b.ReadCloser.Read(p)
	return n, err
}

func (b *body) Close() error {
	b.w.enter()
	defer b.w.leave()
	b.w.closing()
	defer b.w.done(nil)
	return b.ReadCloser.Close()
}

// A stream is the body of a 101 response.
type stream struct {
	*body
	io.Writer
}

// CloseWrite half-closes the connection, if it can do that.
func (s *stream) CloseWrite() error {
	if c, ok := s.Writer.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return http.ErrNotSupported
}
