package exchange_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

var errCause = errors.New("user left")

// The ones who interrupt, three seconds after they were asked to; each phase of an exchange
// has to end there and then, with the same error over both protocols.
var interrupters = []struct {
	name    string
	by      By
	arm     func(ctx context.Context, r *rig) (context.Context, context.CancelFunc)
	text    string
	is      []error
	timeout bool
}{
	{"cancel", Caller, func(ctx context.Context, _ *rig) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(3*time.Second, cancel)
		return ctx, cancel
	}, "context canceled", []error{context.Canceled}, false},
	{"cancel with a cause", Caller, func(ctx context.Context, _ *rig) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(3*time.Second, func() { cancel(errCause) })
		return ctx, func() { cancel(nil) }
	}, "context canceled: user left", []error{context.Canceled, errCause}, false},
	{"deadline", Caller, func(ctx context.Context, _ *rig) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 3*time.Second)
	}, "context deadline exceeded", []error{context.DeadlineExceeded}, true},
	{"deadline with a cause", Caller, func(ctx context.Context, _ *rig) (context.Context, context.CancelFunc) {
		return context.WithTimeoutCause(ctx, 3*time.Second, errCause)
	}, "context deadline exceeded: user left", []error{context.DeadlineExceeded, errCause}, true},
	{"bound", Bound, func(ctx context.Context, r *rig) (context.Context, context.CancelFunc) {
		r.total = 3 * time.Second
		return context.WithCancel(ctx)
	}, "too slow", []error{errBound}, false},
	{"owner", Owner, func(ctx context.Context, r *rig) (context.Context, context.CancelFunc) {
		time.AfterFunc(3*time.Second, func() { r.interrupt(Owner) })
		return context.WithCancel(ctx)
	}, "client closed", []error{errOwner}, false},
}

func TestInterruptedInEachPhase(t *testing.T) {
	one := make([]byte, 1)
	for _, who := range interrupters {
		for phase, c := range map[string]struct {
			answer http.Handler
			act    func(t *testing.T, r *rig, b io.ReadCloser) error // nil if RoundTrip is to fail
			idle   time.Duration
		}{
			"in RoundTrip": {answer: testserver.HangBeforeHeaders()},
			"unread": {testserver.StallInBody(3), func(*testing.T, *rig, io.ReadCloser) error {
				time.Sleep(3 * time.Second)
				synctest.Wait()
				return nil
			}, math.MaxInt64},
			"between Reads": {testserver.Trickle(1, time.Second, -1), func(t *testing.T, _ *rig, b io.ReadCloser) error {
				if _, err := b.Read(one); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				return nil
			}, 2 * time.Second},
			"in the first Read": {testserver.StallInBody(0), func(_ *testing.T, _ *rig, b io.ReadCloser) error {
				_, err := b.Read(one)
				return err
			}, 0},
			"in a later Read": {testserver.Trickle(1, 2*time.Second, -1), func(_ *testing.T, _ *rig, b io.ReadCloser) error {
				_, err := readAll(b)
				return err
			}, 0},
		} {
			both(t, who.name+"/"+phase, c.answer, func(t *testing.T, s *system) {
				r := newRig(t, s.base)
				ctx, cancel := who.arm(t.Context(), r)
				defer cancel()
				want := Outcome{Fault: who.is[0], By: who.by, Idle: c.idle}
				check := func(err error) {
					t.Helper()
					if err.Error() != who.text || isTimeout(err) != who.timeout {
						t.Errorf("%v, a timeout: %v", err, isTimeout(err))
					}
					for _, is := range who.is {
						if !errors.Is(err, is) {
							t.Errorf("%v is not %v", err, is)
						}
					}
				}
				resp, err := r.RoundTrip(s.request(ctx))
				if c.act == nil {
					check(err)
				} else {
					if err != nil {
						t.Fatal(err)
					}
					if err = c.act(t, r, resp.Body); err != nil {
						check(err)
					}
				}
				r.ended(want)
				for i, at := range r.last().at {
					if at != 3*time.Second {
						t.Errorf("%s ended after %v", r.last().ended[i], at)
					}
				}
				check(r.last().how[0].Fault)
				if c.act == nil {
					return
				}
				starts := r.starts
				if n, err := resp.Body.Read(one); n != 0 {
					t.Errorf("a Read afterwards: %d, %v", n, err)
				} else {
					check(err)
				}
				resp.Body.Close()
				if _, err := resp.Body.Read(one); err != nil {
					check(err)
				}
				r.ended(want)
				if r.starts != starts {
					t.Error("a Read afterwards waits")
				}
			})
		}
	}
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// A caller that has gone before: only the observer sees it.
func TestCallerGoneBefore(t *testing.T) {
	for name, c := range map[string]struct {
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		text string
	}{
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, "context canceled"},
		"with a cause": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(errCause)
			return ctx, func() {}
		}, "context canceled: user left"},
		"too late": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, -1)
		}, "context deadline exceeded"},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx, cancel := c.ctx(t.Context())
			defer cancel()
			body := text("abc")
			r := newRig(t, trip(func(*http.Request) (*http.Response, error) {
				t.Error("sent")
				return nil, errBoom
			}))
			resp, err := r.RoundTrip(request(ctx, body))
			if resp != nil || err == nil || err.Error() != c.text {
				t.Errorf("%v, %v", resp, err)
			}
			r.ended(Outcome{Fault: err, By: Caller})
			if x := r.last(); len(x.begun) != 1 || x.Sent || x.failed != nil || body.count() != 1 || r.starts != 0 {
				t.Errorf("begun %v, sent %v, body closed %d times, %d waits", x.begun, x.Sent, body.count(), r.starts)
			}
		})
	}
}

