package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

// The exchange's context ends with the caller's, and says the same.
func TestContextBelowCaller(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context) (context.Context, func()){
		"cancelled": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancel(ctx)
			return ctx, cancel
		},
		"cancelled with a cause": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(errCause) }
		},
		"too late": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeoutCause(ctx, time.Second, errCause)
			context.AfterFunc(ctx, cancel)
			return ctx, func() { time.Sleep(time.Second) }
		},
	} {
		bubble(t, name, func(t *testing.T) {
			caller, cancel := end(t.Context())
			r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
				child, stop := context.WithCancel(req.Context())
				defer stop()
				cancel()
				synctest.Wait()
				for _, ctx := range []context.Context{req.Context(), child} {
					if ctx.Err() != caller.Err() || context.Cause(ctx) != context.Cause(caller) || !isDone(ctx) {
						t.Errorf("%v because of %v", ctx.Err(), context.Cause(ctx))
					}
				}
				return nil, child.Err()
			}))
			if _, err := r.RoundTrip(request(caller)); err.Error() != CallerError(caller).Error() {
				t.Error(err)
			}
			r.ended(Outcome{Fault: caller.Err(), By: Caller})
		})
	}
}

// Without a layer that interrupts there is no context but the caller's. One that
// does gets one as soon as it begins, and ended if the exchange was interrupted before.
func TestContextOfItsOwn(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			if req.Context() != t.Context() {
				t.Error("not the caller's")
			}
			return reply(req, 200, nil), nil
		}), "watch", "permit", "slot", "uploads")
		req := request(t.Context())
		r.RoundTrip(req)
		if got := r.last().Context(); got != t.Context() {
			t.Error(got)
		}
		r = newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			t.Error("sent")
			return nil, errBoom
		}))
		r.begin = func(layer string, x *Exchange) error {
			switch layer {
			case "slot":
				r.interrupt(Owner)
				if x.Context() != t.Context() {
					t.Error("not the caller's")
				}
			case "bound":
				if !isDone(x.Context()) || x.Context().Err() != context.Canceled {
					t.Error("not ended")
				}
				return errBoom
			}
			return nil
		}
		if _, err := r.RoundTrip(req); err != errBoom {
			t.Error(err)
		}
	})
}

// An exchange that is over leaves nothing with the caller's context.
func TestCallerUnwatched(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		ctx := &counting{Context: context.WithoutCancel(t.Context()), done: make(chan struct{})}
		for name, base := range map[string]trip{
			"error":   func(*http.Request) (*http.Response, error) { return nil, errBoom },
			"no body": answer(http.NoBody),
			"panic":   func(*http.Request) (*http.Response, error) { panic(errBoom) },
			"body":    answer(text("")),
			"upgrade": upgradeTo(conn{text("")}),
		} {
			for _, layers := range [][]string{{"watch", "permit"}, all} {
				r := newRig(t, base, layers...)
				var resp *http.Response
				panics(func() { resp, _ = r.RoundTrip(request(ctx)) })
				if name == "body" {
					if n := ctx.watched.Load(); n != 1 {
						t.Errorf("%d watches", n)
					}
					resp.Body.Read(nil)
				}
				if n := ctx.watched.Load(); n != 0 {
					t.Errorf("%s: %d watches are left", name, n)
				}
			}
		}
		r := newRig(t, answer(text("")), "bound", "permit")
		r.begin = func(layer string, _ *Exchange) error { return map[string]error{"permit": errBoom}[layer] }
		r.RoundTrip(request(ctx))
		if n := ctx.watched.Load(); n != 0 {
			t.Errorf("refused: %d watches are left", n)
		}
		r = newRig(t, answer(http.NoBody), "uploads", "permit") // which have no context that an upload could go on with
		r.RoundTrip(request(ctx, text("abc")))
		if n := ctx.watched.Load(); n != 0 {
			t.Errorf("of an upload: %d watches are left", n)
		}
	})
}

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

// Two layers that interrupt share one context.
func TestContextOfTwo(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var done []<-chan struct{}
		r := newRig(t, answer(text("")), "bound", "bound2")
		r.begin = func(_ string, x *Exchange) error {
			done = append(done, x.Context().Done())
			return nil
		}
		r.RoundTrip(request(t.Context()))
		r.interrupt(Bound)
		<-done[0]
		if done[0] != done[1] {
			t.Error("two contexts")
		}
	})
}

// Package context asks before it hangs something below a context that has ended, but may be too late.
func TestAfterFuncTooLate(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := newRig(t, answer(http.NoBody))
		r.RoundTrip(request(t.Context()))
		ran := 0
		ctx := r.last().Context().(interface{ AfterFunc(func()) func() bool })
		for range 2 {
			stop := ctx.AfterFunc(func() { ran++ })
			synctest.Wait()
			if stop() {
				t.Error("stopped")
			}
		}
		if ran != 2 {
			t.Errorf("ran %d times", ran)
		}
	})
}

// http.Client.Timeout, and the deprecated Request.Cancel that it sets too, are the caller's.
func TestClientTimeout(t *testing.T) {
	for phase, h := range map[string]http.Handler{"RoundTrip": testserver.HangBeforeHeaders(), "Read": testserver.StallInBody(3)} {
		both(t, "Client.Timeout/"+phase, h, func(t *testing.T, s *system) {
			r := newRig(t, s.base)
			client := &http.Client{Transport: r, Timeout: 3 * time.Second}
			resp, err := client.Do(s.request(t.Context()))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if !isTimeout(err) || !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			r.ended(Outcome{Fault: errAny, By: Caller}) // its context and its Request.Cancel end at the same time
			if at := r.last().at[0]; at != 3*time.Second {
				t.Error(at)
			}
		})
		both(t, "Request.Cancel/"+phase, h, func(t *testing.T, s *system) {
			cancel := make(chan struct{})
			r := newRig(t, s.base)
			time.AfterFunc(3*time.Second, func() { close(cancel) })
			req := s.request(t.Context())
			req.Cancel = cancel
			resp, err := r.RoundTrip(req)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
			}
			if err == nil || fmt.Sprint(err) == "EOF" {
				t.Error(err)
			}
			r.ended(Outcome{Fault: err, By: Caller})
		})
	}
	bubble(t, "after Context and Request.Cancel", func(t *testing.T) { // the context says more
		ctx, stop := context.WithCancelCause(t.Context())
		cancel := make(chan struct{})
		r := newRig(t, trip(func(*http.Request) (*http.Response, error) {
			close(cancel)
			stop(errCause)
			return nil, errBoom
		}))
		req := request(late(ctx, time.Second))
		req.Cancel = cancel
		r.RoundTrip(req)
		r.ended(Outcome{Fault: errCause, By: Caller})
		time.Sleep(time.Second)
	})
	bubble(t, "closed with Request.Cancel", func(t *testing.T) {
		cancel := make(chan struct{})
		r := newRig(t, answer(text("")))
		req := request(t.Context())
		req.Cancel = cancel
		resp, _ := r.RoundTrip(req)
		close(cancel)
		resp.Body.Close()
		r.ended(Outcome{})
	})
	bubble(t, "refused with Request.Cancel", func(t *testing.T) {
		cancel := make(chan struct{})
		close(cancel)
		r := newRig(t, answer(text("")))
		r.begin = func(layer string, _ *Exchange) error { return map[string]error{"slot": errBoom}[layer] }
		req := request(t.Context())
		req.Cancel = cancel
		r.RoundTrip(req)
		r.ended(Outcome{Fault: errBoom})
	})
}
