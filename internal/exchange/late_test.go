package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A base that ignores its context is told when it returns, and nothing is given back before.
func TestBaseIgnoresContext(t *testing.T) {
	for name, c := range map[string]struct {
		resp   func(req *http.Request, b io.ReadCloser) (*http.Response, error)
		closes int
	}{
		"a response": {func(req *http.Request, b io.ReadCloser) (*http.Response, error) {
			return reply(req, http.StatusOK, b), nil
		}, 1},
		"an answer without a body, that has one": {func(req *http.Request, b io.ReadCloser) (*http.Response, error) {
			return reply(req, http.StatusNoContent, b), nil
		}, 1},
		"no body": {func(req *http.Request, _ io.ReadCloser) (*http.Response, error) {
			return reply(req, http.StatusOK, nil), nil
		}, 0},
		"an upgrade": {func(req *http.Request, b io.ReadCloser) (*http.Response, error) {
			return reply(req, http.StatusSwitchingProtocols, conn{b.(*fake)}), nil
		}, 1},
		"an error": {func(*http.Request, io.ReadCloser) (*http.Response, error) { return nil, errBoom }, 0},
		"both": {func(req *http.Request, b io.ReadCloser) (*http.Response, error) {
			return reply(req, http.StatusOK, b), errBoom
		}, 1},
	} {
		for _, who := range interrupters {
			bubble(t, name+"/"+who.name, func(t *testing.T) {
				b := text("abc")
				var r *rig
				r = newRig(t, trip(func(req *http.Request) (*http.Response, error) {
					time.Sleep(5 * time.Second)
					r.held(4)
					if req.Context().Err() == nil {
						t.Error("the context has not ended")
					}
					return c.resp(req, b)
				}))
				ctx, cancel := who.arm(t.Context(), r)
				defer cancel()
				resp, err := r.RoundTrip(request(ctx))
				if resp != nil || err == nil || err.Error() != who.text {
					t.Errorf("%v, %v", resp, err)
				}
				r.ended(Outcome{Fault: err, By: who.by})
				if at := r.last().at[0]; at != 5*time.Second || b.count() != c.closes {
					t.Errorf("ended after %v, closed %d times", at, b.count())
				}
			})
		}
	}
}

// A body that ignores its context is closed, and nothing is given back before its Read has returned.
func TestBodyIgnoresContext(t *testing.T) {
	for _, who := range interrupters {
		bubble(t, who.name, func(t *testing.T) {
			b := newFake(nil)
			b.read = func(p []byte) (int, error) {
				<-b.closed
				time.Sleep(2 * time.Second)
				return copy(p, "x"), nil
			}
			r := newRig(t, answer(b))
			ctx, cancel := who.arm(t.Context(), r)
			defer cancel()
			resp, err := r.RoundTrip(request(ctx))
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(4*time.Second, func() { r.held(4) })
			n, err := resp.Body.Read(make([]byte, 1))
			if n != 1 || err == nil || err.Error() != who.text {
				t.Errorf("%d, %v", n, err)
			}
			r.ended(Outcome{Fault: err, By: who.by})
			if at := r.last().at[0]; at != 5*time.Second || b.count() != 1 {
				t.Errorf("ended after %v, closed %d times", at, b.count())
			}
			if r.heard != 2 {
				t.Errorf("heard %d times", r.heard)
			}
		})
	}
}

// A Read that comes to its end although the exchange was interrupted still tells why.
func TestEOFAfterInterruption(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := newFake(nil)
		b.read = func([]byte) (int, error) { time.Sleep(2 * time.Second); return 0, io.EOF }
		r := newRig(t, answer(b))
		r.total = time.Second
		resp, _ := r.RoundTrip(request(t.Context()))
		if _, err := resp.Body.Read(nil); err != errBound {
			t.Error(err)
		}
		r.ended(Outcome{Fault: errBound, By: Bound})
	})
}

// Idle begins when the last Read has returned, which may be the instant of the interruption.
func TestIdle(t *testing.T) {
	for _, idle := range []time.Duration{0, 1, time.Hour} {
		bubble(t, idle.String(), func(t *testing.T) {
			r := newRig(t, answer(stuck(t.Context(), 1)))
			resp, _ := r.RoundTrip(request(t.Context()))
			time.Sleep(time.Second)
			resp.Body.Read(make([]byte, 1))
			time.Sleep(idle)
			r.interrupt(Bound)
			r.ended(Outcome{Fault: errBound, By: Bound, Idle: max(1, idle)})
		})
	}
	bubble(t, "never read", func(t *testing.T) {
		r := newRig(t, answer(text("")))
		r.RoundTrip(request(t.Context()))
		r.interrupt(Owner)
		r.ended(Outcome{Fault: errOwner, By: Owner, Idle: math.MaxInt64})
	})
}

