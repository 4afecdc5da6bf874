package resilient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

var errBoom = errors.New("boom")

// repeat calls f n times, each in a goroutine of its own, at most 16 at once, and waits.
func repeat(n int, f func()) {
	slots := make(chan struct{}, 16)
	for range n {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			f()
		}()
	}
	for range 16 {
		slots <- struct{}{}
	}
}

// What is the caller's own doing never opens a breaker, not even one that opens
// at two failures, with the server hanging where that does not matter.
func TestNeverOpens(t *testing.T) {
	strict := resilient.Config{}
	strict.Breaker.MinRequests, strict.Breaker.ConsecutiveFailures, strict.Breaker.FailureRatio = 1, 1, 0.01
	slow := testserver.After(2*time.Second, testserver.OK("late"))
	cases := []struct {
		name   string
		server http.Handler
		call   func(r *rig)
	}{
		{"rejections", slow, func(r *rig) {
			for range 200 {
				go r.get(r.Context())
			}
			time.Sleep(10 * time.Second)
		}},
		{"cancels", testserver.HangBeforeHeaders(), func(r *rig) {
			repeat(10_000, func() {
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				time.AfterFunc(time.Microsecond, cancel)
				if _, err := r.get(ctx); !errors.Is(err, context.Canceled) {
					r.Error(err)
				}
			})
		}},
		{"cancels with a cause", testserver.StallInBody(1), func(r *rig) {
			repeat(100, func() {
				ctx, cancel := context.WithCancelCause(r.Context())
				time.AfterFunc(time.Microsecond, func() { cancel(errBoom) })
				if _, err := r.get(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, errBoom) {
					r.Error(err)
				}
			})
		}},
		{"cancelled by Request.Cancel", testserver.HangBeforeHeaders(), func(r *rig) {
			for range 5 {
				req := r.request(r.Context(), "GET", nil)
				c := make(chan struct{})
				req.Cancel = c
				time.AfterFunc(time.Millisecond, func() { close(c) })
				r.Do(req)
			}
		}},
		{"a Timeout of their own http.Client", testserver.HangBeforeHeaders(), func(r *rig) {
			c := r.HTTPClient()
			c.Timeout = time.Second
			for range 5 {
				if _, err := c.Get(r.server.URL()); !errors.Is(err, context.DeadlineExceeded) {
					r.Error(err)
				}
			}
		}},
		{"short deadlines against a slow but living partner", nil, func(r *rig) {
			r.server.Default(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path == "/patient" {
					testserver.After(2*time.Second, testserver.OK("ok")).ServeHTTP(w, q)
				} else {
					testserver.HangBeforeHeaders().ServeHTTP(w, q)
				}
			}))
			for range 3 {
				go func() {
					for range 30 {
						q := r.request(r.Context(), "GET", nil)
						q.URL.Path = "/patient"
						if resp, err := r.Do(q); err == nil {
							io.Copy(io.Discard, resp.Body)
							resp.Body.Close()
						}
					}
				}()
				time.Sleep(time.Second)
			}
			for range 55 {
				ctx, cancel := context.WithTimeout(r.Context(), time.Second)
				r.get(ctx)
				cancel()
			}
			time.Sleep(10 * time.Second)
		}},
		{"one after the other, and idle between", testserver.HangBeforeHeaders(), func(r *rig) {
			for range 20 {
				ctx, cancel := context.WithTimeout(r.Context(), time.Second)
				r.get(ctx)
				cancel()
				time.Sleep(time.Minute)
			}
		}},
		{"abandoned bodies", testserver.StallInBody(1), func(r *rig) {
			for range 8 {
				if _, err := r.Do(r.request(r.Context(), "GET", nil)); err != nil {
					r.Error(err)
				}
			}
			time.Sleep(8 * time.Second)
		}},
		{"bodies closed early", testserver.StallInBody(1), func(r *rig) {
			for range 8 {
				resp, err := r.Do(r.request(r.Context(), "GET", nil))
				if err != nil {
					r.Fatal(err)
				}
				resp.Body.Close()
			}
		}},
		{"invalid requests", testserver.OK("ok"), func(r *rig) {
			for _, change := range []func(*http.Request){
				func(q *http.Request) { q.URL = nil },
				func(q *http.Request) { q.Header = nil },
				func(q *http.Request) { q.Method = "BAD METHOD" },
				func(q *http.Request) { q.URL.Host = "" },
				func(q *http.Request) { q.URL.Scheme = "" },
				func(q *http.Request) { q.Header["A B"] = []string{"x"} },
				func(q *http.Request) { q.Header.Set("A", "x\ny") },
				func(q *http.Request) { q.Trailer = http.Header{"A": {"\x00"}} },
				func(q *http.Request) { q.Body, q.ContentLength = io.NopCloser(strings.NewReader("12")), 3 },
			} {
				q := r.request(r.Context(), "GET", nil)
				change(q)
				if _, err := r.RoundTrip(q); err == nil {
					r.Errorf("%+v: no error", q)
				}
			}
			if n := r.server.Stats().Requests; n != 0 {
				r.Errorf("the server saw %d", n)
			}
		}},
		{"failing upload readers", testserver.Echo(), func(r *rig) {
			long := strings.Repeat("x", 100_000)
			for i, body := range []io.Reader{
				iotest.ErrReader(errBoom),
				io.MultiReader(strings.NewReader(long), iotest.ErrReader(errBoom)),
				iotest.TimeoutReader(strings.NewReader(long)),
			} {
				if _, err := r.Do(r.request(r.Context(), "POST", body)); err == nil {
					r.Errorf("%d: no error", i)
				}
			}
			q := r.request(r.Context(), "POST", io.MultiReader(strings.NewReader("short")))
			q.ContentLength = 10
			if _, err := r.Do(q); err == nil {
				r.Error("no error for a body that is too short")
			}
		}},
		{"4xx", nil, func(r *rig) {
			for _, code := range []int{400, 401, 403, 404, 408, 409, 422, 429, 499} {
				r.server.Default(testserver.Status(code))
				r.get(r.Context())
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, setting{cfg: strict, server: testserver.Options{Handler: c.server}}, func(r *rig) {
				c.call(r)
				synctest.Wait()
				r.breaker("closed")
				r.held(0)
				if n := r.metrics()["breaker_transitions_total closed open"]; n != 0 {
					r.Errorf("it has opened %v times", n)
				}
			})
		})
	}
}

