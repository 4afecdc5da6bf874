package resilient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// Callers that give up say nothing of the system, unless it has been silent towards everybody for long.
func TestCase_B01(t *testing.T) {
	after := func(d time.Duration, cause error) func(ctx context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(d, func() { cancel(cause) })
			return ctx
		}
	}
	deadline := func(d time.Duration) func(ctx context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			ctx, cancel := context.WithTimeout(ctx, d)
			time.AfterFunc(time.Hour, cancel)
			return ctx
		}
	}
	for _, c := range []struct {
		name    string
		handler http.Handler
		ctx     func(ctx context.Context) context.Context
		want    string
	}{
		{"cancel", testserver.HangBeforeHeaders(), after(time.Millisecond, nil), "closed"},
		{"cancel in the headers", testserver.HangInHeaders(), after(time.Millisecond, nil), "closed"},
		{"cancel in the body", testserver.StallInBody(1), after(time.Millisecond, nil), "closed"},
		{"cancel in the upload", testserver.HangUnread(), after(time.Millisecond, nil), "closed"},
		{"a timeout as cause", testserver.HangBeforeHeaders(), after(time.Millisecond, context.DeadlineExceeded), "closed"},
		{"io.ErrUnexpectedEOF as cause", testserver.StallInBody(1), after(time.Millisecond, io.ErrUnexpectedEOF), "closed"},
		{"deadline", testserver.HangBeforeHeaders(), deadline(time.Millisecond), "closed"},
		{"deadline in the body", testserver.StallInBody(1), deadline(time.Millisecond), "closed"},
		{"cancel of a hang", testserver.HangBeforeHeaders(), after(2600*time.Millisecond, nil), "open"},
		{"deadline of a hang", testserver.HangBeforeHeaders(), deadline(3 * time.Second), "open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, setting{cfg: trips(3, permits(1)), server: testserver.Options{Handler: c.handler}}, func(r *rig) {
				upload := "payment"
				if strings.HasSuffix(c.name, "upload") {
					upload = strings.Repeat("x", 1<<20)
				}
				for range 10 {
					ctx := c.ctx(r.Context())
					resp, err := r.Do(r.request(ctx, "POST", strings.NewReader(upload)))
					if err == nil {
						_, err = io.ReadAll(resp.Body)
					}
					if err == nil {
						r.Error("no error")
					}
					time.Sleep(time.Millisecond)
					synctest.Wait()
					r.held(0)
				}
				r.breaker(c.want)
				if c.want == "closed" {
					r.works()
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

// A timeout or a cancel of the base's own, while the caller's context lives, is the system's failure.
func TestCase_B04(t *testing.T) {
	inBody := func(err error) roundTripper {
		return func(req *http.Request) (*http.Response, error) {
			return answer(req, 200, hooked{read: func([]byte) (int, error) { return 0, err }}), nil
		}
	}
	failing := func(err error) roundTripper {
		return func(*http.Request) (*http.Response, error) { return nil, err }
	}
	for name, base := range map[string]roundTripper{
		"ResponseHeaderTimeout":              nil,
		"DeadlineExceeded":                   failing(context.DeadlineExceeded),
		"Canceled":                           failing(context.Canceled),
		"dial timeout":                       failing(&net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}),
		"DeadlineExceeded in the body":       inBody(context.DeadlineExceeded),
		"Canceled in the body":               inBody(context.Canceled),
		"os.ErrDeadlineExceeded in the body": inBody(os.ErrDeadlineExceeded),
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{cfg: trips(3, permits(1)), server: testserver.Options{Handler: testserver.HangBeforeHeaders()}}, func(r *rig) {
				b := base
				if b == nil {
					bare := r.server.Transport()
					bare.ResponseHeaderTimeout = 50 * time.Millisecond
					b = bare.RoundTrip
				}
				rt := r.over(b)
				for range 3 {
					r.breaker("closed")
					resp, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
					if err == nil {
						_, err = io.ReadAll(resp.Body)
					}
					if err == nil {
						r.Error("no error")
					}
				}
				r.breaker("open")
				r.held(0)
				if n := r.metrics()["requests_total cancelled"]; n != 0 {
					r.Errorf("%v are said to be the caller's doing", n)
				}
			})
		})
	}
}

