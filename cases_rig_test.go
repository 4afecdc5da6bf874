package resilient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
)

// The tests whose names begin with TestCase_ are faults that users of clients, breakers, bulkheads and configuration loaders
// have reported in public, one for each, by its number. Those that concern the semaphore or the configuration alone are there.

// permits is a Config with n permits, and connections to spare.
func permits(n int) resilient.Config {
	return resilient.Config{MaxConnsPerHost: n + 2, Bulkhead: config.Bulkhead{MaxConcurrent: n}}
}

// trips is cfg with a breaker that opens at n failures in a row, whatever their share, and that one probe closes.
func trips(n int, cfg resilient.Config) resilient.Config {
	cfg.Breaker.ConsecutiveFailures, cfg.Breaker.MinRequests, cfg.Breaker.HalfOpenProbes = n, 10_000, 1
	return cfg
}

// bounds is cfg with other timeouts.
func bounds(connect, read, total time.Duration, cfg resilient.Config) resilient.Config {
	cfg.ConnectTimeout, cfg.ReadTimeout, cfg.TotalTimeout = connect, read, total
	return cfg
}

// inOne runs f in fake time, over HTTP/1.1.
func inOne(t *testing.T, s setting, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.server.Memory = true
		f(newRig(t, s))
	})
}

// over returns the chain of r over a base of the test's own.
func (r *rig) over(base roundTripper) http.RoundTripper {
	r.Helper()
	rt, err := r.Wrap(&base)
	if err != nil {
		r.Fatal(err)
	}
	return rt
}

// send is a RoundTrip of a GET for a path, which must succeed; the body is the caller's.
func (r *rig) send(ctx context.Context, path string) *http.Response {
	r.Helper()
	resp, err := r.RoundTrip(r.to(ctx, path))
	if err != nil {
		r.Fatalf("%s: %v", path, err)
	}
	return resp
}

func (r *rig) to(ctx context.Context, path string) *http.Request {
	r.Helper()
	req := r.request(ctx, "GET", nil)
	req.URL.Path = path
	return req
}

// trip opens the breaker; afterwards the server answers 200 again.
func (r *rig) trip() {
	r.Helper()
	r.server.Default(testserver.Status(500))
	for range 30 {
		r.get(r.Context())
	}
	r.breaker("open")
	r.server.Default(testserver.OK("ok"))
}

// halfOpen brings the breaker to half-open.
func (r *rig) halfOpen() {
	r.Helper()
	r.trip()
	time.Sleep(r.State().Config.Breaker.OpenFor + 1)
	r.breaker("half_open")
}

// works checks that a request succeeds, at once.
func (r *rig) works() {
	r.Helper()
	r.server.Default(testserver.OK("ok"))
	d := took(func() {
		if _, err := r.get(r.Context()); err != nil {
			r.Errorf("an ordinary request: %v", err)
		}
	})
	if d > 0 {
		r.Errorf("an ordinary request took %v", d)
	}
}

// is checks that err matches the targets.
func (r *rig) is(err error, targets ...error) {
	r.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			r.Errorf("%v is not %q", err, target)
		}
	}
}

// answer is a response of a fake base.
func answer(req *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: body, ContentLength: -1, Request: req}
}

// hooked is a body whose methods are funcs; a nil read is at its end, a nil closing succeeds.
type hooked struct {
	read    func(p []byte) (int, error)
	closing func() error
}

func (b hooked) Read(p []byte) (int, error) {
	if b.read == nil {
		return 0, io.EOF
	}
	return b.read(p)
}

func (b hooked) Close() error {
	if b.closing == nil {
		return nil
	}
	return b.closing()
}

// upgrade is a request for another protocol.
func (r *rig) upgrade(ctx context.Context) *http.Request {
	req := r.request(ctx, "GET", nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	return req
}
