package resilient_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// open is Execute around a request whose body is the caller's.
func (r *rig) open(ctx context.Context, path string) *http.Response {
	r.Helper()
	resp, err := resilient.Execute(ctx, r.Client, func(ctx context.Context) (*http.Response, error) {
		return r.RoundTrip(r.to(ctx, path))
	})
	if err != nil {
		r.Fatalf("%s: %v", path, err)
	}
	return resp
}

// A response that leaves the func takes the permit with it, and the verdict, to its body's end.
func TestExecuteReturnsResponse(t *testing.T) {
	inBoth(t, setting{cfg: trips(1, permits(1))}, func(r *rig) {
		r.server.Default(testserver.Trickle(1, time.Second, 6))
		r.server.On("/stall", testserver.StallInBody(3))
		r.server.On("/cut", testserver.CutInBody(1, 100))
		for _, c := range []struct {
			path    string
			end     func(b io.ReadCloser)
			outcome string
			breaker string
		}{
			{"/", func(b io.ReadCloser) {
				if b, err := io.ReadAll(b); len(b) != 6 || err != nil {
					r.Errorf("%q, %v", b, err)
				}
			}, "success", "closed"},
			{"/", func(b io.ReadCloser) { b.Close() }, "success", "closed"},
			{"/cut", func(b io.ReadCloser) { io.ReadAll(b) }, "transport_error", "open"},
			{"/stall", func(b io.ReadCloser) { _, err := io.ReadAll(b); r.timeout(err, "read") }, "timeout", "open"},
			{"/stall", func(io.ReadCloser) { time.Sleep(7*time.Second + 1) }, "abandoned", "closed"},
		} {
			before := r.metrics()["requests_total "+c.outcome]
			resp := r.open(r.Context(), c.path)
			r.inside(1, 1, 1)
			if err := r.fetch(r.Context(), "/"); !errors.Is(err, resilient.ErrBulkheadFull) {
				r.Error(err)
			}
			r.breaker("closed")
			c.end(resp.Body)
			synctest.Wait()
			r.inside(0, 0, 0)
			r.breaker(c.breaker)
			if n := r.metrics()["requests_total "+c.outcome]; n != before+1 {
				r.Errorf("%s: %v %s", c.path, n, c.outcome)
			}
			if c.breaker == "open" {
				time.Sleep(30*time.Second + 1)
				r.fetch(r.Context(), "/")
				r.breaker("closed")
			}
		}
	})
}

// The one who called Execute governs a body that left it.
func TestExecuteReturnsResponseToItsCaller(t *testing.T) {
	inBoth(t, setting{cfg: trips(1, permits(1))}, func(r *rig) {
		r.server.Default(testserver.StallInBody(3))
		ctx, cancel := context.WithCancelCause(r.Context())
		resp := r.open(ctx, "/")
		time.AfterFunc(time.Second, func() { cancel(errBoom) })
		var err error
		if d := took(func() { _, err = io.ReadAll(resp.Body) }); d != time.Second {
			r.Errorf("after %v", d)
		}
		r.is(err, context.Canceled, errBoom)
		r.inside(0, 0, 0)
		r.breaker("closed")
		short, cancel2 := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel2()
		resp = r.open(short, "/")
		if d := took(func() { _, err = io.ReadAll(resp.Body) }); d != 1900*time.Millisecond {
			r.Errorf("after %v", d)
		}
		r.timeout(err, "deadline")
		r.outcomes(map[string]float64{"cancelled": 2})
	})
}

// An upgraded connection that leaves the func keeps the permit until it is closed. Its verdict is that of the handshake.
func TestExecuteReturnsUpgrade(t *testing.T) {
	inOne(t, setting{cfg: trips(1, permits(1)), server: testserver.Options{Handler: testserver.Upgrade()}}, func(r *rig) {
		ctx, cancel := context.WithCancel(r.Context())
		resp, err := resilient.Execute(ctx, r.Client, func(ctx context.Context) (*http.Response, error) { return r.RoundTrip(r.upgrade(ctx)) })
		if err != nil {
			r.Fatal(err)
		}
		cancel()
		time.Sleep(time.Hour)
		r.inside(1, 1, 1)
		conn := resp.Body.(io.ReadWriteCloser)
		fmt.Fprintln(conn, "hello")
		if line, err := bufio.NewReader(conn).ReadString('\n'); line != "hello\n" || err != nil {
			r.Errorf("%q, %v", line, err)
		}
		conn.Close()
		r.inside(0, 0, 0)
		r.outcomes(map[string]float64{"upgraded": 1})
	})
}