// In Begin, which may wait: for what Context says, or for itself.
func TestInterruptedInBegin(t *testing.T) {
	for _, who := range interrupters {
		for _, layers := range [][]string{{"watch", "bound", "permit"}, {"watch", "permit", "bound"}} {
			if who.by != Caller && layers[1] == "permit" {
				continue // nothing that began can interrupt it
			}
			bubble(t, who.name+"/"+layers[1], func(t *testing.T) {
				r := newRig(t, answer(text("")), layers...)
				ctx, cancel := who.arm(t.Context(), r)
				defer cancel()
				r.begin = func(layer string, x *Exchange) error {
					if layer != "permit" {
						return nil
					}
					select {
					case <-x.Context().Done():
						return x.Context().Err()
					case <-time.After(time.Hour):
						return errBoom
					}
				}
				body := text("abc")
				resp, err := r.RoundTrip(request(ctx, body))
				if resp != nil || err == nil || err.Error() != who.text {
					t.Errorf("%v, %v", resp, err)
				}
				r.ended(Outcome{Fault: err, By: who.by})
				if x := r.last(); x.Sent || x.Admitted != 3*time.Second || body.count() != 1 {
					t.Errorf("sent %v, admitted after %v, body closed %d times", x.Sent, x.Admitted, body.count())
				}
			})
		}
	}
}

// Who refuses while the caller goes has the word, unless the exchange had been told.
func TestRefusedWhileCallerGoes(t *testing.T) {
	bubble(t, "not told", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := newRig(t, answer(text("")))
		r.begin = func(layer string, _ *Exchange) error {
			if layer == "permit" {
				cancel()
				return errBoom
			}
			return nil
		}
		if _, err := r.RoundTrip(request(ctx)); err != errBoom {
			t.Error(err)
		}
		r.ended(Outcome{Fault: errBoom})
	})
	bubble(t, "the owner came first", func(t *testing.T) { // and had nothing to end yet
		r := newRig(t, answer(text("")))
		r.begin = func(layer string, _ *Exchange) error {
			if layer == "permit" {
				r.interrupt(Owner)
				return errBoom
			}
			return nil
		}
		if _, err := r.RoundTrip(request(t.Context())); err != errBoom {
			t.Error(err)
		}
		r.ended(Outcome{Fault: errBoom})
	})
	bubble(t, "a bound came first", func(t *testing.T) {
		r := newRig(t, answer(text("")), "watch", "bound", "permit")
		r.total = time.Second
		r.begin = func(layer string, _ *Exchange) error {
			if layer == "permit" {
				time.Sleep(2 * time.Second)
				return errBoom
			}
			return nil
		}
		if _, err := r.RoundTrip(request(t.Context())); err != errBound {
			t.Error(err)
		}
		r.ended(Outcome{Fault: errBound, By: Bound})
	})
}

// Only the first interruption counts, and none does after the end.
func TestFirstInterruptionCounts(t *testing.T) {
	bubble(t, "two in RoundTrip", func(t *testing.T) {
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			r := time.Second
			time.Sleep(r)
			return nil, req.Context().Err()
		}))
		time.AfterFunc(1, func() { r.interrupt(Owner); r.interrupt(Bound) })
		if _, err := r.RoundTrip(request(t.Context())); err != errOwner {
			t.Error(err)
		}
		r.ended(Outcome{Fault: errOwner, By: Owner})
	})
	bubble(t, "after the end", func(t *testing.T) {
		b := text("")
		r := newRig(t, answer(b))
		resp, _ := r.RoundTrip(request(t.Context()))
		resp.Body.Close()
		r.interrupt(Bound)
		r.ended(Outcome{})
		if b.count() != 1 {
			t.Errorf("closed %d times", b.count())
		}
		if _, err := resp.Body.Read(nil); err != io.EOF {
			t.Error(err)
		}
	})
}

// The outer of two exchanges is interrupted, and it is no chance what the inner one says of that.
func TestInterruptedFromOutside(t *testing.T) {
	seen := map[By]int{}
	for range 200 {
		bubble(t, "", func(t *testing.T) {
			inner := newRig(t, answer(text("")))
			outer := newRig(t, trip(inner.RoundTrip))
			outer.RoundTrip(request(t.Context()))
			outer.interrupt(Bound)
			synctest.Wait()
			seen[inner.last().how[0].By]++
		})
	}
	if len(seen) != 1 {
		t.Errorf("interrupted by %v", seen)
	}
}
