package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// A deed is what a caller does; it returns what it was told.
type deed func(r *rig, rt http.RoundTripper) error

func get(r *rig, rt http.RoundTripper) error {
	_, err := r.get(r.Context(), rt)
	return err
}

// within is get under a deadline.
func within(d time.Duration) deed {
	return func(r *rig, rt http.RoundTripper) error {
		ctx, cancel := context.WithTimeout(r.Context(), d)
		defer cancel()
		_, err := r.get(ctx, rt)
		return err
	}
}

// cancelAfter is get with a caller that leaves after d, for a reason.
func cancelAfter(d time.Duration, cause error) deed {
	return func(r *rig, rt http.RoundTripper) error {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer time.AfterFunc(d, func() { cancel(cause) }).Stop()
		_, err := r.get(ctx, rt)
		return err
	}
}

// part reads n bytes, waits and closes.
func part(n int64, wait time.Duration) deed {
	return func(r *rig, rt http.RoundTripper) error {
		resp, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
		if err != nil {
			return err
		}
		_, err = io.CopyN(io.Discard, resp.Body, n)
		time.Sleep(wait)
		resp.Body.Close()
		return err
	}
}

// forget leaves the body to its fate.
func forget(r *rig, rt http.RoundTripper) error {
	_, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
	time.Sleep(10 * time.Second)
	return err
}

func clientTimeout(d time.Duration) deed {
	return func(r *rig, rt http.RoundTripper) error {
		_, err := read((&http.Client{Transport: rt, Timeout: d}).Do(r.request(context.Background(), "GET", nil)))
		return err
	}
}

func reqCancel(r *rig, rt http.RoundTripper) error {
	req, c := r.request(r.Context(), "GET", nil), make(chan struct{})
	req.Cancel = c
	time.AfterFunc(time.Second, func() { close(c) })
	_, err := read(rt.RoundTrip(req))
	return err
}

// post uploads what body returns, with a Content-Length if it is positive.
func post(length int64, body func() io.Reader) deed {
	return func(r *rig, rt http.RoundTripper) error {
		req := r.request(r.Context(), "POST", body())
		req.ContentLength = length
		_, err := read(rt.RoundTrip(req))
		return err
	}
}

// hidden makes net/http take s for a stream.
func hidden(s string) func() io.Reader {
	return func() io.Reader { return io.MultiReader(strings.NewReader(s)) }
}

func upgrade(r *rig, rt http.RoundTripper) error {
	req := r.request(r.Context(), "GET", nil)
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
	resp, err := rt.RoundTrip(req)
	if err == nil {
		time.Sleep(time.Minute)
		resp.Body.Close()
	}
	return err
}

func invalid(r *rig, rt http.RoundTripper) error {
	_, err := rt.RoundTrip(&http.Request{Method: "GET", Body: io.NopCloser(strings.NewReader("x"))})
	return err
}

var errMine = errors.New("mine")

// What net/http would refuse to write, or, over HTTP/2, dial for in a loop, is
// found before anything is taken: a caller's input must not open the breaker.
func TestInvalidRequests(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		for name, spoil := range map[string]func(*http.Request){
			"query":               func(req *http.Request) { req.URL.RawQuery = "q=a\nb" },
			"opaque":              func(req *http.Request) { req.URL.Opaque = "//a/\x01" },
			"Host":                func(req *http.Request) { req.Host = "a b\n" },
			"no URL":              func(req *http.Request) { req.URL = nil },
			"no host":             func(req *http.Request) { req.URL.Host = "" },
			"method":              func(req *http.Request) { req.Method = "BAD METHOD" },
			"header name":         func(req *http.Request) { req.Header = http.Header{"A B": {"x"}} },
			"header value":        func(req *http.Request) { req.Header = http.Header{"A": {"x\ny"}} },
			"length of a body":    func(req *http.Request) { req.ContentLength = 5 },
			"length without body": func(req *http.Request) { req.Body, req.ContentLength = nil, 5 },
		} {
			body := &closedBody{Reader: strings.NewReader("x")}
			got := r.verdict(func() {
				req := r.request(r.Context(), "POST", strings.NewReader("x"))
				if name != "length of a body" {
					req.Body = body
				}
				spoil(req)
				_, err := read(r.all().RoundTrip(req))
				if over2 := r.own.Protocols.HTTP2() && err == nil && name == "length without body"; !over2 && (err == nil || transport.NotSent(err)) {
					r.Errorf("%s: %v", name, err)
				}
				if body.closed == 0 && req.Body == body {
					r.Errorf("%s: body left open", name)
				}
			})
			if got == failure {
				r.Errorf("%s: %s", name, got)
			}
		}
		if n := r.server.Stats().Conns; n > 1 {
			r.Errorf("%d connections", n)
		}
	})
}

