package resilient_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// Shutdown waits for executions, which may make the requests that they still need, and for what leaves them.
func TestShutdownDrainsExecutions(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		r.server.Default(testserver.Trickle(1, 100*time.Millisecond, 5))
		done := make(chan error, 2)
		var resp *http.Response
		go func() {
			var err error
			resp, err = resilient.Execute(r.Context(), r.Client, func(ctx context.Context) (*http.Response, error) {
				time.Sleep(time.Second)
				if err := r.fetch(ctx, "/"); err != nil { // with the permit that it has
					r.Error(err)
				}
				err := r.execute(ctx, func(ctx context.Context) error { return r.fetch(ctx, "/") })
				if err != nil {
					r.Error(err)
				}
				resp := r.send(ctx, "/")
				r.is(r.fetch(ctx, "/"), resilient.ErrClosed) // one beside it is like any other
				return resp, ctx.Err()
			})
			done <- err
			io.Copy(io.Discard, resp.Body)
			done <- nil
		}()
		synctest.Wait()
		go func() { // waits for the permit
			err := r.execute(r.Context(), func(context.Context) error { r.Error("called"); return nil })
			r.tells(err, told{is: []error{resilient.ErrUnavailable, resilient.ErrClosed}, notSent: true, status: http.StatusServiceUnavailable})
		}()
		synctest.Wait()
		if d := took(func() {
			if err := r.Shutdown(r.Context()); err != nil {
				r.Error(err)
			}
		}); d != 2500*time.Millisecond {
			r.Errorf("after %v", d)
		}
		if err := <-done; err != nil {
			r.Error(err)
		}
		<-done
		r.is(r.execute(r.Context(), func(context.Context) error { r.Error("called"); return nil }), resilient.ErrClosed)
		if names := r.reg.Names(); len(names) != 0 {
			r.Error(names)
		}
	})
}