// An answer that is no failure is a success, also in half-open; one that says nothing gives its slot back.
func TestCase_B06(t *testing.T) {
	neutral404 := resilient.WithClassifier(func(resp *http.Response, _ error) resilient.Verdict {
		if resp != nil && resp.StatusCode == 404 {
			return resilient.Neutral
		}
		return resilient.Success
	})
	for _, c := range []struct {
		name, method string
		handler      http.Handler
		opts         []resilient.Option
		closeEarly   bool
		want         string
	}{
		{"404", "GET", testserver.Status(404), nil, false, "closed"},
		{"404 of a HEAD", "HEAD", testserver.Status(404), nil, false, "closed"},
		{"404 closed early", "GET", testserver.Status(404), nil, true, "closed"},
		{"429", "GET", testserver.Status(429), nil, false, "closed"},
		{"304", "GET", testserver.Status(304), nil, false, "closed"},
		{"302", "GET", testserver.Status(302), nil, false, "closed"},
		{"an endless body, closed early", "GET", testserver.Trickle(1, time.Second, -1), nil, true, "closed"},
		{"a failure's body closed early", "GET", testserver.Status(500), nil, true, "open"},
		{"neutral 404", "GET", testserver.Status(404), []resilient.Option{neutral404}, false, "half_open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, setting{cfg: trips(3, permits(1)), opts: c.opts}, func(r *rig) {
				if c.opts != nil { // the classifier lets no answer be a failure
					rt := r.over(func(*http.Request) (*http.Response, error) { panic(errBoom) })
					for range 3 {
						func() {
							defer func() { _ = recover() }()
							rt.RoundTrip(r.request(r.Context(), "GET", nil))
						}()
					}
					time.Sleep(30*time.Second + 1)
				} else {
					r.halfOpen()
				}
				r.server.Default(c.handler)
				resp, err := r.RoundTrip(r.request(r.Context(), c.method, nil))
				if err != nil {
					r.Fatal(err)
				}
				if !c.closeEarly {
					io.Copy(io.Discard, resp.Body)
				}
				resp.Body.Close()
				r.breaker(c.want)
				if c.want == "open" {
					time.Sleep(30*time.Second + 1)
				}
				r.works()
				r.breaker("closed")
			})
		})
	}
}

// A probe that hangs, wherever it does, ends at its bound and opens the breaker again.
func TestCase_B08(t *testing.T) {
	const total = 60 * time.Millisecond
	cfg := bounds(5*time.Millisecond, 50*time.Millisecond, total, trips(3, permits(1)))
	for name, handler := range map[string]http.Handler{
		"before headers": testserver.HangBeforeHeaders(),
		"in headers":     testserver.HangInHeaders(),
		"in the body":    testserver.StallInBody(1),
		"trickle":        testserver.Trickle(1, 5*time.Millisecond, -1),
		"dial":           nil,
	} {
		t.Run(name, func(t *testing.T) {
			var server *testserver.Server
			var hole atomic.Bool
			dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
				if hole.Load() {
					return testserver.BlackHole(ctx, network, addr)
				}
				return server.Dial(ctx, network, addr)
			}
			inBoth(t, setting{cfg: cfg, opts: []resilient.Option{resilient.WithDialContext(dial)}}, func(r *rig) {
				server = r.server
				r.halfOpen()
				r.CloseIdleConnections()
				hole.Store(handler == nil)
				r.server.Default(handler)
				if d := took(func() {
					_, err := r.get(r.Context())
					r.is(err, resilient.ErrTimeout)
				}); d > total {
					r.Errorf("after %v", d)
				}
				r.breaker("open")
				hole.Store(false)
				time.Sleep(30*time.Second + 1)
				r.server.Default(testserver.OK("ok"))
				if _, err := r.get(r.Context()); err != nil {
					r.Error(err)
				}
				r.breaker("closed")
			})
		})
	}
}