// A relative URL is for a base that is not net/http's to complete. If none does it is the caller's mistake.
func TestRelativeURL(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		rt := transport.Chain(r.base, r.breaker.Wrap, transport.NewForeignTimeouts("sber", r.cfg).Wrap)
		for name, spoil := range map[string]func(u *url.URL){
			"no scheme": func(u *url.URL) { u.Scheme = "" },
			"no host":   func(u *url.URL) { u.Host = "" },
		} {
			var whole, err error
			got := r.verdict(func() {
				req := r.request(r.Context(), "GET", nil)
				spoil(req.URL)
				_, err = read(rt.RoundTrip(req))
				_, whole = read(transport.Chain(completes{r}, r.breaker.Wrap, transport.NewForeignTimeouts("sber", r.cfg).Wrap).RoundTrip(req))
			})
			if _, invalid := errors.AsType[*exchange.InvalidError](err); got != success || !invalid || whole != nil {
				t.Errorf("%s: %s; %v; completed: %v", name, got, err, whole)
			}
		}
	})
}

// completes makes a relative URL one of the server's.
type completes struct{ r *rig }

func (c completes) RoundTrip(req *http.Request) (*http.Response, error) {
	whole := c.r.request(req.Context(), req.Method, nil)
	return c.r.base.RoundTrip(whole)
}

// What an exchange says about the system, row by row of the design.
func TestVerdicts(t *testing.T) {
	const threshold = 2500 * time.Millisecond // ReadTimeout / 2
	rows := []struct {
		name   string
		server http.Handler
		do     deed
		want   string
		err    error
		only   int // this HTTP version, if not 0
	}{
		{"body read", testserver.OK("ok"), get, success, nil, 0},
		{"no body", testserver.Status(204), get, success, nil, 0},
		{"closed unread", testserver.OK("ok"), part(0, 0), success, nil, 0},
		{"closed in the middle", testserver.Trickle(1, time.Second, -1), part(2, 0), success, nil, 0},
		{"slow consumer", testserver.OK("ok"), part(1, 6*time.Second), success, nil, 0},
		{"slow answer", testserver.After(4*time.Second, testserver.OK("ok")), get, success, nil, 0},
		{"upgraded", testserver.Upgrade(), upgrade, success, nil, 1},
		{"redirect", testserver.Status(302, "Location", "/"), get, success, nil, 0},

		{"500, cut", testserver.Status(500), part(0, 0), failure, nil, 0},
		{"503, forgotten", testserver.Status(503), forget, failure, nil, 0},
		{"cut in the body", testserver.CutInBody(1, 9), get, failure, errAny, 0},
		{"cut in the body, of unknown length", testserver.CutInBody(1, 0), get, failure, errAny, 0},
		{"cut after what was read", testserver.CutInBody(1, 9), part(1, 0), success, nil, 0},
		{"stall in the body", testserver.StallInBody(1), get, failure, transport.ErrTimeout, 0},
		{"endless body", testserver.Trickle(1, time.Second, -1), get, failure, transport.ErrTimeout, 0},
		{"hang", testserver.HangBeforeHeaders(), get, failure, transport.ErrTimeout, 0},
		{"hang in the headers", testserver.HangInHeaders(), get, failure, transport.ErrTimeout, 0},
		{"no answer", testserver.CloseBeforeHeaders(), get, failure, errAny, 0},
		{"reset", testserver.Reset(), get, failure, errAny, 0},
		{"abort", testserver.Abort(), get, failure, errAny, 0},
		{"huge headers", testserver.HugeHeaders(3 << 20), get, failure, errAny, 0},

		{"caller gone early", testserver.HangBeforeHeaders(), cancelAfter(threshold-1, nil), neutral, context.Canceled, 0},
		{"caller gone, and a reason", testserver.HangBeforeHeaders(), cancelAfter(time.Second, errMine), neutral, errMine, 0},
		{"caller gone for what looks like a timeout", testserver.HangBeforeHeaders(), cancelAfter(time.Second, context.DeadlineExceeded), neutral, context.Canceled, 0},
		{"caller gone from a hung system", testserver.HangBeforeHeaders(), cancelAfter(threshold, nil), failure, context.Canceled, 0},
		{"caller gone from a body that trickles", testserver.Trickle(1, time.Second, -1), cancelAfter(4500*time.Millisecond, nil), neutral, context.Canceled, 0},
		{"caller gone from a body that stalls", testserver.StallInBody(1), cancelAfter(threshold, nil), failure, context.Canceled, 0},
		{"short deadline", testserver.HangBeforeHeaders(), within(time.Second), neutral, transport.ErrTimeout, 0},
		{"deadline beyond the silence", testserver.HangBeforeHeaders(), within(4 * time.Second), failure, transport.ErrTimeout, 0},
		{"deadline in a body that trickles", testserver.Trickle(1, time.Second, -1), within(4 * time.Second), neutral, transport.ErrTimeout, 0},
		{"http.Client.Timeout", testserver.HangBeforeHeaders(), clientTimeout(time.Second), neutral, context.DeadlineExceeded, 0},
		{"http.Client.Timeout beyond the silence", testserver.HangBeforeHeaders(), clientTimeout(4 * time.Second), failure, context.DeadlineExceeded, 0},
		{"http.Client.Timeout in the body", testserver.StallInBody(1), clientTimeout(time.Second), neutral, context.DeadlineExceeded, 0},
		{"Request.Cancel", testserver.HangBeforeHeaders(), reqCancel, neutral, errAny, 0},

		{"forgotten", testserver.OK("ok"), forget, neutral, nil, 0},
		{"forgotten half-read", testserver.Trickle(1, time.Second, -1), part(2, 10*time.Second), neutral, nil, 0},
		{"invalid", testserver.OK("ok"), invalid, neutral, errAny, 0},
		{"upload that fails", testserver.OK("ok"), post(0, func() io.Reader { return iotest.ErrReader(errMine) }), neutral, errMine, 0},
		{"upload that fails later", testserver.OK("ok"), post(0, func() io.Reader {
			return io.MultiReader(strings.NewReader("x"), iotest.ErrReader(errMine))
		}), neutral, errMine, 0},
		{"upload too short", testserver.OK("ok"), post(9, hidden("x")), neutral, errAny, 0},
		{"upload too long", testserver.HangBeforeHeaders(), post(2, hidden("xxxxxxxxx")), neutral, errAny, 0},
		{"upload in memory too short", testserver.OK("ok"), post(9, func() io.Reader { return strings.NewReader("x") }), neutral, errAny, 0},
		{"upload that stalls", testserver.OK("ok"), post(0, func() io.Reader { pr, _ := io.Pipe(); return pr }), neutral, transport.ErrTimeout, 0},
		{"upload that is not taken", testserver.HangUnread(), post(0, hidden(strings.Repeat("x", 4<<20))), failure, transport.ErrTimeout, 0},
	}
	for code, want := range map[int]string{
		200: success, 201: success, 301: success, 400: success, 401: success, 403: success, 404: success, 409: success, 422: success,
		429: success, 499: success, 500: failure, 501: failure, 503: failure, 599: failure, 600: success,
	} {
		rows = append(rows, rows[0])
		row := &rows[len(rows)-1]
		row.name, row.server, row.want = fmt.Sprint(code), testserver.Status(code), want
	}
	inBoth(t, oneProbe, func(r *rig) {
		for _, row := range rows {
			if row.only == 1 && r.own.Protocols.HTTP2() || row.only == 2 && !r.own.Protocols.HTTP2() {
				continue
			}
			r.server.Default(row.server)
			var err error
			if got := r.verdict(func() { err = row.do(r, r.all()) }); got != row.want {
				r.Errorf("%s: %s (%v), want %s", row.name, got, err, row.want)
			}
			if (err == nil) != (row.err == nil) || row.err != errAny && !errors.Is(err, row.err) {
				r.Errorf("%s: got %v, want %v", row.name, err, row.err)
			}
			r.held(0)
			r.own.CloseIdleConnections()
		}
	})
}

