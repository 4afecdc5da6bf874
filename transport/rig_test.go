package transport_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// A rig is a scripted system, the base that reaches it, and one of each layer
// for chains of one's own. That everything was given back is checked at its end.
type rig struct {
	*testing.T
	server   *testserver.Server
	cfg      config.Config
	own      *http.Transport
	base     *valve // over own
	sem      *semaphore.Semaphore
	breaker  *transport.Breaker
	timeouts *transport.Timeouts
}

// oneProbe are settings with which one exchange decides.
var oneProbe = config.Config{Breaker: config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 1}}

func complete(t testing.TB, cfg config.Config) config.Config {
	t.Helper()
	cfg, err := cfg.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func newRig(t *testing.T, o testserver.Options, cfg config.Config) *rig {
	t.Helper()
	server, err := testserver.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	if o.Protocol == testserver.HTTP2 {
		cfg.Protocol = config.HTTP2
	}
	cfg = complete(t, cfg)
	r := &rig{
		T: t, server: server, cfg: cfg, own: transport.Base(cfg),
		sem:      semaphore.New("sber", semaphore.Limits{MaxConcurrent: cfg.Bulkhead.MaxConcurrent, MaxWaiting: cfg.Bulkhead.MaxWaiting}),
		breaker:  transport.NewBreaker("sber", cfg),
		timeouts: transport.NewTimeouts("sber", cfg),
	}
	r.base = &valve{next: r.own}
	r.dial(server.Dial)
	if c := server.TLS(); c != nil {
		r.own.TLSClientConfig = c
	}
	t.Cleanup(func() {
		r.held(0)
		r.own.CloseIdleConnections()
		server.Close()
	})
	return r
}

// inBoth runs f in fake time, over HTTP/1.1 and HTTP/2.
func inBoth(t *testing.T, cfg config.Config, f func(r *rig)) {
	t.Helper()
	for _, p := range []testserver.Protocol{testserver.HTTP1, testserver.HTTP2} {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f(newRig(t, testserver.Options{Protocol: p, Memory: true}, cfg))
			})
		})
	}
}

func (r *rig) dial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	r.own.DialContext = (&transport.Dialer{Timeout: r.cfg.ConnectTimeout, Dial: dial}).DialContext
}

// all is the chain in its right order.
func (r *rig) all() http.RoundTripper {
	return transport.Chain(r.base,
		transport.Bulkhead(r.sem, r.cfg.Bulkhead.AcquireTimeout, r.breaker.Peek), r.breaker.Wrap, r.timeouts.Wrap)
}

func (r *rig) request(ctx context.Context, method string, body io.Reader) *http.Request {
	r.Helper()
	return newRequest(r.T, ctx, method, r.server.URL()+"/", body)
}

func newRequest(t testing.TB, ctx context.Context, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// get does a GET through rt and reads the body to its end.
func (r *rig) get(ctx context.Context, rt http.RoundTripper) (string, error) {
	r.Helper()
	return read(rt.RoundTrip(r.request(ctx, "GET", nil)))
}

func read(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func (r *rig) held(n int) {
	r.Helper()
	if s := r.sem.State(); s.Active != n || s.Waiting != 0 {
		r.Errorf("%d permits out, %d waiting; want %d and none", s.Active, s.Waiting, n)
	}
}

func (r *rig) state(want string) {
	r.Helper()
	if got := r.breaker.State().State; got != want {
		r.Errorf("breaker %s, want %s", got, want)
	}
}

// trip opens the breaker. It needs settings by which one failure does.
func (r *rig) trip() {
	r.Helper()
	r.base.set(errDown)
	_, _ = r.get(context.Background(), r.breaker.Wrap(r.base))
	r.base.set(nil)
	r.state("open")
}

// halfOpen brings the breaker there.
func (r *rig) halfOpen() {
	r.Helper()
	r.trip()
	time.Sleep(r.cfg.Breaker.OpenFor + 1)
	r.state("half_open")
}

// verdict says what an exchange said about the system, by what it does to a
// half-open breaker with one probe, and that it gave the probe's slot back.
func (r *rig) verdict(f func()) string {
	r.Helper()
	r.halfOpen()
	f()
	synctest.Wait()
	got := map[string]string{"closed": success, "open": failure, "half_open": neutral}[r.breaker.State().State]
	if got == failure {
		time.Sleep(r.cfg.Breaker.OpenFor + 1)
	}
	if err := r.probe(); err != nil {
		r.Errorf("after a %s the breaker is wedged: %v", got, err)
	}
	return got
}

// probe does an exchange that succeeds if it is admitted.
func (r *rig) probe() error {
	resp, err := r.breaker.Wrap(answer(200)).RoundTrip(r.request(context.Background(), "GET", nil))
	if err == nil {
		resp.Body.Close()
	}
	return err
}

const (
	success = "success"
	failure = "failure"
	neutral = "neutral"
)

var errDown = errors.New("down")

// A valve is a base that can be told to fail.
type valve struct {
	next   http.RoundTripper
	broken atomic.Pointer[error]
	calls  atomic.Int64
}

func (v *valve) RoundTrip(req *http.Request) (*http.Response, error) {
	v.calls.Add(1)
	if err := v.broken.Load(); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, *err
	}
	return v.next.RoundTrip(req)
}

func (v *valve) set(err error) {
	if err == nil {
		v.broken.Store(nil)
		return
	}
	v.broken.Store(&err)
}

func (v *valve) CloseIdleConnections() { v.next.(*http.Transport).CloseIdleConnections() }

// A fake is a base made of a func.
type fake func(*http.Request) (*http.Response, error)

func (f fake) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answer is a base that answers code, with a body of two bytes.
func answer(code int) fake {
	return func(req *http.Request) (*http.Response, error) {
		return response(req, code, strings.NewReader("ok")), nil
	}
}

func response(req *http.Request, code int, body io.Reader) *http.Response {
	c, ok := body.(io.ReadCloser)
	if !ok {
		c = io.NopCloser(body)
	}
	return &http.Response{
		StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: c, ContentLength: -1, Request: req,
	}
}

// hang is a base that answers nothing until its context ends.
func hang(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// isTimeout checks that err is a TimeoutError in every way that callers look for.
func isTimeout(t testing.TB, err error, phase transport.Phase, limit time.Duration) {
	t.Helper()
	e, ok := errors.AsType[*transport.TimeoutError](err)
	switch {
	case !ok:
		t.Errorf("got %v, want a TimeoutError of phase %s", err, phase)
	case e.Phase != phase || e.Limit != limit || e.System != "sber":
		t.Errorf("got %s after %v of %s, want %s after %v", e.Phase, e.Limit, e.System, phase, limit)
	case !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, transport.ErrTimeout) || errors.Is(err, semaphore.ErrUnavailable):
		t.Errorf("%v matches the wrong errors", err)
	case !strings.Contains(err.Error(), "context deadline exceeded") || !strings.Contains(err.Error(), "sber"):
		t.Errorf("text %q", err)
	}
	if n, isNet := err.(interface{ Timeout() bool }); !isNet || !n.Timeout() {
		t.Errorf("%v: Timeout() is not true", err)
	}
}