// Closed first, then the context ended, then the Read that Close broke off returned.
func TestClosedThenInterrupted(t *testing.T) {
	for _, who := range interrupters {
		bubble(t, who.name, func(t *testing.T) {
			b := newFake(nil)
			b.read = func([]byte) (int, error) { <-b.closed; time.Sleep(4 * time.Second); return 0, errBoom }
			b.close = func() error { time.Sleep(6 * time.Second); return nil }
			r := newRig(t, answer(b), "watch", "permit", "bound")
			ctx, cancel := who.arm(t.Context(), r)
			defer cancel()
			resp, _ := r.RoundTrip(request(ctx))
			closing := make(chan struct{})
			go func() { defer close(closing); resp.Body.Close() }()
			time.AfterFunc(3*time.Second+1, func() {
				if r.last().Context().Err() == nil {
					t.Error("the context has not ended")
				}
			})
			if _, err := resp.Body.Read(make([]byte, 1)); err != errBoom {
				t.Error(err)
			}
			r.ended(Outcome{})
			<-closing
			r.ended(Outcome{})
			time.Sleep(time.Minute) // the interruption's own Close
		})
	}
}

// Cancelled, then closed, one after the other: it is no chance who came first.
func TestCancelThenClose(t *testing.T) {
	for _, late := range []time.Duration{-1, 1} { // -1: the watch and Close race
		bubble(t, late.String(), func(t *testing.T) {
			for range 50 {
				caller, cancel := context.WithCancel(t.Context())
				ctx := caller
				if late > 0 {
					ctx = lateContext{caller, late}
				}
				b := stuck(ctx, 1)
				r := newRig(t, answer(b))
				resp, _ := r.RoundTrip(request(ctx))
				cancel()
				resp.Body.Close()
				synctest.Wait()
				r.ended(Outcome{Fault: context.Canceled, By: Caller, Idle: math.MaxInt64})
				if b.count() == 0 {
					t.Error("not closed")
				}
			}
			time.Sleep(1)
		})
	}
}

// A Close that finds the caller gone ends the exchange's context before it waits for a Read that heeds nothing else.
func TestCloseFindsCallerGone(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		lock := make(chan struct{}, 1) // held by Read and taken by Close, as some bodies do
		forced := make(chan struct{})
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			b := newFake(func([]byte) (int, error) {
				lock <- struct{}{}
				defer func() { <-lock }()
				select {
				case <-req.Context().Done():
					return 0, req.Context().Err()
				case <-forced:
					t.Error("nothing ended the Read")
					return 0, errBoom
				}
			})
			b.close = func() error { lock <- struct{}{}; <-lock; return nil }
			return reply(req, http.StatusOK, b), nil
		}))
		resp, _ := r.RoundTrip(request(lateContext{ctx, time.Second}))
		var wg sync.WaitGroup
		wg.Go(func() { resp.Body.Read(make([]byte, 1)) })
		time.Sleep(time.Second)
		cancel()
		timer := time.AfterFunc(time.Hour, func() { close(forced) })
		resp.Body.Close()
		wg.Wait()
		timer.Stop()
		r.ended(Outcome{Fault: context.Canceled, By: Caller})
		time.Sleep(time.Second)
	})
}

// The caller's end is the cause of an error that follows it, even before the watch has noticed.
func TestErrorAfterCallerGone(t *testing.T) {
	for name, c := range map[string]struct {
		base func(cancel context.CancelFunc) trip
	}{
		"in RoundTrip": {func(cancel context.CancelFunc) trip {
			return func(*http.Request) (*http.Response, error) { cancel(); return nil, errBoom }
		}},
		"in Read": {func(cancel context.CancelFunc) trip {
			return answer(newFake(func([]byte) (int, error) { cancel(); return 0, errBoom }))
		}},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			r := newRig(t, c.base(cancel))
			resp, err := r.RoundTrip(request(lateContext{ctx, time.Second}))
			if err == nil {
				_, err = resp.Body.Read(nil)
			}
			if err != context.Canceled {
				t.Error(err)
			}
			r.ended(Outcome{Fault: context.Canceled, By: Caller})
			time.Sleep(time.Second)
		})
	}
	bubble(t, "but not of EOF", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := newRig(t, answer(newFake(func([]byte) (int, error) { cancel(); return 0, io.EOF })))
		resp, _ := r.RoundTrip(request(lateContext{ctx, time.Second}))
		if _, err := resp.Body.Read(nil); err != io.EOF {
			t.Error(err)
		}
		r.ended(Outcome{})
		time.Sleep(time.Second)
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
		req := request(lateContext{ctx, time.Second})
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
