package resilient_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// The timeouts go on after the headers, and say the same for as long as anybody asks.
func TestCase_T02(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name    string
		handler http.Handler
		pause   time.Duration // before the body is read
		phase   string
		after   time.Duration // from the call
	}{
		{"silent body", testserver.StallInBody(1), 0, "read", 80 * ms},
		{"slow body", testserver.Trickle(1, 30*ms, -1), 0, "total", 100 * ms},
		{"read in time, but late", testserver.StallInBody(1), 50 * ms, "total", 100 * ms},
		{"read too late", testserver.StallInBody(1), 150 * ms, "total", 150 * ms},
		{"answered late", testserver.After(70*ms, testserver.StallInBody(1)), 0, "total", 100 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, setting{cfg: bounds(5*ms, 80*ms, 100*ms, permits(1)), server: testserver.Options{Handler: c.handler}}, func(r *rig) {
				var body io.ReadCloser
				var err error
				if d := took(func() {
					body = r.send(r.Context(), "/").Body
					time.Sleep(c.pause)
					_, err = io.ReadAll(body)
				}); d != c.after {
					r.Errorf("after %v", d)
				}
				r.timeout(err, c.phase)
				r.held(0)
				for range 3 {
					if _, again := body.Read(make([]byte, 1)); !errors.Is(again, resilient.ErrTimeout) {
						r.Errorf("then %v", again)
					}
				}
				if err := body.Close(); err != nil {
					r.Errorf("Close: %v", err)
				}
			})
		})
	}
}

// A parent counts what is attached to it.
type parent struct {
	context.Context
	done     chan struct{}
	attached atomic.Int32
}

func (p *parent) Done() <-chan struct{} { return p.done }

// AfterFunc is what package context and net/http attach themselves with.
func (p *parent) AfterFunc(f func()) func() bool {
	p.attached.Add(1)
	stop := context.AfterFunc(p.Context, f)
	return func() bool {
		stopped := stop()
		if stopped {
			p.attached.Add(-1)
		}
		return stopped
	}
}

// Nothing stays attached to a long-lived context, however an exchange ends.
func TestCase_T03(t *testing.T) {
	drop := func(*http.Response) {}
	read := func(resp *http.Response) { io.Copy(io.Discard, resp.Body) }
	closing := func(resp *http.Response) { resp.Body.Close() }
	for _, c := range []struct {
		name    string
		handler http.Handler
		after   func(resp *http.Response)
		wait    time.Duration
	}{
		{"EOF", testserver.OK("ok"), read, 0},
		{"Close", testserver.StallInBody(1), closing, 0},
		{"no body", testserver.Status(204), drop, 0},
		{"empty body", testserver.OK(""), drop, 0},
		{"cut body", testserver.CutInBody(1, 9), read, 0},
		{"error", testserver.Abort(), drop, 0},
		{"timeout", testserver.HangBeforeHeaders(), drop, 0},
		{"timeout in the body", testserver.StallInBody(1), read, 0},
		{"forgotten", testserver.StallInBody(1), drop, 8 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, setting{cfg: trips(1<<20, permits(1)), server: testserver.Options{Handler: c.handler}}, func(r *rig) {
				p := &parent{Context: r.Context(), done: make(chan struct{})}
				for range 20 {
					if resp, err := r.RoundTrip(r.request(p, "GET", nil)); err == nil {
						c.after(resp)
					}
					time.Sleep(c.wait)
					synctest.Wait()
					if n := p.attached.Load(); n != 0 {
						r.Fatalf("%d attached", n)
					}
				}
			})
		})
	}
	t.Run("refused, and upgraded", func(t *testing.T) {
		inOne(t, setting{cfg: permits(1), server: testserver.Options{Handler: testserver.Upgrade()}}, func(r *rig) {
			p := &parent{Context: r.Context(), done: make(chan struct{})}
			resp, err := r.RoundTrip(r.upgrade(p))
			if err != nil {
				r.Fatal(err)
			}
			_, err = r.RoundTrip(r.request(p, "GET", nil))
			r.is(err, resilient.ErrBulkheadFull)
			synctest.Wait()
			if n := p.attached.Load(); n != 0 {
				r.Errorf("%d attached", n)
			}
			resp.Body.Close()
		})
	})
}

