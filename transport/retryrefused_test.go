package transport_test

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

	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// A first attempt that is refused is not repeated, and what refused it is told as it is.
func TestRetryOfARefusal(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		r.trip()
		var err error
		if d := took(func() { _, err = r.get(r.Context(), r.retry(attempts(3))) }); d != 0 || !errors.Is(err, transport.ErrCircuitOpen) || !transport.NotSent(err) {
			r.Errorf("after %v: %v", d, err)
		}
		if _, ok := err.(*transport.OpenError); !ok || r.base.calls.Load() != 1 {
			r.Errorf("%T, %d exchanges", err, r.base.calls.Load())
		}
	})
}

// When a later attempt is refused, the caller gets the last answer, if it is still
// there, or an error that tells of it.
func TestRetryThatIsRefused(t *testing.T) {
	const theError, theResponse, lost = "the error", "the response", "lost"
	for name, row := range map[string]struct {
		fail http.Handler
		want string
	}{
		"abort": {testserver.Abort(), theError}, "empty 503": {empty(503), theResponse},
		"503": {testserver.Status(503), lost}, "long 503": {dripping(503, time.Hour), lost},
	} {
		for by, refusal := range map[string]error{"full": semaphore.ErrBulkheadFull, "open": transport.ErrCircuitOpen} {
			t.Run(name+", "+by, func(t *testing.T) {
				cfg := calm
				if by == "open" {
					cfg = oneProbe // this failure opens it, when its exchange ends
				}
				inBoth(t, cfg, func(r *rig) {
					retry := newRetry(attempts(3))
					told := eventsOf(retry)
					if by == "full" {
						time.AfterFunc(70*ms, func() { r.sem.Resize(semaphore.Limits{}) })
					}
					r.server.Next(row.fail, testserver.OK("late"))
					bodies := &bodies{}
					resp, err := retry.Wrap(r.all()).RoundTrip(bodies.request(r, r.Context()))
					e, isLost := errors.AsType[*transport.RetryError](err)
					got := theError
					switch {
					case isLost && e.Status == 503 && e.Attempt == 2 && e.System == "sber" && errors.Is(err, refusal):
						got = lost
					case err == nil && resp.StatusCode == 503 && resp.Header.Get("Content-Length") == "0":
						got = theResponse
					case errors.Is(err, semaphore.ErrUnavailable):
						got = "the refusal"
					}
					if got != row.want || transport.NotSent(err) || told.String() != "2 refused 100ms" || r.server.Stats().Requests != 1 {
						r.Errorf("%s, want %s: %v; %v", got, row.want, err, told)
					}
					r.held(0)
					bodies.check(r, 2)
				})
			})
		}
	}
}

// Where somebody can tell that it would be refused, no answer is given up and nobody waits.
func TestRetryPeeks(t *testing.T) {
	for name, row := range map[string]struct {
		fail http.Handler
		trip bool // before the answer is seen
		want string
	}{
		"an error that opens it":           {testserver.Abort(), false, ""},
		"an empty answer that opens it":    {empty(503), false, ""},
		"an answer, it is open already":    {testserver.Status(503), true, ""},
		"an answer that opens it, at last": {testserver.Status(503), false, "2 refused 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, oneProbe, func(r *rig) {
				retry := newRetry(attempts(3))
				retry.Peek(r.breaker.Peek)
				told := eventsOf(retry)
				r.server.Next(testserver.After(sec, row.fail))
				if row.trip {
					time.AfterFunc(500*ms, func() {
						r.base.set(errDown)
						_, _ = r.get(context.Background(), r.breaker.Wrap(r.base))
						r.base.set(nil)
					})
				}
				var resp *http.Response
				var err error
				d := took(func() { resp, err = retry.Wrap(r.all()).RoundTrip(r.request(r.Context(), "GET", nil)) })
				lost, _ := errors.AsType[*transport.RetryError](err)
				if d != sec || told.String() != row.want || (lost != nil) != (row.want != "") {
					r.Errorf("after %v: %v, %v; %v", d, resp, err, told)
				}
				if err == nil {
					if s, err := read(resp, nil); resp.StatusCode != 503 || err != nil || row.trip && s != "Service Unavailable" {
						r.Errorf("%v, %q, %v", resp, s, err)
					}
				}
				r.held(0)
			})
		})
	}
}

