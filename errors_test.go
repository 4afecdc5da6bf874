package resilient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// told is what the errors of the design's table must say.
type told struct {
	is, isNot []error
	timeout   bool
	notSent   bool
	status    int // of StatusCode; 0 = not ok
}

func (r *rig) tells(err error, want told) {
	r.Helper()
	if err == nil {
		r.Error("no error")
		return
	}
	for _, target := range want.is {
		if !errors.Is(err, target) {
			r.Errorf("%q is not %q", err, target)
		}
	}
	all := []error{resilient.ErrUnavailable, resilient.ErrBulkheadFull, resilient.ErrCircuitOpen, resilient.ErrClosed,
		resilient.ErrTimeout, context.Canceled, context.DeadlineExceeded}
	for _, target := range append(all, want.isNot...) {
		wanted := false
		for _, is := range want.is {
			wanted = wanted || is == target
		}
		if !wanted && errors.Is(err, target) {
			r.Errorf("%q is %q", err, target)
		}
	}
	n, ok := err.(interface{ Timeout() bool })
	if timeout := ok && n.Timeout(); timeout != want.timeout {
		r.Errorf("%q: Timeout() is %v", err, timeout)
	}
	if got := resilient.NotSent(err); got != want.notSent {
		r.Errorf("%q: NotSent is %v", err, got)
	}
	if code, _, ok := resilient.StatusCode(err); code != want.status || ok != (code != 0) {
		r.Errorf("%q: StatusCode %d, %v, want %d", err, code, ok, want.status)
	}
	for _, secret := range []string{"SECRET", "u:p", "gobreaker"} {
		inner := err
		if u, ok := errors.AsType[*url.Error](err); ok {
			inner = u.Err
		}
		if strings.Contains(inner.Error(), secret) {
			r.Errorf("%q tells %q", inner, secret)
		}
	}
}

// Section 6 of the design, row by row, over both protocols, from the chain
// itself and through the *url.Error of an http.Client.
func TestErrorTable(t *testing.T) {
	type ctxFunc func(context.Context) (context.Context, func())
	after := func(d time.Duration, cause error) ctxFunc {
		return func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			timer := time.AfterFunc(d, func() { cancel(cause) })
			return ctx, func() { timer.Stop(); cancel(nil) }
		}
	}
	deadline := func(ctx context.Context) (context.Context, func()) {
		ctx, cancel := context.WithDeadlineCause(ctx, time.Now().Add(time.Hour), errBoom)
		return ctx, cancel
	}
	expired := func(ctx context.Context) (context.Context, func()) {
		ctx, cancel := context.WithTimeout(ctx, -1)
		return ctx, cancel
	}
	hang, stall := testserver.HangBeforeHeaders(), testserver.StallInBody(3)
	rows := []struct {
		name   string
		server http.Handler
		fill   bool // all permits are out
		open   bool // the breaker is
		closed bool // the client is
		ctx    ctxFunc
		want   told
	}{
		{"full", hang, true, false, false, nil,
			told{is: []error{resilient.ErrUnavailable, resilient.ErrBulkheadFull}, notSent: true, status: 503}},
		{"open", hang, false, true, false, nil,
			told{is: []error{resilient.ErrUnavailable, resilient.ErrCircuitOpen}, notSent: true, status: 503}},
		{"closed", hang, false, false, true, nil,
			told{is: []error{resilient.ErrUnavailable, resilient.ErrClosed}, notSent: true, status: 503}},
		{"timeout before headers", hang, false, false, false, deadline,
			told{is: []error{resilient.ErrTimeout, context.DeadlineExceeded}, isNot: []error{errBoom}, timeout: true, status: 504}},
		{"timeout in body", stall, false, false, false, nil,
			told{is: []error{resilient.ErrTimeout, context.DeadlineExceeded}, timeout: true, status: 504}},
		{"cancel before headers", hang, false, false, false, after(time.Second, nil), told{is: []error{context.Canceled}}},
		{"cancel in body", stall, false, false, false, after(time.Second, nil), told{is: []error{context.Canceled}}},
		{"cancel with a cause before headers", hang, false, false, false, after(time.Second, errBoom), told{is: []error{context.Canceled, errBoom}}},
		{"cancel with a cause in body", stall, false, false, false, after(time.Second, errBoom), told{is: []error{context.Canceled, errBoom}}},
		{"cancel in the queue", hang, true, false, false, after(50*time.Millisecond, errBoom), told{is: []error{context.Canceled, errBoom}}},
		{"cancelled before", hang, false, false, false, after(0, nil), told{is: []error{context.Canceled}}},
		{"expired before", hang, false, false, false, expired, told{is: []error{context.DeadlineExceeded}, timeout: true, status: 504}},
		{"cut body", testserver.CutInBody(3, 100), false, false, false, nil, told{status: 502}},
		{"aborted", testserver.Abort(), false, false, false, nil, told{status: 502}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			inBoth(t, setting{}, func(r *rig) {
				background := r.Context()
				if row.open {
					r.server.Default(testserver.Status(500))
					for range 20 {
						r.get(background)
					}
				}
				r.server.Default(row.server)
				if row.fill {
					for range 16 {
						go r.get(background)
					}
					synctest.Wait()
				}
				if row.closed {
					r.Close()
				}
				for _, through := range []string{"RoundTrip", "Do"} {
					ctx := background
					if row.ctx != nil {
						var stop func()
						ctx, stop = row.ctx(ctx)
						defer stop()
						synctest.Wait()
					}
					body := &closeCounter{Reader: strings.NewReader("payment")}
					req := r.request(ctx, "POST", body)
					req.URL.RawQuery, req.URL.User = "key=SECRET", url.UserPassword("u", "p")
					do := r.RoundTrip
					if through == "Do" {
						do = r.Do
					}
					resp, err := do(req)
					if err == nil {
						_, err = io.ReadAll(resp.Body)
						if closeErr := resp.Body.Close(); closeErr != nil {
							r.Error(closeErr)
						}
					}
					synctest.Wait()
					r.Logf("%s: %v", through, err)
					r.tells(err, row.want)
					if body.closed.Load() == 0 {
						r.Errorf("%s: the request's body was not closed", through)
					}
				}
				time.Sleep(10 * time.Second)
			})
		})
	}
}

