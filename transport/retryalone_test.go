package transport_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// Nothing is repeated once the caller has the answer.
func TestRetryLeavesBodiesAlone(t *testing.T) {
	inBoth(t, calm, func(r *rig) {
		r.server.Default(testserver.CutInBody(1, 9))
		if _, err := r.get(r.Context(), r.retry(attempts(3))); err == nil || r.server.Stats().Requests != 1 {
			r.Error(err, r.server.Stats().Requests)
		}
	})
}

// Streams, upgrades, hops and what can't be sent.
func TestRetryLeavesAlone(t *testing.T) {
	stream := func(b transport.Bounds) func(*http.Request) *http.Request {
		return func(req *http.Request) *http.Request { return req.WithContext(transport.WithBounds(req.Context(), b)) }
	}
	for name, row := range map[string]struct {
		change func(*http.Request) *http.Request
		want   int64
	}{
		"plain":         {func(req *http.Request) *http.Request { return req }, 2},
		"longer":        {stream(transport.Bounds{Total: time.Hour}), 2},
		"read lifted":   {stream(transport.Bounds{Read: transport.Unbounded}), 2},
		"total lifted":  {stream(transport.Bounds{Total: transport.Unbounded}), 1},
		"by the client": {func(req *http.Request) *http.Request { req.URL.Path = "/watch"; return req }, 1},
		"hop": {func(req *http.Request) *http.Request {
			req.Response = &http.Response{StatusCode: 302}
			return req
		}, 1},
		"invalid": {func(req *http.Request) *http.Request { req.Header.Set("X", "\n"); return req }, 0},
		"caller gone": {func(req *http.Request) *http.Request {
			ctx, cancel := context.WithCancel(req.Context())
			cancel()
			return req.WithContext(ctx)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, calm, func(r *rig) {
				retry := newRetry(attempts(2))
				retry.Streams(func(req *http.Request) bool { return req.URL.Path == "/watch" })
				r.server.Default(testserver.Status(503))
				req := row.change(r.request(r.Context(), "GET", nil))
				if d := took(func() { _, _ = read(retry.Wrap(r.all()).RoundTrip(req)) }); d != time.Duration(max(0, row.want-1))*100*ms {
					r.Errorf("after %v", d)
				}
				if n := r.base.calls.Load(); n != row.want {
					r.Errorf("%d attempts", n)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, calm)
		r.server.Default(testserver.Upgrade())
		p := attempts(2)
		p.Statuses = statuses("100-599")
		if err := upgrade(r, r.retry(p)); err != nil || r.base.calls.Load() != 1 {
			t.Error(err, r.base.calls.Load())
		}
	})
}

// Redirects are http.Client's; what fails after one is its affair.
func TestRetryAroundARedirect(t *testing.T) {
	inBoth(t, calm, func(r *rig) {
		r.server.On("/", http.RedirectHandler("/next", http.StatusFound))
		r.server.On("/next", testserver.Status(503))
		r.server.Next(testserver.Status(503))
		resp, err := (&http.Client{Transport: r.retry(attempts(3))}).Do(r.request(r.Context(), "GET", nil))
		if s, err := read(resp, err); err != nil || s != "Service Unavailable" {
			r.Error(s, err)
		}
		if n := r.server.Stats(); n.ByPath["/"] != 2 || n.ByPath["/next"] != 1 {
			r.Error(n)
		}
	})
}

// Over a foreign RoundTripper that breaks its contract.
func TestRetryOverAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := 0
		for name, base := range map[string]fake{
			"nothing": func(*http.Request) (*http.Response, error) { return nil, nil },
			"both": func(req *http.Request) (*http.Response, error) {
				return response(req, 200, &countedClose{Reader: strings.NewReader("ok"), n: &closed}), errDown
			},
			"no body": func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 503, Request: req}, nil
			},
		} {
			resp, err := newRetry(attempts(2)).Wrap(base).RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))
			switch {
			case name == "nothing" && (resp != nil || err != nil), name == "both" && (resp != nil || !errors.Is(err, errDown) || closed != 2),
				name == "no body" && (err != nil || resp.StatusCode != 503):
				t.Errorf("%s: %v, %v", name, resp, err)
			}
		}
		n := 0
		(&http.Client{Transport: newRetry(attempts(2)).Wrap(closer{answer(200), &n})}).CloseIdleConnections()
		newRetry(attempts(2)).Wrap(answer(200)).(interface{ CloseIdleConnections() }).CloseIdleConnections() // no base to close
		if n != 1 {
			t.Error("did not reach the base")
		}
	})
}

type countedClose struct {
	io.Reader
	n *int
}

func (b *countedClose) Close() error { *b.n++; return nil }
