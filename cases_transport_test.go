package resilient_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
)

// Connections are used again, one after the other and in bursts.
func TestCase_X02(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		for range 10 {
			r.works()
		}
		if n := r.server.Stats().Conns; n != 1 {
			r.Errorf("%d connections for requests in a row", n)
		}
		r.server.Default(testserver.After(time.Millisecond, testserver.OK("ok")))
		for range 20 {
			for range 16 {
				go r.get(r.Context())
			}
			time.Sleep(time.Second)
		}
		if n := r.server.Stats().Conns; n > 16 {
			r.Errorf("%d connections for bursts of 16", n)
		}
	})
}

// Nobody waits without a bound for a connection: the bulkhead refuses first, also when all bodies have been forgotten.
func TestCase_X04(t *testing.T) {
	inBoth(t, setting{cfg: resilient.Config{MaxConnsPerHost: 5}, server: testserver.Options{Handler: testserver.StallInBody(1)}}, func(r *rig) {
		for _, b := range []resilient.Bounds{{}, {Total: resilient.Unbounded, Read: resilient.Unbounded}} {
			ctx, cancel := context.WithCancel(resilient.WithBounds(r.Context(), b))
			for range 4 {
				r.send(ctx, "/")
			}
			for range 2 {
				if d := took(func() {
					_, err := r.get(resilient.WithBounds(context.Background(), b))
					r.is(err, resilient.ErrBulkheadFull)
				}); d != 100*time.Millisecond {
					r.Errorf("refused after %v", d)
				}
			}
			if b.Total == 0 {
				time.Sleep(7 * time.Second)
			}
			cancel()
			synctest.Wait()
			for range 5 { // what they have left behind is in nobody's way
				r.works()
			}
			r.server.Default(testserver.StallInBody(1))
		}
	})
}

// Callers that give up while a dial hangs leave no more of those behind than there may be connections.
func TestCase_X05(t *testing.T) {
	for name, stubborn := range map[string]bool{"heeds its context": false, "heeds nothing": true} {
		t.Run(name, func(t *testing.T) {
			var dials, peak atomic.Int32
			dial := resilient.WithDialContext(func(ctx context.Context, network, addr string) (net.Conn, error) {
				peak.Store(max(peak.Load(), dials.Add(1)))
				defer dials.Add(-1)
				if stubborn {
					time.Sleep(10 * time.Second)
				}
				return testserver.BlackHole(ctx, network, addr)
			})
			inBoth(t, setting{cfg: resilient.Config{MaxConnsPerHost: 5}, opts: []resilient.Option{dial}}, func(r *rig) {
				peak.Store(0)
				repeat(200, func() {
					ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
					defer cancel()
					if _, err := r.get(ctx); err == nil {
						r.Error("no error")
					}
				})
				synctest.Wait()
				r.held(0)
				if n := peak.Load(); n > 5 {
					r.Errorf("%d dials at once", n)
				}
				time.Sleep(time.Minute)
				if n := dials.Load(); n != 0 {
					r.Errorf("%d dials left", n)
				}
			})
		})
	}
}

// A connection that dies under a request: what net/http repeats by itself is one exchange, and it repeats no payment.
func TestCase_X06(t *testing.T) {
	for _, breaks := range []http.Handler{testserver.CloseBeforeHeaders(), testserver.Reset()} {
		for _, c := range []struct {
			method, key string
			attempts    int // over HTTP/1.1
		}{{"POST", "", 1}, {"PUT", "", 1}, {"POST", "Idempotency-Key", 2}, {"GET", "", 2}} {
			inBoth(t, setting{cfg: trips(1, permits(1))}, func(r *rig) {
				bare := r.server.Transport()
				var attempts [2]int
				for i, rt := range []http.RoundTripper{bare, r.Client} {
					resp, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
					if err != nil {
						r.Fatal(err)
					}
					io.Copy(io.Discard, resp.Body) // the connection is idle
					before := r.server.Stats().Requests
					r.server.Next(breaks)
					body := &closeCounter{Reader: strings.NewReader("payment")}
					req := r.request(r.Context(), c.method, body)
					req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("payment")), nil }
					if c.method == "GET" {
						req.Body, req.GetBody = nil, nil
					}
					if c.key != "" {
						req.Header.Set(c.key, "1")
					}
					resp, err = rt.RoundTrip(req)
					synctest.Wait()
					attempts[i] = r.server.Stats().Requests - before
					if (err == nil) != (attempts[i] == 2) || resilient.NotSent(err) {
						r.Errorf("%d attempts: %v, NotSent is %v", attempts[i], err, resilient.NotSent(err))
					}
					if err == nil {
						io.Copy(io.Discard, resp.Body)
					}
					if req.Body != nil && body.closed.Load() == 0 {
						r.Error("the body was not closed")
					}
				}
				if attempts[0] != attempts[1] || r.State().Config.Protocol == config.HTTP1 && attempts[1] != c.attempts {
					r.Errorf("%s %s: %d attempts, over a bare transport %d", c.method, c.key, attempts[1], attempts[0])
				}
				r.held(0)
				if attempts[1] == 1 {
					r.breaker("open")
					r.outcomes(map[string]float64{"success": 1, "transport_error": 1})
				} else {
					r.outcomes(map[string]float64{"success": 2})
				}
			})
		}
	}
}