// A context that outlives the func guards as if there had been no Execute: a permit and a verdict of its own, and the caller's bounds.
func TestExecuteContextKept(t *testing.T) {
	inBoth(t, setting{cfg: trips(1, permits(1))}, func(r *rig) {
		caller, cancel := context.WithTimeoutCause(r.Context(), time.Minute, errBoom)
		defer cancel()
		var kept context.Context
		r.execute(caller, func(ctx context.Context) error {
			kept = ctx
			return r.execute(ctx, func(ctx context.Context) error { kept = ctx; return nil })
		})
		r.inside(0, 0, 0)
		if err := kept.Err(); err != context.Canceled {
			r.Error(err)
		}
		for range 2 {
			resp := r.send(kept, "/")
			r.inside(1, 1, 0)
			if err := r.fetch(kept, "/"); !errors.Is(err, resilient.ErrBulkheadFull) {
				r.Error(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			r.inside(0, 0, 0)
		}
		insurer := r.another("insurer", permits(1))
		if err := insurer.fetch(kept, "/"); err != nil { // another client's is no other
			r.Error(err)
		}
		base := r.server.Transport()
		defer base.CloseIdleConnections()
		bare := transport.Chain(base, transport.Bulkhead(semaphore.New("bare", semaphore.Limits{MaxConcurrent: 1}), 0, nil))
		if resp, err := bare.RoundTrip(r.request(kept, "GET", nil)); err != nil { // nor is a chain of the caller's own
			r.Error(err)
		} else {
			io.Copy(io.Discard, resp.Body)
		}
		r.server.On("/hang", testserver.HangBeforeHeaders())
		time.Sleep(58800 * time.Millisecond) // and 200 in the queue
		if d := took(func() { r.timeout(r.fetch(kept, "/hang"), "deadline") }); d != 900*time.Millisecond {
			r.Errorf("after %v", d)
		}
		time.Sleep(time.Second)
		err := r.fetch(kept, "/")
		r.is(err, context.DeadlineExceeded, errBoom)
		r.breaker("closed")
		r.server.On("/fails", testserver.Status(500))
		r.execute(r.Context(), func(ctx context.Context) error { kept = ctx; return nil })
		r.fetch(kept, "/fails")
		r.breaker("open")
	})
}

type listContext struct { // which cannot be compared
	context.Context
	list []int
}

// So does Execute itself with such a context.
func TestExecuteWithContextKept(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		type key struct{}
		insurer := r.another("insurer", permits(1))
		caller, cancel := context.WithCancelCause(context.WithValue(r.Context(), key{}, "caller's"))
		var kept context.Context
		r.execute(caller, func(ctx context.Context) error {
			return r.execute(ctx, func(ctx context.Context) error {
				kept = listContext{context.WithValue(ctx, key{}, "func's"), nil}
				return nil
			})
		})
		for _, c := range []*rig{r, insurer} {
			err := c.execute(kept, func(ctx context.Context) error {
				if ctx.Value(key{}) != "func's" || context.Cause(ctx) != nil {
					r.Error(ctx.Value(key{}), context.Cause(ctx))
				}
				c.inside(1, 0, 1)
				return c.fetch(ctx, "/")
			})
			if err != nil {
				r.Errorf("%s: %v", c.Name(), err)
			}
		}
		called := false
		insurer.ForceOpen(0)
		_, err := resilient.Call[int]{Fallback: func(ctx context.Context, err error) (int, error) {
			called = true
			return 0, context.Cause(ctx)
		}}.Do(kept, insurer.Client, func(context.Context) (int, error) { return 0, nil })
		if err != nil || !called {
			r.Errorf("%v, fallback called: %v", err, called)
		}
		time.AfterFunc(time.Second, func() { cancel(errBoom) })
		err = r.execute(kept, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		r.is(err, errBoom)
		err = r.execute(kept, func(context.Context) error { r.Error("called"); return nil })
		r.is(err, context.Canceled, errBoom)
	})
}

// A goroutine of fn's that outlives it: what it has under way goes on, what it begins then needs a permit of its own.
func TestExecuteGoroutineOutlives(t *testing.T) {
	inBoth(t, setting{cfg: permits(2), server: testserver.Options{Handler: testserver.After(time.Second, testserver.OK("ok"))}}, func(r *rig) {
		insurer := r.another("insurer", permits(1))
		done := make(chan error, 4)
		err := r.execute(r.Context(), func(ctx context.Context) error {
			go func() {
				done <- r.fetch(ctx, "/") // with the func's permit
				done <- r.fetch(ctx, "/")
			}()
			synctest.Wait()
			go func() { done <- r.fetch(ctx, "/") }() // with another
			synctest.Wait()
			go insurer.fetch(r.Context(), "/")
			time.Sleep(950 * time.Millisecond)
			go func() { done <- insurer.fetch(ctx, "/") }() // in the queue of another client's
			time.Sleep(10 * time.Millisecond)
			r.inside(2, 2, 1)
			return nil
		})
		if err != nil {
			r.Error(err)
		}
		r.inside(2, 2, 1)
		time.Sleep(100 * time.Millisecond)
		r.inside(1, 1, 0)
		time.Sleep(2 * time.Second)
		for range 4 {
			if err := <-done; err != nil {
				r.Error(err)
			}
		}
	})
}

// Nothing is left with a long-lived context, however executions with it end.
func TestExecuteLeavesNothing(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		r.server.On("/hang", testserver.HangBeforeHeaders())
		ctx := &counting{Context: context.WithoutCancel(r.Context()), done: make(chan struct{})}
		call := resilient.Call[string]{Total: time.Second}
		for name, f := range map[string]func(){
			"nothing":       func() { r.execute(ctx, func(context.Context) error { return nil }) },
			"a request":     func() { r.execute(ctx, func(ctx context.Context) error { return r.fetch(ctx, "/") }) },
			"a body":        func() { io.Copy(io.Discard, r.open(ctx, "/").Body) },
			"a closed body": func() { r.open(ctx, "/").Body.Close() },
			"the total":     func() { r.call(ctx, call, func(ctx context.Context) error { return r.fetch(ctx, "/hang") }) },
			"without one": func() {
				resilient.Call[int]{Total: resilient.Unbounded}.Do(ctx, r.Client, func(context.Context) (int, error) { return 0, nil })
			},
			"forced open": func() { r.ForceOpen(0); r.execute(ctx, nil); r.Automatic() },
			"full":        func() { r.execute(ctx, func(context.Context) error { return r.execute(ctx, nil) }) },
			"nested": func() {
				r.execute(ctx, func(ctx context.Context) error { return r.execute(ctx, func(context.Context) error { return nil }) })
			},
			"nested, a body": func() {
				var resp *http.Response
				r.execute(ctx, func(ctx context.Context) error { resp = r.open(ctx, "/"); return nil })
				io.Copy(io.Discard, resp.Body)
			},
			"panic": func() {
				defer func() { _ = recover() }()
				r.execute(ctx, func(context.Context) error { panic(errBoom) })
			},
		} {
			f()
			synctest.Wait()
			if n := ctx.watched.Load(); n != 0 {
				r.Errorf("%s: %d watches are left", name, n)
			}
		}
	})
}