// At the end of its context Shutdown cancels executions, and what they have under way; the name is free when the last has returned.
func TestShutdownCancelsExecutions(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.server.Default(testserver.HangBeforeHeaders())
		closed := func(err error) {
			r.Helper()
			if e, ok := errors.AsType[*resilient.ClosedError](err); !ok || !e.Started || errors.Is(err, resilient.ErrUnavailable) || resilient.NotSent(err) {
				r.Errorf("%v, NotSent %v", err, resilient.NotSent(err))
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			closed(r.execute(r.Context(), func(ctx context.Context) error { return r.fetch(ctx, "/") }))
		})
		wg.Go(func() {
			closed(r.execute(r.Context(), func(ctx context.Context) error {
				return r.execute(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			}))
		})
		wg.Go(func() { // stubborn
			closed(r.execute(r.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				closed(context.Cause(ctx))
				err := r.fetch(ctx, "/") // too late
				r.is(err, context.Canceled, resilient.ErrClosed)
				time.Sleep(time.Minute)
				return errBoom
			}))
		})
		wg.Go(func() { // one that had done
			if err := r.execute(r.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil }); err != nil {
				r.Error(err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		var err error
		if d := took(func() { err = r.Shutdown(ctx) }); d != time.Second || err != context.DeadlineExceeded {
			r.Errorf("%v after %v", err, d)
		}
		synctest.Wait()
		r.inside(1, 0, 1)
		if _, err := r.reg.NewClient("sber", resilient.Config{}); !errors.Is(err, resilient.ErrDuplicate) {
			r.Errorf("the name is free with an execution under way: %v", err)
		}
		time.Sleep(30 * time.Second)
		r.inside(1, 0, 1)
		r.executed(map[string]float64{"cancelled": 3, "success": 1})
		r.breaker("closed")
		wg.Wait()
		r.inside(0, 0, 0)
		if names := r.reg.Names(); len(names) != 0 {
			r.Error(names)
		}
	})
}

// A func may return because its exchange was cancelled before Shutdown comes to cancel it: that is the client's end still.
func TestShutdownCancelsExchangeFirst(t *testing.T) {
	inOne(t, setting{}, func(r *rig) {
		rt := r.over(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		slow := hooked{read: func([]byte) (int, error) { return 0, io.EOF }, closing: func() error { time.Sleep(time.Second); return nil }}
		done := make(chan error)
		go func() {
			call := resilient.Call[string]{Classify: func(err error) resilient.Verdict { r.Errorf("asked about %v", err); return resilient.Failure }}
			done <- r.call(r.Context(), call, func(ctx context.Context) error {
				_, err := rt.RoundTrip(r.request(ctx, "POST", slow))
				return err
			})
		}()
		go r.execute(r.Context(), func(context.Context) error { time.Sleep(time.Minute); return nil }) // so that there are metrics still
		synctest.Wait()
		go r.Close()
		r.is(<-done, resilient.ErrClosed)
		r.executed(map[string]float64{"cancelled": 1})
		time.Sleep(time.Minute)
	})
}

// Close with nothing but executions under way, and none.
func TestCloseWithExecutions(t *testing.T) {
	inOne(t, setting{}, func(r *rig) {
		other := r.another("insurer", resilient.Config{})
		returned := make(chan struct{})
		go other.execute(r.Context(), func(ctx context.Context) error { <-ctx.Done(); <-returned; return nil })
		synctest.Wait()
		other.Close()
		synctest.Wait()
		if n := len(r.reg.Names()); n != 2 {
			r.Errorf("%d clients", n)
		}
		other.is(other.execute(r.Context(), func(context.Context) error { r.Error("called"); return nil }), resilient.ErrClosed)
		if n := len(r.reg.Names()); n != 2 {
			r.Errorf("%d clients", n)
		}
		close(returned)
		synctest.Wait()
		if n := len(r.reg.Names()); n != 1 {
			r.Errorf("%d clients", n)
		}
		if err := other.Shutdown(r.Context()); err != nil {
			r.Error(err)
		}
	})
}

// Close ends at once what left a func that has returned: a body that nobody reads, an upgraded connection.
func TestCloseAfterExecutions(t *testing.T) {
	inOne(t, setting{}, func(r *rig) {
		other := r.another("insurer", resilient.Config{})
		r.server.On("/stall", testserver.StallInBody(1))
		idle := other.open(r.Context(), "/stall")
		r.server.On("/upgrade", testserver.Upgrade())
		conn, err := resilient.Execute(r.Context(), other.Client, func(ctx context.Context) (*http.Response, error) {
			req := other.upgrade(ctx)
			req.URL.Path = "/upgrade"
			return other.RoundTrip(req)
		})
		if err != nil {
			r.Fatal(err)
		}
		other.inside(2, 2, 2)
		other.Close()
		other.inside(0, 0, 0)
		if n := len(r.reg.Names()); n != 1 {
			r.Errorf("%d clients", n)
		}
		for _, b := range []io.Reader{idle.Body, conn.Body} {
			_, err := io.ReadAll(b)
			r.is(err, resilient.ErrClosed)
		}
	})
}

// Shutdown and executions that begin, nest, leave bodies behind and end: everything is given back, and the name is free when it is.
func TestShutdownRacesExecute(t *testing.T) {
	server, err := testserver.Start(testserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	reg := resilient.NewRegistry()
	base := server.Transport()
	defer base.CloseIdleConnections()
	for range 100 {
		c, err := reg.NewClient("sber", permits(2), resilient.WithBase(base), resilient.WithLogger(discard))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var inside atomic.Int64
		for range 6 {
			delay := rand.IntN(200)
			wg.Go(func() {
				for range delay {
					runtime.Gosched()
				}
				resp, err := resilient.Execute(t.Context(), c, func(ctx context.Context) (*http.Response, error) {
					inside.Add(1)
					defer inside.Add(-1)
					return resilient.Execute(ctx, c, func(ctx context.Context) (*http.Response, error) {
						req, err := http.NewRequestWithContext(ctx, "GET", server.URL(), nil)
						if err != nil {
							t.Error(err)
						}
						return c.RoundTrip(req)
					})
				})
				if err == nil {
					io.Copy(io.Discard, resp.Body)
				} else if !errors.Is(err, resilient.ErrUnavailable) && !errors.Is(err, context.Canceled) && !errors.Is(err, resilient.ErrClosed) {
					t.Error(err)
				}
			})
		}
		for range rand.IntN(400) {
			runtime.Gosched()
		}
		if rand.IntN(2) == 0 {
			c.Close()
		}
		if err := c.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if n := inside.Load(); n != 0 {
			t.Errorf("%d inside after Shutdown", n)
		}
		if s := c.State(); s.Bulkhead.Active != 0 || s.InFlight != 0 || len(reg.Names()) != 0 {
			t.Errorf("after Shutdown: %+v, %v", s, reg.Names())
		}
		wg.Wait()
		if s := c.State(); s.Executions != 0 {
			t.Errorf("%d executions", s.Executions)
		}
	}
}
