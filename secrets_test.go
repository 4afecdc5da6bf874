package resilient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// private is a request with a secret wherever one may be.
func (r *rig) private(ctx context.Context) *http.Request {
	r.Helper()
	req := r.request(ctx, "POST", strings.NewReader("SECRET-body"))
	req.URL.User = url.UserPassword("SECRET-user", "SECRET-password")
	req.URL.Path, req.URL.RawQuery, req.URL.Fragment = "/SECRET-path", "token=SECRET-query", "SECRET-fragment"
	req.Header = http.Header{
		"Authorization": {"Bearer SECRET-token"}, "Cookie": {"session=SECRET-cookie"},
		"X-Api-Key": {"SECRET-key"}, "Idempotency-Key": {"SECRET-idempotency"},
	}
	return req
}

// shows returns all that a client says to anybody: its log, its metrics, its pages, its state.
func (r *rig) shows(log *bytes.Buffer) string {
	r.Helper()
	said := bytes.NewBuffer(bytes.Clone(log.Bytes()))
	families, err := r.prom.Gather()
	if err != nil {
		r.Fatal(err)
	}
	for _, f := range families {
		said.WriteString(f.String())
	}
	for _, h := range []http.Handler{r.reg.Handler(), r.reg.Readiness(), r.reg.Liveness()} {
		for _, target := range []string{"/?format=json", "/?format=html", "/sber?format=json", "/sber?format=html"} {
			said.Write(inspected(r.T, h, target).Body.Bytes())
		}
	}
	state := r.State()
	state.Health.Err = nil // the probe's own error, for who asks
	fmt.Fprintf(said, "%+v %#v %v %+v", state, state, r.Client, r.Client)
	return said.String()
}