// Only what net/http would not have sent before by itself is known not to have been sent.
func TestNotSentOfDials(t *testing.T) {
	refused := errors.New("connection refused")
	dialers := map[string]func(context.Context, string, string) (net.Conn, error){
		"refused": func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: refused}
		},
		"black hole": testserver.BlackHole,
	}
	for name, dial := range dialers {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{opts: []resilient.Option{resilient.WithDialContext(dial)}}, func(r *rig) {
				http2 := r.State().Config.Protocol == "http2"
				for _, c := range []struct {
					method string
					body   io.Reader
					header string
					want   bool
				}{
					{"POST", io.MultiReader(strings.NewReader("stream")), "", true},
					{"POST", bytes.NewReader([]byte("replayable over HTTP/2 only")), "", !http2},
					{"POST", strings.NewReader("x"), "Idempotency-Key", false},
					{"GET", nil, "", false},
					{"DELETE", nil, "", !http2},
				} {
					req := r.request(r.Context(), c.method, c.body)
					if c.header != "" {
						req.Header.Set(c.header, "1")
					}
					_, err := r.Do(req)
					if got := resilient.NotSent(err); got != c.want {
						r.Errorf("%s %T %s: NotSent(%v) is %v", c.method, c.body, c.header, err, got)
					}
					if name == "black hole" {
						r.timeout(err, "connect")
					} else if !errors.Is(err, refused) {
						r.Error(err)
					}
					req = r.request(r.Context(), "POST", io.MultiReader())
					req.Response = new(http.Response) // a redirect's second hop
					if _, err = r.RoundTrip(req); resilient.NotSent(err) {
						r.Errorf("after a redirect: NotSent(%v)", err)
					}
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// A refusal on the second hop does not mean that nothing was sent.
func TestNotSentAfterRedirect(t *testing.T) {
	cfg := resilient.Config{MaxConnsPerHost: 1}
	inBoth(t, setting{cfg: cfg}, func(r *rig) {
		c := r.HTTPClient()
		c.CheckRedirect = func(q *http.Request, _ []*http.Request) error {
			go func() {
				q := r.request(r.Context(), "GET", nil)
				q.URL.Path = "/other"
				r.server.On("/other", testserver.After(time.Second, testserver.OK("ok")))
				if resp, err := r.RoundTrip(q); err == nil {
					time.Sleep(time.Second)
					resp.Body.Close()
				}
			}()
			synctest.Wait()
			return nil
		}
		r.server.Default(http.RedirectHandler("/next", http.StatusSeeOther))
		_, err := c.Post(r.server.URL()+"/", "text/plain", strings.NewReader("payment"))
		if !errors.Is(err, resilient.ErrBulkheadFull) || resilient.NotSent(err) || !strings.Contains(err.Error(), "may have been sent before") {
			r.Errorf("%v, NotSent %v", err, resilient.NotSent(err))
		}
		time.Sleep(5 * time.Second)
	})
}

func TestErrorsAreLogged(t *testing.T) {
	for _, err := range []error{
		&resilient.FullError{System: "sber"}, &resilient.OpenError{System: "sber"}, &resilient.ClosedError{System: "sber"},
		&resilient.TimeoutError{System: "sber"}, &resilient.DuplicateError{Name: "sber"}, &resilient.NotFoundError{Name: "sber"},
	} {
		var b bytes.Buffer
		slog.New(slog.NewTextHandler(&b, nil)).Info("x", "err", err)
		if !strings.Contains(b.String(), "err.system=sber") || !strings.Contains(err.Error(), "sber") {
			t.Errorf("%T: %s", err, b.String())
		}
	}
}

// The breaker's error tells when to come again, and a handler hands that on.
func TestRetryAfter(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.server.Default(testserver.Status(500))
		for range 20 {
			r.get(r.Context())
		}
		time.Sleep(10 * time.Second)
		_, err := r.get(r.Context())
		if code, after, ok := resilient.StatusCode(err); code != 503 || after != 20*time.Second || !ok {
			r.Errorf("%d, %v, %v", code, after, ok)
		}
		if until := time.Until(r.State().Breaker.OpenUntil); until != 20*time.Second {
			r.Errorf("open for another %v", until)
		}
	})
}