// A stream outlives the bounds of its siblings, by choice, and by that alone.
func TestCase_T04(t *testing.T) {
	const ms = time.Millisecond
	streams := resilient.WithStreams(func(q *http.Request) bool { return q.URL.Path == "/watch" })
	for _, c := range []struct {
		name, path string
		bounds     resilient.Bounds
		phase      string
	}{
		{"WithBounds", "/", resilient.Bounds{Total: resilient.Unbounded}, ""},
		{"WithBounds, longer", "/", resilient.Bounds{Total: time.Minute, Read: time.Second}, ""},
		{"WithStreams", "/watch", resilient.Bounds{}, ""},
		{"a read bound that is too short", "/", resilient.Bounds{Total: resilient.Unbounded, Read: 40 * ms}, "read"},
		{"nothing", "/", resilient.Bounds{}, "total"},
		{"the read bound alone", "/", resilient.Bounds{Read: resilient.Unbounded}, "total"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := bounds(10*ms, 100*ms, 200*ms, permits(2))
			inBoth(t, setting{cfg: cfg, opts: []resilient.Option{streams}}, func(r *rig) {
				r.server.On(c.path, testserver.Trickle(1, 50*ms, 20))
				r.server.On("/sibling", testserver.HangBeforeHeaders())
				go func() {
					_, err := r.RoundTrip(r.to(r.Context(), "/sibling"))
					r.timeout(err, "read")
				}()
				body := r.send(resilient.WithBounds(r.Context(), c.bounds), c.path).Body
				defer body.Close()
				b, err := io.ReadAll(body)
				if c.phase != "" {
					r.timeout(err, c.phase)
				} else if len(b) != 20 || err != nil {
					r.Errorf("%d events, %v", len(b), err)
				}
				time.Sleep(time.Second)
			})
		})
	}
}

// No http.Client of ours has a timeout of its own, and nothing of ours ends an upgraded connection.
func TestCase_T05_T06(t *testing.T) {
	const ms = time.Millisecond
	for name, do := range map[string]func(r *rig) func(*http.Request) (*http.Response, error){
		"Do":         func(r *rig) func(*http.Request) (*http.Response, error) { return r.Do },
		"HTTPClient": func(r *rig) func(*http.Request) (*http.Response, error) { return r.HTTPClient().Do },
		"Wrap": func(r *rig) func(*http.Request) (*http.Response, error) {
			return (&http.Client{Transport: r.over(r.server.Transport().RoundTrip)}).Do
		},
		"a deadline": func(r *rig) func(*http.Request) (*http.Response, error) {
			return func(req *http.Request) (*http.Response, error) {
				ctx, cancel := context.WithTimeout(req.Context(), 50*ms)
				time.AfterFunc(time.Second, cancel)
				return r.Do(req.WithContext(ctx))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := bounds(5*ms, 20*ms, 50*ms, permits(1))
			inOne(t, setting{cfg: cfg, server: testserver.Options{Handler: testserver.Upgrade()}}, func(r *rig) {
				if d := r.HTTPClient().Timeout; d != 0 {
					r.Errorf("Timeout %v", d)
				}
				resp, err := do(r)(r.upgrade(r.Context()))
				if err != nil {
					r.Fatal(err)
				}
				conn, ok := resp.Body.(io.ReadWriteCloser)
				if !ok {
					r.Fatalf("%T is no Writer", resp.Body)
				}
				lines := bufio.NewReader(conn)
				for range 3 {
					time.Sleep(120 * ms)
					r.held(1)
					fmt.Fprintln(conn, "hello")
					if line, err := lines.ReadString('\n'); line != "hello\n" || err != nil {
						r.Errorf("%q, %v", line, err)
					}
				}
				conn.Close()
				r.held(0)
				r.outcomes(map[string]float64{"upgraded": 1})
			})
		})
	}
}