// Whatever a call ends with, nothing of the request or of the answer is told: not by the error, not in the log, the metrics, the state or on a page.
func TestSecretsAreKept(t *testing.T) {
	send := func(r *rig) error { // and read what comes
		resp, err := r.Client.RoundTrip(r.private(r.Context()))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		return err
	}
	within := func(d time.Duration, cancel bool) func(r *rig) error {
		return func(r *rig) error {
			ctx, stop := context.WithTimeout(r.Context(), d)
			if cancel {
				ctx, stop = context.WithCancel(r.Context())
				time.AfterFunc(d, stop)
			}
			defer stop()
			resp, err := r.Client.RoundTrip(r.private(ctx))
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
	}
	as := func(change func(req *http.Request)) func(r *rig) error {
		return func(r *rig) error {
			req := r.private(r.Context())
			change(req)
			_, err := r.Client.RoundTrip(req)
			return err
		}
	}
	small := permits(1)
	small.MaxResponseHeaderBytes, small.MaxResponseBytes = 1<<10, 20
	gate, late, retries := permits(1), permits(1), trips(1, permits(1))
	gate.Retry.Gate, late.Retry.DeadlineFloor, retries.Retry.MaxAttempts = true, 200*time.Millisecond, 2
	refused := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	proxy := func(*http.Request) (*url.URL, error) {
		return url.Parse("http://SECRET-proxy-user:SECRET-proxy-password@proxy.test:3128")
	}
	reply := func(code int, n int) http.Handler {
		return testserver.Status(code, "X-Reply", "SECRET-reply"+strings.Repeat("x", n), "Set-Cookie", "s=SECRET-set", "Retry-After", "0", "Retry-After", "SECRET")
	}
	for _, row := range []struct {
		name   string
		cfg    resilient.Config
		server http.Handler
		opts   []resilient.Option
		do     func(r *rig) error
		want   error // nil: any
	}{
		{"full", permits(1), testserver.StallInBody(1), nil, func(r *rig) error {
			resp, err := r.Client.RoundTrip(r.private(r.Context()))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			return send(r)
		}, resilient.ErrBulkheadFull},
		{"open", trips(1, permits(1)), reply(500, 0), nil, func(r *rig) error { return errors.Join(send(r), send(r)) }, resilient.ErrCircuitOpen},
		{"closed", permits(1), nil, nil, func(r *rig) error { _, err := r.another("sber2", permits(1)).closedCall(); return err }, resilient.ErrClosed},
		{"read timeout", permits(1), testserver.HangBeforeHeaders(), nil, send, resilient.ErrTimeout},
		{"total timeout", permits(1), testserver.Trickle(1, time.Second, -1), nil, send, resilient.ErrTimeout},
		{"connect timeout", permits(1), nil, []resilient.Option{resilient.WithDialContext(testserver.BlackHole)}, send, resilient.ErrTimeout},
		{"caller's deadline", permits(1), testserver.HangBeforeHeaders(), nil, within(time.Second, false), context.DeadlineExceeded},
		{"caller's cancel", permits(1), testserver.HangBeforeHeaders(), nil, within(time.Second, true), context.Canceled},
		{"refused", permits(1), nil, []resilient.Option{resilient.WithDialContext(refused)}, send, syscall.ECONNREFUSED},
		{"cut", permits(1), testserver.CutInBody(1, 2), nil, send, nil},
		{"no answer", permits(1), testserver.CloseBeforeHeaders(), nil, send, nil},
		{"too large", small, testserver.OK("SECRET-" + strings.Repeat("answer", 100)), nil, send, resilient.ErrTooLarge},
		{"large headers", small, reply(200, 2<<10), nil, send, nil},
		{"header's value", permits(1), nil, nil, as(func(req *http.Request) { req.Header.Set("X-Api-Key", "SECRET\n") }), nil},
		{"header's name", permits(1), nil, nil, as(func(req *http.Request) { req.Header["Authorization: SECRET"] = []string{"x"} }), nil},
		{"trailer", permits(1), nil, nil, as(func(req *http.Request) { req.Trailer = http.Header{"Content-Length": {"SECRET"}} }), nil},
		{"method", permits(1), nil, nil, as(func(req *http.Request) { req.Method = "SECRET SECRET" }), nil},
		{"query", permits(1), nil, nil, as(func(req *http.Request) { req.URL.RawQuery = "SECRET\n" }), nil},
		{"no scheme", permits(1), nil, nil, as(func(req *http.Request) { req.URL.Scheme = "" }), nil},
		{"another scheme", permits(1), nil, nil, as(func(req *http.Request) { req.URL.Scheme = "SECRET" }), nil},
		{"paused", gate, testserver.Status(429, "Retry-After", "5"), nil, func(r *rig) error { return errors.Join(send(r), send(r)) }, resilient.ErrUnavailable},
		{"late", late, nil, nil, within(100*time.Millisecond, false), resilient.ErrUnavailable},
		{"refused attempt", retries, reply(503, 0), nil, send, resilient.ErrCircuitOpen},
		{"proxy", permits(1), reply(407, 0), []resilient.Option{resilient.WithProxy(proxy)}, as(func(req *http.Request) { req.URL.Scheme = "https" }), nil},
		{"no proxy", permits(1), nil, []resilient.Option{resilient.WithProxy(proxy), resilient.WithDialContext(refused)}, send, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			var log bytes.Buffer
			logger := resilient.WithLogger(slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
			inBoth(t, setting{cfg: row.cfg, server: testserver.Options{Handler: row.server}, opts: append(row.opts, logger)}, func(r *rig) {
				log.Reset()
				if row.name == "proxy" && r.State().Config.Protocol == resilient.HTTP2 {
					return // that server speaks TLS, which a proxy's address does not say
				}
				err := row.do(r)
				if err == nil || row.want != nil && !errors.Is(err, row.want) {
					r.Fatalf("%v, want %v", err, row.want)
				}
				said := fmt.Sprintf("%v %+v", err, err)
				slog.New(slog.NewJSONHandler(&log, nil)).Error("failed", "error", err)
				slog.New(slog.NewTextHandler(&log, nil)).Error("failed", "error", err)
				for e := err; e != nil; e = errors.Unwrap(e) {
					if v, ok := e.(slog.LogValuer); ok {
						said += v.LogValue().String()
					}
				}
				for _, said := range []string{said, r.shows(&log)} {
					if i := strings.Index(said, "SECRET"); i >= 0 || strings.Contains(said, r.server.URL()) {
						r.Errorf("told: %s", said[max(0, i-100):])
					}
				}
			})
		})
	}
}

// closedCall closes r and calls it.
func (r *rig) closedCall() (*http.Response, error) {
	r.Close()
	return r.Client.RoundTrip(r.private(r.Context()))
}

// A probe's failure is on the pages, and may be an error of an http.Client's, with its URL, or what the system said.
func TestHealthKeepsSecrets(t *testing.T) {
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
	probe := func(context.Context) error {
		_, err := (&http.Client{Transport: &http.Transport{DialContext: refused}}).Get("https://user:SECRET@sber.test/?token=SECRET")
		return fmt.Errorf("probing: %w, %v", err, err)
	}
	garbage := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nSet-Cookie SECRET\r\n\r\n")
	})
	for name, row := range map[string]struct {
		opt  resilient.Option
		want string
	}{
		"an http.Client's": {resilient.WithHealth(probe), "connection refused"},
		"no HTTP":          {resilient.WithHealthURL("http://user:SECRET@sber.test/SECRET?token=SECRET"), "no HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			inOne(t, setting{server: testserver.Options{Handler: garbage}, opts: []resilient.Option{row.opt, textLog(&log)}}, func(r *rig) {
				if err := r.Health(r.Context()); err == nil {
					r.Fatal("healthy")
				}
				synctest.Wait()
				if said := r.shows(&log); strings.Contains(said, "SECRET") || !strings.Contains(said, row.want) {
					r.Error(said)
				}
			})
		})
	}
}

// What a client is refused for does not show what it was made with.
func TestOptionsKeepSecrets(t *testing.T) {
	reg := resilient.NewRegistry()
	for _, make := range []func() error{
		func() error {
			_, err := reg.NewClient("https://user:SECRET@sber.test", resilient.Config{})
			return err
		},
		func() error {
			_, err := reg.NewClient("sber", resilient.Config{Protocol: "SECRET-protocol"})
			return err
		},
		func() error {
			_, err := reg.NewClient("sber", resilient.Config{}, resilient.WithHealthURL("ftp://user:SECRET@sber.test"))
			return err
		},
		func() error {
			_, err := reg.NewClient("sber", resilient.Config{}, resilient.WithHealthURL("http://user:SECRET@sber.test/%zz"))
			return err
		},
	} {
		if err := make(); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Error(err)
		}
	}
	if len(reg.Names()) != 0 {
		t.Error(reg.Names())
	}
	if text, err := json.Marshal(reg.States()); err != nil || strings.Contains(string(text), "SECRET") {
		t.Error(string(text), err)
	}
}
