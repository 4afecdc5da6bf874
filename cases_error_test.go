package resilient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// endedBy checks what an end is said to be: by errors.Is, by Timeout, and through the *url.Error of an http.Client.
func (r *rig) endedBy(err error, is []error, isNot []error, timeout bool) {
	r.Helper()
	r.is(err, is...)
	for _, target := range isNot {
		if errors.Is(err, target) {
			r.Errorf("%v is %q", err, target)
		}
	}
	if n, ok := err.(interface{ Timeout() bool }); (ok && n.Timeout()) != timeout {
		r.Errorf("%v: Timeout() is %v", err, !timeout)
	}
}

// A cancel is no timeout, wherever it comes in and whatever its cause.
func TestCase_E02(t *testing.T) {
	for name, handler := range map[string]http.Handler{
		"headers": testserver.HangBeforeHeaders(), "body": testserver.StallInBody(1), "queue": testserver.StallInBody(1), "dial": nil,
	} {
		for _, cause := range []error{nil, errBoom, context.DeadlineExceeded} {
			s := setting{cfg: permits(1), server: testserver.Options{Handler: handler}}
			if handler == nil {
				s.opts = append(s.opts, resilient.WithDialContext(testserver.BlackHole))
			}
			inBoth(t, s, func(r *rig) {
				if name == "queue" {
					defer r.send(r.Context(), "/").Body.Close()
				}
				ctx, cancel := context.WithCancelCause(r.Context())
				time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
				_, err := r.get(ctx)
				r.is(err, context.Canceled, context.Cause(ctx))
				if n, ok := err.(interface{ Timeout() bool }); ok && n.Timeout() {
					r.Errorf("%s, %v: %v: Timeout() is true", name, cause, err)
				}
				if errors.Is(err, resilient.ErrTimeout) || resilient.NotSent(err) {
					r.Errorf("%s, %v: %v", name, cause, err)
				}
				for name, v := range r.metrics() {
					if strings.HasPrefix(name, "timeouts_total ") && v != 0 {
						r.Errorf("%s is %v", name, v)
					}
				}
				time.Sleep(time.Minute)
			})
		}
	}
}

// An end in the body is the same error as before the headers.
func TestCase_E03(t *testing.T) {
	const soon = 50 * time.Millisecond
	timeout := []error{resilient.ErrTimeout, context.DeadlineExceeded}
	for _, c := range []struct {
		name      string
		total     time.Duration
		end       func(r *rig, cancel context.CancelCauseFunc)
		is, isNot []error
		timeout   bool
	}{
		{"our timeout", soon, nil, timeout, []error{context.Canceled}, true},
		{"cancel", time.Minute, func(_ *rig, cancel context.CancelCauseFunc) { cancel(nil) }, []error{context.Canceled}, timeout, false},
		{"cancel with a cause", time.Minute, func(_ *rig, cancel context.CancelCauseFunc) { cancel(errBoom) }, []error{context.Canceled, errBoom}, timeout, false},
		{"closed client", time.Minute, func(r *rig, _ context.CancelCauseFunc) { r.Close() }, []error{resilient.ErrClosed}, append(timeout, context.Canceled, resilient.ErrUnavailable), false},
	} {
		for _, handler := range []http.Handler{testserver.HangBeforeHeaders(), testserver.StallInBody(1)} {
			t.Run(c.name, func(t *testing.T) {
				inBoth(t, setting{cfg: permits(2), server: testserver.Options{Handler: handler}}, func(r *rig) {
					ctx, cancel := context.WithCancelCause(resilient.WithBounds(r.Context(), resilient.Bounds{Total: c.total, Read: resilient.Unbounded}))
					if c.end != nil {
						time.AfterFunc(soon, func() { c.end(r, cancel) })
					}
					var err error
					if d := took(func() { _, err = r.get(ctx) }); d != soon {
						r.Errorf("after %v", d)
					}
					r.endedBy(err, c.is, c.isNot, c.timeout)
					cancel(nil)
				})
			})
		}
	}
}

// A TLS handshake that hangs is a timeout of that phase, over our own base and over another.
func TestCase_E04(t *testing.T) {
	for _, protocol := range []testserver.Protocol{testserver.HTTPS, testserver.HTTP2} {
		synctest.Test(t, func(t *testing.T) {
			cfg := bounds(50*time.Millisecond, time.Second, 2*time.Second, trips(2, permits(1)))
			r := newRig(t, setting{cfg: cfg, server: testserver.Options{Memory: true, Protocol: protocol, AcceptDelay: -1}})
			foreign := r.server.Transport()
			foreign.TLSHandshakeTimeout = 50 * time.Millisecond
			for _, rt := range []http.RoundTripper{r.Client, r.over(foreign.RoundTrip)} {
				var err error
				if d := took(func() { _, err = rt.RoundTrip(r.request(r.Context(), "GET", nil)) }); d != 50*time.Millisecond {
					r.Errorf("after %v", d)
				}
				r.timeout(err, "tls")
				if !strings.Contains(err.Error(), "TLS handshake timeout") { // net/http's words
					r.Error(err)
				}
				r.held(0)
			}
			r.outcomes(map[string]float64{"timeout": 2})
			r.breaker("open")
			foreign.CloseIdleConnections()
		})
	}
}