var errAny = errors.New("any error")

// The breaker without the layer that would end a hang for it, over bases that
// do what net/http does not.
func TestVerdictsOfStrangeBases(t *testing.T) {
	full := &semaphore.FullError{System: "other"}
	for name, row := range map[string]struct {
		base fake
		want string
	}{
		"panic":   {func(*http.Request) (*http.Response, error) { panic("boom") }, failure},
		"goexit":  {func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }, failure},
		"nothing": {func(*http.Request) (*http.Response, error) { return nil, nil }, failure},
		"response and error": {func(req *http.Request) (*http.Response, error) {
			return response(req, 200, strings.NewReader("")), errDown
		}, failure},
		"error": {func(*http.Request) (*http.Response, error) { return nil, errDown }, failure},
		"deadline of its own": {func(*http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("token: %w", context.DeadlineExceeded)
		}, failure},
		"cancel of its own": {func(*http.Request) (*http.Response, error) { return nil, context.Canceled }, failure},
		"refused inside":    {func(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("inside: %w", full) }, neutral},
		"open inside": {func(*http.Request) (*http.Response, error) {
			return nil, &transport.OpenError{System: "other"}
		}, neutral},
		"deadline inside": {func(*http.Request) (*http.Response, error) {
			return nil, &transport.TimeoutError{System: "sber", Phase: transport.PhaseDeadline}
		}, neutral},
		"total inside": {func(*http.Request) (*http.Response, error) {
			return nil, &transport.TimeoutError{System: "sber", Phase: transport.PhaseTotal}
		}, failure},
		"panic in the body": {func(req *http.Request) (*http.Response, error) {
			return response(req, 200, readFunc(func([]byte) (int, error) { panic("boom") })), nil
		}, failure},
		"goexit in the body": {func(req *http.Request) (*http.Response, error) {
			return response(req, 200, readFunc(func([]byte) (int, error) { runtime.Goexit(); return 0, nil })), nil
		}, failure},
		"data with its end": {func(req *http.Request) (*http.Response, error) {
			return response(req, 200, iotest.DataErrReader(strings.NewReader("ok"))), nil
		}, success},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testserver.Options{Memory: true}, oneProbe)
				if got := r.verdict(func() { swallow(func() { _ = get(r, r.breaker.Wrap(row.base)) }) }); got != row.want {
					t.Errorf("%s, want %s", got, row.want)
				}
			})
		})
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// swallow runs f, whether it returns, panics or ends its goroutine.
func swallow(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		f()
	}()
	<-done
}