// A counting context counts those who want to know of its end.
type counting struct {
	context.Context
	done    chan struct{}
	watched atomic.Int32
}

func (c *counting) Done() <-chan struct{} { return c.done }
func (c *counting) AfterFunc(func()) func() bool {
	c.watched.Add(1)
	return func() bool { c.watched.Add(-1); return true }
}

// Requests over another base, and through a RoundTripper of the caller's own around the client, are the client's too.
func TestExecuteOverAnotherBase(t *testing.T) {
	inOne(t, setting{cfg: permits(1)}, func(r *rig) {
		wrapped := r.over(func(req *http.Request) (*http.Response, error) {
			r.inside(1, 1, 1)
			return answer(req, 200, hooked{}), nil
		})
		retries := roundTripper(func(req *http.Request) (*http.Response, error) {
			for {
				resp, err := r.RoundTrip(req.Clone(req.Context()))
				if err != nil || resp.StatusCode != 503 {
					return resp, err
				}
				resp.Body.Close()
				r.inside(1, 0, 1) // no permit but the func's is held while it waits
				time.Sleep(time.Second)
			}
		})
		r.server.Default(testserver.Burst(2, 503, testserver.OK("ok")))
		err := r.execute(r.Context(), func(ctx context.Context) error {
			for _, rt := range []http.RoundTripper{wrapped, &retries} {
				resp, err := rt.RoundTrip(r.request(ctx, "GET", nil))
				if err != nil {
					return err
				}
				io.Copy(io.Discard, resp.Body)
			}
			return nil
		})
		if err != nil {
			r.Error(err)
		}
	})
}

// An upload that goes on when the headers are there is not broken off when the func returns.
func TestExecuteUploadGoesOn(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.server.Default(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex()
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			io.Copy(w, q.Body)
		}))
		upload, w := io.Pipe()
		go fmt.Fprint(w, "one ")
		resp, err := resilient.Execute(r.Context(), r.Client, func(ctx context.Context) (*http.Response, error) {
			return r.RoundTrip(r.request(ctx, "POST", upload))
		})
		if err != nil {
			r.Fatal(err)
		}
		time.Sleep(time.Second)
		go func() {
			fmt.Fprint(w, "two")
			w.Close()
		}()
		if b, err := io.ReadAll(resp.Body); string(b) != "one two" || err != nil {
			r.Errorf("%q, %v", b, err)
		}
	})
}