// The refusals are found through a *url.Error, with what they carry, and nothing takes them for what passes by itself.
func TestCase_E05_E06(t *testing.T) {
	for _, c := range []struct {
		name    string
		permits int
		prepare func(r *rig)
		want    error
		as      func(err error) bool
	}{
		{"full", 1, func(r *rig) {
			r.server.Default(testserver.HangBeforeHeaders())
			go r.get(r.Context())
			synctest.Wait()
		}, resilient.ErrBulkheadFull, func(err error) bool {
			e, ok := errors.AsType[*resilient.FullError](err)
			return ok && e.System == "sber" && e.Max == 1 && e.Active == 1 && e.Waited == 100*time.Millisecond
		}},
		{"open", 1, (*rig).trip, resilient.ErrCircuitOpen, func(err error) bool {
			e, ok := errors.AsType[*resilient.OpenError](err)
			return ok && e.System == "sber" && e.RetryAfter == 30*time.Second
		}},
		{"probes taken", 2, func(r *rig) {
			r.halfOpen()
			r.server.Next(testserver.HangBeforeHeaders())
			go r.get(r.Context())
			synctest.Wait()
		}, resilient.ErrCircuitOpen, func(err error) bool {
			e, ok := errors.AsType[*resilient.OpenError](err)
			return ok && e.System == "sber" && e.RetryAfter == 0
		}},
		{"closed", 1, func(r *rig) { r.Close() }, resilient.ErrClosed, func(err error) bool {
			e, ok := errors.AsType[*resilient.ClosedError](err)
			return ok && e.System == "sber" && !e.Started
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, setting{cfg: trips(3, permits(c.permits))}, func(r *rig) {
				c.prepare(r)
				requests := r.server.Stats().Requests
				_, err := r.HTTPClient().Get(r.server.URL())
				if _, ok := errors.AsType[*url.Error](err); !ok || !c.as(err) {
					r.Errorf("%#v", err)
				}
				r.endedBy(err, []error{c.want, resilient.ErrUnavailable}, []error{context.DeadlineExceeded, resilient.ErrTimeout, context.Canceled}, false)
				for e := err; e != nil; e = errors.Unwrap(e) {
					if t, ok := e.(interface{ Temporary() bool }); ok && t.Temporary() {
						r.Errorf("%T is temporary", e)
					}
					if t, ok := e.(interface{ Timeout() bool }); ok && t.Timeout() {
						r.Errorf("%T is a timeout", e)
					}
					if name := fmt.Sprintf("%T", e); strings.Contains(name, "gobreaker") {
						r.Error(name)
					}
				}
				if n := r.server.Stats().Requests; n != requests {
					r.Errorf("%d requests were sent", n-requests)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// What is secret in a URL is in none of our errors, logs and labels.
func TestCase_E07(t *testing.T) {
	var log bytes.Buffer
	logger := resilient.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for name, handler := range map[string]http.Handler{
		"timeout": testserver.HangBeforeHeaders(), "full": testserver.StallInBody(1), "open": testserver.Status(500),
		"cut": testserver.CutInBody(1, 9), "closed": testserver.OK("ok"), "abort": testserver.Abort(), "invalid": testserver.OK("ok"),
	} {
		t.Run(name, func(t *testing.T) {
			log.Reset()
			inBoth(t, setting{cfg: trips(1, permits(1)), opts: []resilient.Option{logger}, server: testserver.Options{Handler: handler}}, func(r *rig) {
				switch name {
				case "full":
					defer r.send(r.Context(), "/").Body.Close()
				case "open":
					r.get(r.Context())
				case "closed":
					r.Close()
				}
				req := r.request(r.Context(), "GET", nil)
				req.URL.User, req.URL.RawQuery = url.UserPassword("user", "hunter2"), "api_key=SECRET"
				req.Header.Set("Authorization", "Bearer SECRET")
				if name == "invalid" {
					req.Method = "BAD METHOD"
				}
				resp, err := r.RoundTrip(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
				}
				if err == nil {
					r.Fatal("no error")
				}
				slog.New(slog.NewTextHandler(&log, nil)).Info("call", "err", err)
				said := err.Error() + log.String()
				for series := range r.metrics() {
					said += series
				}
				for _, secret := range []string{"SECRET", "hunter2", "api_key", "user:", "sber.test/"} {
					if strings.Contains(said, secret) {
						r.Errorf("%s is told: %s", secret, said)
					}
				}
			})
		})
	}
}

// An http.Client says what was called once, and we not at all.
func TestCase_E08(t *testing.T) {
	refused := func(_ context.Context, network, _ string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errBoom}
	}
	inBoth(t, setting{cfg: permits(1), opts: []resilient.Option{resilient.WithDialContext(refused)}}, func(r *rig) {
		_, bare := (&http.Client{Transport: &http.Transport{DialContext: refused}}).Get(r.server.URL())
		for _, client := range []*http.Client{r.HTTPClient(), {Transport: r.Client}} {
			_, err := client.Get(r.server.URL())
			if err == nil || strings.Count(err.Error(), `Get "`) != 1 || err.Error() != bare.Error() {
				r.Errorf("%v, over a bare transport %v", err, bare)
			}
		}
		_, err := r.RoundTrip(r.request(r.Context(), "GET", nil))
		if _, ok := errors.AsType[*url.Error](err); ok || err == nil {
			r.Errorf("RoundTrip's own error is a *url.Error: %v", err)
		}
		r.is(err, errBoom)
	})
	t.Run("of the base's own", func(t *testing.T) { // it is the base's to say what it likes
		inOne(t, setting{cfg: permits(1)}, func(r *rig) {
			own := &url.Error{Op: "Get", URL: "http://sber.test/", Err: errBoom}
			_, err := r.over(func(*http.Request) (*http.Response, error) { return nil, own }).RoundTrip(r.request(r.Context(), "GET", nil))
			if err != own {
				r.Errorf("%#v", err)
			}
		})
	})
}