// What is the system's doing opens it.
func TestOpens(t *testing.T) {
	cases := []struct {
		name   string
		server http.Handler
		call   func(r *rig)
	}{
		{"no headers", testserver.HangBeforeHeaders(), nil},
		{"half the headers", testserver.HangInHeaders(), nil},
		{"stall in the body", testserver.StallInBody(1), nil},
		{"cut in the body", testserver.CutInBody(1, 100), nil},
		{"reset", testserver.Reset(), nil},
		{"closed", testserver.CloseBeforeHeaders(), nil},
		{"aborted", testserver.Abort(), nil},
		{"5xx", testserver.Status(503), nil},
		{"too slow a body", testserver.Trickle(1, time.Second, -1), nil},
		{"huge headers", testserver.HugeHeaders(2 << 20), nil},
		{"5xx and the body closed early", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(500)
			w.Write(bytes.Repeat([]byte("x"), 100_000))
		}), func(r *rig) {
			resp, err := r.Do(r.request(r.Context(), "GET", nil))
			if err == nil {
				resp.Body.Close()
			}
		}},
		{"silent towards everybody behind short deadlines", testserver.HangBeforeHeaders(), func(r *rig) {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			time.AfterFunc(2*time.Second, cancel)
			go r.get(ctx)
			time.Sleep(300 * time.Millisecond)
		}},
		{"an upload that nobody takes", testserver.HangUnread(), func(r *rig) {
			q := r.request(r.Context(), "POST", io.MultiReader(strings.NewReader(strings.Repeat("x", 10<<20))))
			if _, err := r.Do(q); err == nil {
				r.Error("no error")
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, setting{server: testserver.Options{Handler: c.server}}, func(r *rig) {
				for range 20 {
					if c.call != nil {
						c.call(r)
					} else {
						go r.get(r.Context())
						time.Sleep(time.Millisecond)
					}
				}
				time.Sleep(10 * time.Second)
				r.breaker("open")
				r.held(0)
			})
		})
	}
}

// However many successes the window still holds, one timeout of all permits opens it.
func TestHangOpensAfterOneTimeout(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		repeat(5000, func() { r.get(r.Context()) })
		r.server.Default(testserver.HangBeforeHeaders())
		for range 100 {
			go r.get(r.Context())
		}
		time.Sleep(5*time.Second - 1)
		r.breaker("closed")
		time.Sleep(1 + time.Millisecond)
		r.breaker("open")
		time.Sleep(time.Second)
		synctest.Wait()
	})
}

