package exchange_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
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

// An interruption is not quicker than a Close that is under way, and a Read not quicker than an interruption's Close.
func TestSlowClose(t *testing.T) {
	for _, who := range interrupters {
		for _, reading := range []bool{false, true} {
			bubble(t, fmt.Sprint(who.name, ", reading ", reading), func(t *testing.T) {
				b := stuck(t.Context(), 0)
				b.close = func() error { time.Sleep(6 * time.Second); return nil }
				r := newRig(t, answer(b))
				ctx, cancel := who.arm(t.Context(), r)
				defer cancel()
				resp, _ := r.RoundTrip(request(ctx))
				want, at := Outcome{}, 6*time.Second
				if reading {
					want, at = Outcome{Fault: who.is[0], By: who.by}, 9*time.Second
					resp.Body.Read(make([]byte, 1))
				} else {
					resp.Body.Close()
				}
				r.ended(want)
				if got := r.last().at[0]; got != at || b.count() != 1 {
					t.Errorf("ended after %v, closed %d times", got, b.count())
				}
			})
		}
	}
}

// Cancelled, then closed, one after the other: it is no chance who came first.
func TestCancelThenClose(t *testing.T) {
	for _, by := range []time.Duration{-1, 1} { // -1: the watch and Close race
		bubble(t, by.String(), func(t *testing.T) {
			for range 50 {
				caller, cancel := context.WithCancel(t.Context())
				ctx := caller
				if by > 0 {
					ctx = late(caller, by)
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
		resp, _ := r.RoundTrip(request(late(ctx, time.Second)))
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
			resp, err := r.RoundTrip(request(late(ctx, time.Second)))
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
		resp, _ := r.RoundTrip(request(late(ctx, time.Second)))
		if _, err := resp.Body.Read(nil); err != io.EOF {
			t.Error(err)
		}
		r.ended(Outcome{})
		time.Sleep(time.Second)
	})
}