// NotSent of several attempts says what is so of all of them.
func TestNotSentOfRetries(t *testing.T) {
	for _, row := range []struct {
		method, steps string // refused, black hole, sent
		want          bool
		dials         int
	}{
		{"POST", "rrr", true, 3}, {"POST", "bbb", true, 3}, {"POST", "brb", true, 3}, {"POST", "s", false, 1}, {"POST", "rs", false, 2},
		{"PUT", "srr", false, 3}, {"PUT", "sbb", false, 3}, {"PUT", "rsr", false, 3}, {"PUT", "rrr", true, 3}, {"GET", "rrr", false, 3},
	} {
		t.Run(row.method+" "+row.steps, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := calm
				cfg.ConnectTimeout = 100 * ms
				r := newRig(t, testserver.Options{Memory: true}, cfg)
				r.server.Default(testserver.Abort())
				n := 0
				r.dial(func(ctx context.Context, network, addr string) (net.Conn, error) {
					n++
					switch row.steps[n-1] {
					case 'r':
						return refuse(ctx, network, addr)
					case 'b':
						return testserver.BlackHole(ctx, network, addr)
					}
					return r.server.Dial(ctx, network, addr)
				})
				p := attempts(3)
				p.PutDelete = true
				_, err := read(r.retry(p).RoundTrip(r.request(r.Context(), row.method, strings.NewReader("pay"))))
				if err == nil || n != row.dials || transport.NotSent(err) != row.want || transport.NotSent(&url.Error{Err: err}) != row.want {
					r.Errorf("%d dials, want %d; NotSent(%v) is %v", n, row.dials, err, transport.NotSent(err))
				}
				if last := row.steps[len(row.steps)-1]; last == 'b' {
					isTimeout(t, err, transport.PhaseConnect, 100*ms)
				}
				if seen := r.server.Stats().Requests != 0; seen != strings.Contains(row.steps, "s") {
					r.Error("the server saw something else")
				}
			})
		})
	}
}

// What a refusal that comes up from below a foreign layer proves, nobody knows.
func TestRetryOfAForeignRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		rt := newRetry(attempts(3)).Wrap(fake(func(req *http.Request) (*http.Response, error) {
			if n++; n == 1 {
				return nil, io.EOF
			}
			return nil, &url.Error{Err: &transport.OpenError{System: "other"}}
		}))
		_, err := rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))
		if n != 2 || err != io.EOF {
			t.Errorf("%d attempts, %v", n, err)
		}
	})
}

func TestRetryErrors(t *testing.T) {
	late := &transport.LateError{System: "sber", Left: 3 * ms, Floor: 10 * ms}
	open := &transport.OpenError{System: "sber", RetryAfter: 29 * sec}
	for _, row := range []struct {
		err     error
		timeout bool
		text    string
	}{
		{&transport.PausedError{System: "sber", RetryAfter: 2 * sec}, false, "transport: sber: left alone for another 2s, as its Retry-After asked"},
		{late, true, "transport: sber: 3ms left of the caller's deadline, too little for a call (at least 10ms): context deadline exceeded"},
		{&transport.RetryError{System: "sber", Status: 503, Attempt: 2, Err: open}, false,
			"transport: sber: answered 503, and attempt 2 was refused: transport: sber: circuit open for another 29s"},
		{&transport.RetryError{System: "sber", Status: 503, Attempt: 2, Err: late}, true,
			"transport: sber: answered 503, and attempt 2 was refused: " + late.Error()},
	} {
		wrapped := &url.Error{Op: "Get", URL: "http://sber.test/", Err: row.err}
		if row.err.Error() != row.text || wrapped.Timeout() != row.timeout || !errors.Is(wrapped, semaphore.ErrUnavailable) ||
			errors.Is(wrapped, context.DeadlineExceeded) != row.timeout {
			t.Errorf("%v", row.err)
		}
		var buf bytes.Buffer
		slog.New(slog.NewTextHandler(&buf, nil)).Info("x", "err", row.err)
		if !strings.Contains(buf.String(), "err.system=sber") || !strings.Contains(buf.String(), "err.msg=") {
			t.Error(buf.String())
		}
	}
	if e := error(&transport.RetryError{Err: open}); transport.NotSent(e) || !errors.Is(e, transport.ErrCircuitOpen) {
		t.Error(e)
	}
	if !late.Temporary() || errors.Is(late, transport.ErrTimeout) {
		t.Error(late)
	}
}