// No probe of a half-open breaker can keep it from deciding.
func TestProbes(t *testing.T) {
	forget := func(r *rig) {
		if _, err := r.Do(r.request(r.Context(), "GET", nil)); err != nil {
			r.Error(err)
		}
	}
	ok := testserver.OK("ok")
	cases := []struct {
		name   string
		server http.Handler
		probe  func(r *rig)
		after  time.Duration
		want   string // after one probe, with HalfOpenProbes 1
	}{
		{"success", ok, func(r *rig) { r.get(r.Context()) }, 0, "closed"},
		{"404", testserver.Status(404), func(r *rig) { r.get(r.Context()) }, 0, "closed"},
		{"failure", testserver.Status(500), func(r *rig) { r.get(r.Context()) }, 0, "open"},
		{"hung", testserver.HangBeforeHeaders(), func(r *rig) { r.get(r.Context()) }, 0, "open"},
		{"cancelled", testserver.HangBeforeHeaders(), func(r *rig) {
			ctx, cancel := context.WithCancel(r.Context())
			time.AfterFunc(time.Second, cancel)
			r.get(ctx)
		}, 0, "half_open"},
		{"abandoned", testserver.StallInBody(1), forget, 7*time.Second + 1, "half_open"},
		{"lifted, with headers", testserver.StallInBody(1), func(r *rig) {
			ctx, cancel := context.WithCancel(resilient.WithBounds(r.Context(), resilient.Bounds{Total: resilient.Unbounded, Read: resilient.Unbounded}))
			time.AfterFunc(time.Hour, cancel)
			if _, err := r.Do(r.request(ctx, "GET", nil)); err != nil {
				r.Error(err)
			}
		}, 0, "closed"},
		{"lifted, without headers", testserver.HangBeforeHeaders(), func(r *rig) {
			ctx, cancel := context.WithCancel(resilient.WithBounds(r.Context(), resilient.Bounds{Total: resilient.Unbounded, Read: resilient.Unbounded}))
			time.AfterFunc(time.Hour, cancel)
			go r.get(ctx)
		}, 7*time.Second + 1, "half_open"},
		{"a longer total", testserver.HangBeforeHeaders(), func(r *rig) {
			go r.get(resilient.WithBounds(r.Context(), resilient.Bounds{Total: time.Hour, Read: resilient.Unbounded}))
		}, 7*time.Second + 1, "half_open"},
		{"bad upload", ok, func(r *rig) { r.Do(r.request(r.Context(), "POST", iotest.ErrReader(errBoom))) }, 0, "half_open"},
	}
	cfg := resilient.Config{}
	cfg.Breaker.HalfOpenProbes = 1
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, setting{cfg: cfg}, func(r *rig) {
				r.server.Default(testserver.Status(500))
				for range 20 {
					r.get(r.Context())
				}
				r.breaker("open")
				time.Sleep(30*time.Second + 1)
				r.server.Default(c.server)
				c.probe(r)
				time.Sleep(c.after)
				synctest.Wait()
				r.breaker(c.want)
				r.server.Default(ok)
				time.Sleep(31 * time.Second)
				if _, err := r.get(r.Context()); err != nil {
					r.Errorf("the next probe: %v", err)
				}
				r.breaker("closed")
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestClassifier(t *testing.T) {
	var seen []string
	classify := func(resp *http.Response, err error) resilient.Verdict {
		if err != nil {
			seen = append(seen, "error")
			return resilient.Neutral
		}
		seen = append(seen, fmt.Sprint(resp.StatusCode))
		if resp.StatusCode == 429 {
			return resilient.Failure
		}
		return resilient.Success
	}
	inBoth(t, setting{opts: []resilient.Option{resilient.WithClassifier(classify)}}, func(r *rig) {
		seen = nil
		for range 20 {
			r.server.Default(testserver.Reset())
			r.get(r.Context())
			r.server.Default(testserver.Status(500))
			r.get(r.Context())
		}
		r.breaker("closed")
		r.server.Default(testserver.Status(429))
		for range 20 {
			r.get(r.Context())
		}
		r.breaker("open")
		if len(seen) != 56 {
			r.Errorf("asked %d times: %v", len(seen), seen)
		}
	})
}
