package resilient_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
)

// CloseIdleConnections is for the pool in use, of the client and of http.Clients over it.
func TestSwapAndCloseIdleConnections(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		for _, closeIdle := range []func(){r.CloseIdleConnections, r.HTTPClient().CloseIdleConnections} {
			r.works()
			r.swap()
			r.works()
			r.conns(1)
			closeIdle()
			r.conns(0)
		}
	})
}

// A base of the user's own, and one under Wrap, is nobody's to replace or to close.
func TestSwapLeavesOtherBasesAlone(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		for name, wrap := range map[string]bool{"WithBase": false, "Wrap": true} {
			base := r.server.Transport()
			var log bytes.Buffer
			opts := []resilient.Option{textLog(&log)}
			if !wrap {
				opts = append(opts, resilient.WithBase(base))
			}
			c, err := r.reg.NewClient("insurer", r.State().Config, opts...)
			if err != nil {
				r.Fatal(err)
			}
			var rt http.RoundTripper = c
			if wrap {
				if rt, err = c.Wrap(base); err != nil {
					r.Fatal(err)
				}
			}
			conns := r.server.Stats().Conns
			for i := range 3 {
				resp, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
				if err != nil {
					r.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				cfg := c.State().Config
				cfg.MaxConnsPerHost, cfg.Bulkhead.MaxConcurrent, cfg.TotalTimeout = 30+i, 3+i, 8*time.Second
				said := logged(&log, func() {
					if err := c.Reconfigure(cfg); err != nil {
						r.Error(err)
					}
				})
				if s := c.State(); s.Bulkhead.MaxConcurrent != 3+i || strings.Contains(said, "new_pool=true") != wrap {
					r.Errorf("%s: %+v, logged %s", name, s.Bulkhead, said)
				}
			}
			if n := r.server.Stats().Conns - conns; n != 1 {
				r.Errorf("%s: %d connections", name, n)
			}
			c.Close()
			base.CloseIdleConnections()
			r.conns(0)
		}
	})
}

// From HTTP/1.1 to HTTP/2 and back, each exchange by the protocol of its time; TLS and dialling are the client's throughout.
func TestSwapProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setting{server: testserver.Options{Protocol: testserver.HTTP2, Memory: true}})
		r.server.On("/slow", testserver.After(2*time.Second, testserver.OK("ok")))
		for i, p := range []struct {
			protocol config.Protocol
			major    int
		}{{resilient.HTTP2, 2}, {resilient.HTTP1, 1}, {resilient.HTTP2, 2}, {resilient.HTTP1, 1}} {
			r.change(func(cfg *resilient.Config) { cfg.Protocol = p.protocol })
			resp := r.send(r.Context(), "/")
			if io.Copy(io.Discard, resp.Body); resp.ProtoMajor != p.major {
				r.Errorf("%d: %s, want HTTP/%d", i, resp.Proto, p.major)
			}
			end := r.mustSend(2, "/slow")
			defer end()
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second)
		r.connsNow(2) // of the last, HTTP/1.1
	})
}

// What a failed dial proves is said of the pool that an exchange has: after HTTP/2 nothing is, for a body that net/http can send again.
func TestSwapAndNotSent(t *testing.T) {
	refused := false
	var r *rig
	dial := resilient.WithDialContext(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if refused {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errBoom}
		}
		return r.server.Dial(ctx, network, addr)
	})
	inOne(t, setting{opts: []resilient.Option{dial}}, func(rr *rig) {
		r, refused = rr, true
		defer func() { refused = false }()
		post := func(body io.Reader) bool {
			_, err := r.RoundTrip(r.request(r.Context(), "POST", body))
			return resilient.NotSent(err)
		}
		for i, step := range []struct {
			protocol config.Protocol
			again    bool // NotSent of a body that can be had again
		}{{resilient.HTTP1, true}, {resilient.HTTP2, false}, {resilient.HTTP1, false}} {
			r.change(func(cfg *resilient.Config) { cfg.Protocol = step.protocol })
			if got := post(strings.NewReader("x")); got != step.again {
				r.Errorf("%d: NotSent is %v", i, got)
			}
			if !post(io.MultiReader(strings.NewReader("x"))) {
				r.Errorf("%d: a body that is there once was not sent", i)
			}
		}
	})
}