// What began before does not decide half-open.
func TestCase_B09(t *testing.T) {
	cfg := trips(3, permits(5))
	cfg.Breaker.OpenFor, cfg.Breaker.HalfOpenProbes = time.Second, 2
	for _, code := range []int{200, 500} {
		inBoth(t, setting{cfg: cfg}, func(r *rig) {
			slow := func() {
				r.server.Next(testserver.After(3*time.Second, testserver.Status(code)))
				go r.get(r.Context())
				synctest.Wait()
			}
			slow()
			r.halfOpen()
			time.Sleep(2 * time.Second) // the one of the closed era has come
			r.breaker("half_open")
			slow()
			r.server.Next(testserver.Status(500))
			r.get(r.Context())
			r.breaker("open")
			time.Sleep(3*time.Second + 1) // the one of the first half-open has come
			r.breaker("half_open")
			r.works()
			r.breaker("half_open")
			r.works()
			r.breaker("closed")
			if s := r.server.Stats().Concurrent; s != 0 {
				r.Errorf("%d at the server", s)
			}
		})
	}
}

// A failure after the headers is a failure, and an abandoned probe is none but gives its slot back.
func TestCase_B10(t *testing.T) {
	for name, handler := range map[string]http.Handler{
		"length":  testserver.CutInBody(10, 100),
		"chunked": testserver.CutInBody(10, 0),
		"reset": http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.(http.Flusher).Flush()
			testserver.Reset().ServeHTTP(w, q)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{cfg: trips(3, permits(1)), server: testserver.Options{Handler: handler}}, func(r *rig) {
				for range 3 {
					r.breaker("closed")
					if _, err := r.get(r.Context()); err == nil {
						r.Error("no error")
					}
				}
				r.breaker("open")
				time.Sleep(30*time.Second + 1)
				r.server.Default(testserver.StallInBody(10))
				r.send(r.Context(), "/")
				if _, err := r.get(r.Context()); !errors.Is(err, resilient.ErrUnavailable) {
					r.Errorf("beside the probe: %v", err)
				}
				time.Sleep(7*time.Second + 1)
				r.breaker("half_open")
				r.works()
				r.breaker("closed")
			})
		})
	}
}

// Refusals by the bulkhead never reach the breaker, and those by the breaker take no permit.
func TestCase_B11_B12(t *testing.T) {
	cfg := trips(1, permits(1))
	cfg.Bulkhead.MaxWaiting = 1000
	inBoth(t, setting{cfg: cfg}, func(r *rig) {
		r.server.Default(testserver.After(time.Second, testserver.OK("ok")))
		for range 101 {
			go r.get(r.Context())
		}
		time.Sleep(2 * time.Second)
		r.breaker("closed")
		r.outcomes(map[string]float64{"success": 1, "refused_full": 100})
		if n := r.server.Stats().Requests; n != 1 {
			r.Errorf("%d requests were sent", n)
		}
		r.server.Default(testserver.After(50*time.Millisecond, testserver.Status(500)))
		var open atomic.Int32
		for range 201 { // the first opens it, the others are already in the queue
			go func() {
				body := &closeCounter{Reader: strings.NewReader("payment")}
				resp, err := r.Do(r.request(r.Context(), "POST", body))
				if errors.Is(err, resilient.ErrCircuitOpen) {
					open.Add(1)
				} else if err == nil {
					resp.Body.Close()
				}
				if body.closed.Load() == 0 {
					r.Error("the request's body was not closed")
				}
			}()
		}
		time.Sleep(51 * time.Millisecond)
		r.held(0)
		if n := open.Load(); n != 200 {
			r.Errorf("%d refused as open", n)
		}
		if d := took(func() {
			for range 200 {
				r.get(r.Context())
			}
		}); d != 0 {
			r.Errorf("200 refusals took %v", d)
		}
		if n := r.server.Stats().Requests; n != 2 {
			r.Errorf("%d requests were sent", n)
		}
	})
}