// A body whose Close looks at its context sees no end that it did not have.
func TestCase_T07(t *testing.T) {
	for _, c := range []struct {
		name string
		use  func(b io.ReadCloser)
	}{
		{"closed unread", func(io.ReadCloser) {}},
		{"closed in the middle", func(b io.ReadCloser) { b.Read(make([]byte, 1)) }},
		{"closed at the end", func(b io.ReadCloser) { io.ReadAll(b) }},
		{"closed twice", func(b io.ReadCloser) { b.Close() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inOne(t, setting{cfg: permits(1)}, func(r *rig) {
				var ctx context.Context
				closed := 0
				rt := r.over(func(req *http.Request) (*http.Response, error) {
					ctx = req.Context()
					data := strings.NewReader("data")
					return answer(req, 200, hooked{read: data.Read, closing: func() error {
						closed++
						if closed > 1 {
							return nil
						}
						return context.Cause(ctx)
					}}), nil
				})
				resp, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
				if err != nil {
					r.Fatal(err)
				}
				c.use(resp.Body)
				if err := resp.Body.Close(); err != nil {
					r.Errorf("Close: %v", err)
				}
				r.held(0)
				if ctx.Err() == nil || closed == 0 {
					r.Errorf("the context's error is %v, closed %d times", ctx.Err(), closed)
				}
			})
		})
	}
}

type key struct{}

// The shorter of the caller's deadline and our bound ends it, and says whose it was.
func TestCase_T08(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name         string
		caller, ours time.Duration
		phase        string
		after        time.Duration
		breaker      string
	}{
		{"the caller's", 30 * ms, 5 * time.Second, "deadline", 27 * ms, "closed"},
		{"ours", 5 * time.Second, 30 * ms, "read", 30 * ms, "open"},
		{"ours, without one of the caller's", 0, 30 * ms, "read", 30 * ms, "open"},
		{"a long one of the caller's", 4 * time.Second, 5 * time.Second, "deadline", 3900 * ms, "open"}, // silent for more than half of ReadTimeout
	} {
		t.Run(c.name, func(t *testing.T) {
			var server *testserver.Server
			dial := resilient.WithDialContext(func(ctx context.Context, network, addr string) (net.Conn, error) {
				if ctx.Value(key{}) != "the caller's" {
					t.Error("the dial has not the caller's values")
				}
				return server.Dial(ctx, network, addr)
			})
			cfg := bounds(ms, c.ours, c.ours+10*ms, trips(1, permits(1)))
			inBoth(t, setting{cfg: cfg, opts: []resilient.Option{dial}, server: testserver.Options{Handler: testserver.HangBeforeHeaders()}}, func(r *rig) {
				server = r.server
				ctx := context.WithValue(r.Context(), key{}, "the caller's")
				if c.caller > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.caller)
					defer cancel()
				}
				if d := took(func() { _, err := r.get(ctx); r.timeout(err, c.phase) }); d != c.after {
					r.Errorf("after %v", d)
				}
				r.breaker(c.breaker)
			})
		})
	}
}

// Zero is the default in a Config and no bound in Bounds; negative ones are refused, and nothing ends at once.
func TestCase_T09(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		if c := r.State().Config; c.TotalTimeout != 7*time.Second || c.ReadTimeout != 5*time.Second || c.ConnectTimeout != time.Second {
			r.Errorf("%+v", c)
		}
		r.server.Default(testserver.After(time.Minute, testserver.Trickle(1, 30*time.Second, 4)))
		for _, b := range []transport.Bounds{{}, {Total: -1, Read: -1}, {Read: 70 * time.Second}, {Total: -1, Read: 70 * time.Second}, {Total: time.Hour}, {Total: time.Hour, Read: -1}} {
			rt := transport.Chain(r.server.Transport(), transport.Timeout("sber", b))
			resp, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
			if err != nil {
				r.Errorf("%+v: %v", b, err)
				continue
			}
			if body, err := io.ReadAll(resp.Body); len(body) != 4 || err != nil {
				r.Errorf("%+v: %d bytes, %v", b, len(body), err)
			}
		}
		for _, change := range []func(*resilient.Config){
			func(c *resilient.Config) { c.TotalTimeout = -1 },
			func(c *resilient.Config) { c.ReadTimeout = -1 },
			func(c *resilient.Config) { c.ConnectTimeout = -1 },
			func(c *resilient.Config) { c.IdleConnTimeout = -1 },
		} {
			var cfg resilient.Config
			change(&cfg)
			if _, err := resilient.NewRegistry().NewClient("sber", cfg); err == nil {
				r.Errorf("accepted %+v", cfg)
			}
		}
	})
}
