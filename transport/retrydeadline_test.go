package transport_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// The system is told what is left of the caller's deadline, at each attempt anew.
func TestDeadlineHeader(t *testing.T) {
	for name, row := range map[string]struct {
		deadline time.Duration // 0: none
		already  string        // in the caller's request
		want     string
	}{
		"none":                      {0, "", ""},
		"none, the caller's own":    {0, "77", "77"},
		"a second":                  {sec, "", "1000"},
		"in part":                   {1500*ms + 900*time.Microsecond, "", "1500"},
		"below a millisecond":       {900 * time.Microsecond, "", "1"},
		"replaces the caller's own": {2 * sec, "77", "2000"},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, calm, func(r *rig) {
				r.server.Default(testserver.Echo())
				p := attempts(1) // it needs no retries
				p.DeadlineHeader = "x-deadline-MS"
				ctx := r.Context()
				if row.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, row.deadline)
					defer cancel()
				}
				req := r.request(ctx, "GET", nil)
				if row.already != "" {
					req.Header.Set("X-Deadline-Ms", row.already)
				}
				resp, err := r.retry(p).RoundTrip(req)
				s, err := read(resp, err)
				var e testserver.Echoed
				if err == nil {
					err = json.Unmarshal([]byte(s), &e)
				}
				if got := e.Header.Get("X-Deadline-Ms"); err != nil || got != row.want || req.Header.Get("X-Deadline-Ms") != row.already {
					r.Errorf("told %q, want %q; %v", got, row.want, err)
				}
				if err == nil && resp.Request != req {
					r.Error("not the caller's request")
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var told []string
		p := attempts(3)
		p.DeadlineHeader = "X-Left"
		ctx, cancel := context.WithTimeout(t.Context(), sec)
		defer cancel()
		_, _ = newRetry(p).Wrap(fake(func(req *http.Request) (*http.Response, error) {
			told = append(told, req.Header.Get("X-Left"))
			time.Sleep(50 * ms)
			return nil, errDown
		})).RoundTrip(newRequest(t, ctx, "GET", "http://sber.test/", nil))
		if len(told) != 3 || told[0] != "1000" || told[1] != "850" || told[2] != "600" {
			t.Errorf("told %q", told)
		}
	})
}

// A call with less time than the floor is refused before a byte is sent.
func TestDeadlineFloor(t *testing.T) {
	for name, row := range map[string]struct {
		floor, deadline time.Duration
		header          string
		refused         bool
	}{
		"enough":             {10 * ms, 10 * ms, "", false},
		"too little":         {10 * ms, 10*ms - 1, "", true},
		"with a header":      {10 * ms, 10*ms - 1, "X-Left", true},
		"anything":           {0, 1, "X-Left", false},
		"no deadline":        {10 * ms, 0, "X-Left", false},
		"no floor, no words": {0, 1, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				p := attempts(1)
				p.DeadlineFloor, p.DeadlineHeader = row.floor, row.header
				retry := newRetry(p)
				told := eventsOf(retry)
				rt := retry.Wrap(fake(func(req *http.Request) (*http.Response, error) { n++; return answer(200)(req) }))
				ctx := t.Context()
				if row.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, row.deadline)
					defer cancel()
				}
				req, body := newRequest(t, ctx, "POST", "http://sber.test/", nil), &closedBody{}
				req.Body = body
				_, err := read(rt.RoundTrip(req))
				late, isLate := errors.AsType[*transport.LateError](err)
				if isLate != row.refused || isLate != (n == 0) || isLate != (body.closed == 1) || isLate != (told.String() == "1 late 0s") {
					t.Fatalf("%v; %d sent; closed %d times; %v", err, n, body.closed, told)
				}
				if isLate && (late.Left != row.deadline || late.Floor != row.floor || late.System != "sber" ||
					!transport.NotSent(err) || !errors.Is(err, semaphore.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded)) {
					t.Errorf("%v", late)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // a deadline that has passed, where nobody has been told yet
		p := attempts(1)
		p.DeadlineHeader = "X-Left"
		_, err := newRetry(p).Wrap(answer(200)).RoundTrip(newRequest(t, passed{t.Context()}, "GET", "http://sber.test/", nil))
		if late, ok := errors.AsType[*transport.LateError](err); !ok || late.Left != -sec {
			t.Error(err)
		}
	})
}

// A passed context's deadline has passed, but it has not ended.
type passed struct{ context.Context }

func (passed) Deadline() (time.Time, bool) { return time.Now().Add(-sec), true }

// Layers below and httptrace see the attempt's number, and so does nobody else.
func TestAttempt(t *testing.T) {
	inBoth(t, calm, func(r *rig) {
		var seen, traced []int
		below := func(next http.RoundTripper) http.RoundTripper {
			return fake(func(req *http.Request) (*http.Response, error) {
				seen = append(seen, transport.Attempt(req.Context()))
				n := seen[len(seen)-1]
				ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
					WroteHeaders: func() { traced = append(traced, n) },
				})
				return next.RoundTrip(req.WithContext(ctx))
			})
		}
		rt := newRetry(attempts(3)).Wrap(below(r.all()))
		r.server.Next(testserver.Status(503), testserver.Status(503))
		req := r.request(r.Context(), "GET", nil)
		_, err := read(rt.RoundTrip(req))
		if err != nil || len(seen) != 3 || seen[0] != 1 || seen[1] != 2 || seen[2] != 3 || len(traced) != 3 || transport.Attempt(req.Context()) != 1 {
			r.Errorf("seen %v, traced %v, %v", seen, traced, err)
		}
	})
	if n := transport.Attempt(t.Context()); n != 1 {
		t.Error(n)
	}
}

// A call of another client from within an attempt (for a token, say) counts its own,
// and sends its own body each time.
func TestAttemptWithinAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inner, outer []int
		bodies := &bodies{}
		other := newRetry(attempts(3)).Wrap(fake(func(req *http.Request) (*http.Response, error) {
			inner = append(inner, transport.Attempt(req.Context()))
			req.Body.Close()
			return nil, errDown
		}))
		rt := newRetry(attempts(3)).Wrap(fake(func(req *http.Request) (*http.Response, error) {
			outer = append(outer, transport.Attempt(req.Context()))
			if len(outer) == 2 {
				off := newRetry(transport.RetryPolicy{}).Wrap(fake(func(req *http.Request) (*http.Response, error) {
					if n := transport.Attempt(req.Context()); n != 1 {
						t.Errorf("attempt %d of a client that repeats nothing", n)
					}
					return answer(200)(req)
				}))
				inner := newRequest(t, req.Context(), "GET", "http://third.test/", nil)
				if resp, err := off.RoundTrip(inner); err != nil || resp.Request != inner {
					t.Error(resp, err)
				}
				token := newRequest(t, req.Context(), "GET", "http://other.test/", nil)
				token.Body, _ = bodies.body()
				token.GetBody = bodies.body
				_, _ = other.RoundTrip(token)
			}
			return nil, errDown
		}))
		_, _ = rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))
		if len(outer) != 3 || outer[2] != 3 || len(inner) != 3 || inner[0] != 1 || inner[1] != 2 || inner[2] != 3 {
			t.Errorf("%v within %v", inner, outer)
		}
		bodies.check(t, 3)
	})
}