// A new address is found once the old connections are closed, which callers can have done by any handle they have.
func TestCase_X07(t *testing.T) {
	for name, closeIdle := range map[string]func(r *rig){
		"Client":     func(r *rig) { r.CloseIdleConnections() },
		"HTTPClient": func(r *rig) { r.HTTPClient().CloseIdleConnections() },
		"a user's":   func(r *rig) { (&http.Client{Transport: r.Client}).CloseIdleConnections() },
	} {
		t.Run(name, func(t *testing.T) {
			var target *testserver.Server
			dial := resilient.WithDialContext(func(ctx context.Context, network, addr string) (net.Conn, error) {
				return target.Dial(ctx, network, addr)
			})
			s := setting{cfg: permits(2), opts: []resilient.Option{dial}}
			inBoth(t, s, func(r *rig) {
				target = r.server
				moved, err := testserver.Start(testserver.Options{Memory: true, Protocol: map[config.Protocol]testserver.Protocol{config.HTTP2: testserver.HTTP2}[r.State().Config.Protocol]})
				if err != nil {
					r.Fatal(err)
				}
				defer moved.Close()
				r.works()
				target = moved
				r.works()
				if n := moved.Stats().Requests; n != 0 {
					r.Error("the old connection was not used")
				}
				synctest.Wait() // over HTTP/2 a stream goes a moment after its body
				closeIdle(r)
				r.works()
				if n := moved.Stats().Requests; n != 1 {
					r.Errorf("%d requests at the new address", n)
				}
			})
		})
	}
}

// A deaf connection swallows what is written to it once it is told to.
type deaf struct {
	net.Conn
	is *atomic.Bool
}

func (d deaf) Write(p []byte) (int, error) {
	if d.is.Load() {
		return len(p), nil
	}
	return d.Conn.Write(p)
}

// A connection that is dead without a sign costs each request its timeout, and is found out in the end.
func TestCase_X08(t *testing.T) {
	const ms = time.Millisecond
	var server *testserver.Server
	var current *atomic.Bool
	dial := resilient.WithDialContext(func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := server.Dial(ctx, network, addr)
		current = new(atomic.Bool)
		return deaf{conn, current}, err
	})
	cfg := bounds(10*ms, 80*ms, 100*ms, trips(3, permits(1)))
	inBoth(t, setting{cfg: cfg, opts: []resilient.Option{dial}}, func(r *rig) {
		server = r.server
		r.works()
		current.Store(true)
		if d := took(func() { _, err := r.get(r.Context()); r.timeout(err, "read") }); d != 80*ms {
			r.Errorf("after %v", d)
		}
		r.held(0)
		if r.State().Config.Protocol == config.HTTP2 {
			if d := took(func() { _, err := r.get(r.Context()); r.timeout(err, "read") }); d != 80*ms {
				r.Errorf("the second after %v", d)
			}
			r.outcomes(map[string]float64{"success": 1, "timeout": 2})
			time.Sleep(20 * time.Second)
		}
		r.works() // by a connection of its own
		if n := r.server.Stats().Conns; n != 2 {
			r.Errorf("%d connections", n)
		}
	})
}
