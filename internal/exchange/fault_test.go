package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

// Errors of a real transport reach the caller as they are.
func TestTransportErrors(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.Handler
		want   [2]string // by protocol
	}{
		"closed before headers": {testserver.CloseBeforeHeaders(), [2]string{"EOF", "EOF"}},
		"aborted":               {testserver.Abort(), [2]string{"EOF", "stream error: stream ID 1; INTERNAL_ERROR; received from peer"}},
		"reset":                 {testserver.Reset(), [2]string{"connection reset by peer", ""}},
	} {
		both(t, name, c.answer, func(t *testing.T, s *system) {
			r := newRig(t, s.base)
			resp, err := r.RoundTrip(s.request(t.Context()))
			if resp != nil || err == nil || !strings.Contains(err.Error(), c.want[s.protocol/testserver.HTTP2]) {
				t.Errorf("%v, %v", resp, err)
			}
			r.ended(Outcome{Fault: err})
			if x := r.last(); x.Status != 0 || !x.Sent || !slices.Equal(x.failed, reverse) || x.answered != nil || r.heard != 0 {
				t.Errorf("status %d, sent %v, failed %v, answered %v, heard %d", x.Status, x.Sent, x.failed, x.answered, r.heard)
			}
		})
	}
}

// What a base may return beside a response alone.
func TestRoundTripReturns(t *testing.T) {
	for name, c := range map[string]struct {
		with error
		body io.ReadCloser
		resp bool
		want string
	}{
		"an error":              {with: errBoom, want: "boom"},
		"io.EOF":                {with: io.EOF, want: "EOF"},
		"both":                  {with: errBoom, resp: true, body: text("abc"), want: "boom"},
		"both, but no body":     {with: errBoom, resp: true, want: "boom"},
		"neither":               {want: "exchange: the round trip returned neither response nor error"},
		"somebody's Canceled":   {with: context.Canceled, want: "context canceled"},
		"somebody's own bounds": {with: context.DeadlineExceeded, want: "context deadline exceeded"},
	} {
		bubble(t, name, func(t *testing.T) {
			r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
				if c.resp {
					return reply(req, 200, c.body), c.with
				}
				return nil, c.with
			}))
			resp, err := r.RoundTrip(request(t.Context()))
			if resp != nil || err == nil || err.Error() != c.want || c.with != nil && err != c.with {
				t.Errorf("%v, %v", resp, err)
			}
			r.ended(Outcome{Fault: err})
			if b, ok := c.body.(*fake); ok && b.count() != 1 {
				t.Error("body not closed")
			}
			if r.last().Status != 0 {
				t.Error("status", r.last().Status)
			}
		})
	}
}

// Failed turns an error into what the caller sees, inside out.
func TestFailed(t *testing.T) {
	bubble(t, "each in turn", func(t *testing.T) {
		r := newRig(t, trip(func(*http.Request) (*http.Response, error) { return nil, errBoom }))
		r.failed = func(layer string, _ *Exchange, err error) error { return fmt.Errorf("%s: %w", layer, err) }
		_, err := r.RoundTrip(request(t.Context()))
		if err == nil || err.Error() != "watch: permit: slot: bound: boom" {
			t.Error(err)
		}
		r.ended(Outcome{Fault: errBoom})
	})
	bubble(t, "not if interrupted", func(t *testing.T) { // which comes first
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, errBoom
		}))
		r.total = 1
		r.failed = func(layer string, _ *Exchange, err error) error { return fmt.Errorf("%s: %w", layer, err) }
		if _, err := r.RoundTrip(request(t.Context())); err != errBound {
			t.Error(err)
		}
		r.ended(Outcome{Fault: errBound, By: Bound})
	})
}

// A call that panics or ends its goroutine ends the exchange, and goes on.
func TestNoReturn(t *testing.T) {
	for _, how := range []struct {
		name string
		stop func()
		seen func(t *testing.T, f func())
	}{
		{"panic", func() { panic(errBoom) }, func(t *testing.T, f func()) {
			if e := panics(f); e != errBoom {
				t.Errorf("recovered %v", e)
			}
		}},
		{"Goexit", runtime.Goexit, func(t *testing.T, f func()) {
			if !goexits(f) {
				t.Error("returned")
			}
		}},
	} {
		stop := how.stop
		at := func(want string) func(string) {
			return func(got string) {
				if got == want {
					stop()
				}
			}
		}
		for name, c := range map[string]struct {
			in     func(r *rig, b *fake)
			act    func(r *rig, req *http.Request)
			want   Outcome
			ends   int
			closes int // of the response's body
			body   int // of the request's; -1 is at least 1
		}{
			"Begin of the first": {in: func(r *rig, _ *fake) {
				r.begin = func(l string, _ *Exchange) error { at("watch")(l); return nil }
			}, want: Outcome{Fault: errAny, Panicked: true}, body: 1},
			"Begin of the last": {in: func(r *rig, _ *fake) {
				r.begin = func(l string, _ *Exchange) error { at("bound")(l); return nil }
			}, want: Outcome{Fault: errAny, Panicked: true}, ends: 3, body: 1},
			"the base": {in: func(r *rig, _ *fake) {
				r.RoundTripper = trip(func(*http.Request) (*http.Response, error) { stop(); return nil, nil })
				r.around(all...)
			}, want: Outcome{Fault: errAny, Panicked: true}, ends: 4},
			"Failed": {in: func(r *rig, _ *fake) {
				r.RoundTripper = trip(func(*http.Request) (*http.Response, error) { return nil, io.EOF })
				r.around(all...)
				r.failed = func(l string, _ *Exchange, err error) error { at("slot")(l); return err }
			}, want: Outcome{Fault: errAny, Panicked: true}, ends: 4},
			"Answered": {in: func(r *rig, _ *fake) {
				r.answered = func(l string, _ *Exchange, _ *http.Response) { at("slot")(l) }
			}, want: Outcome{Fault: errAny, Panicked: true}, ends: 4, closes: 1},
			"the inner Read": {in: func(_ *rig, b *fake) {
				b.read = func([]byte) (int, error) { stop(); return 0, nil }
			}, want: Outcome{Fault: errAny, Panicked: true}, ends: 4},
			"the inner Close": {in: func(_ *rig, b *fake) {
				b.close = func() error { stop(); return nil }
			}, act: func(r *rig, req *http.Request) {
				resp, _ := r.RoundTrip(req)
				resp.Body.Close()
			}, ends: 4, closes: 1},
			"End in Read": {in: func(r *rig, _ *fake) {
				r.end = func(l string, _ *Exchange, _ Outcome) { at("slot")(l) }
			}, ends: 4},
			"End in Close": {in: func(r *rig, _ *fake) {
				r.end = func(l string, _ *Exchange, _ Outcome) { at("bound")(l) }
			}, act: func(r *rig, req *http.Request) {
				resp, _ := r.RoundTrip(req)
				resp.Body.Close()
			}, ends: 4, closes: 1},
			"End in RoundTrip": {in: func(r *rig, _ *fake) {
				r.RoundTripper = trip(func(*http.Request) (*http.Response, error) { return nil, io.EOF })
				r.around(all...)
				r.end = func(l string, _ *Exchange, _ Outcome) { at("watch")(l) }
			}, want: Outcome{Fault: io.EOF}, ends: 4},
			"End of a refusal": {in: func(r *rig, _ *fake) {
				r.begin = func(l string, _ *Exchange) error { return map[string]error{"slot": io.EOF}[l] }
				r.end = func(l string, _ *Exchange, _ Outcome) { at("permit")(l) }
			}, want: Outcome{Fault: io.EOF}, ends: 2, body: -1},
		} {
			bubble(t, name+"/"+how.name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				b, sent := text("abc"), text("")
				r := newRig(t, answer(b))
				c.in(r, b)
				act := c.act
				if act == nil {
					act = func(r *rig, req *http.Request) {
						resp, err := r.RoundTrip(req)
						if err == nil {
							io.Copy(io.Discard, resp.Body)
						}
					}
				}
				req := request(ctx, sent)
				how.seen(t, func() { act(r, req) })
				if c.ends > 0 {
					r.ended(c.want)
					if got := len(r.last().ended); got != c.ends {
						t.Errorf("%d ends, want %d", got, c.ends)
					}
				}
				if b.count() != c.closes || sent.count() != c.body && (c.body >= 0 || sent.count() == 0) {
					t.Errorf("the response's body was closed %d times, the request's %d", b.count(), sent.count())
				}
				cancel()
				synctest.Wait()
				r.settled()
			})
		}
	}
}

// The exchange of a call that does not return may have been interrupted before.
func TestPanicAfterInterruption(t *testing.T) {
	bubble(t, "in the base", func(t *testing.T) {
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			panic(errBoom)
		}))
		r.total = 1
		panics(func() { r.RoundTrip(request(t.Context())) })
		r.ended(Outcome{Fault: errBound, By: Bound, Panicked: true})
	})
	bubble(t, "after the caller has gone", func(t *testing.T) { // which is no excuse
		ctx, cancel := context.WithCancel(t.Context())
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			cancel()
			panic(errBoom)
		}), "watch", "permit")
		panics(func() { r.RoundTrip(request(late(ctx, 1))) })
		r.ended(Outcome{Fault: errAny, Panicked: true})
		if errors.Is(r.last().how[0].Fault, context.Canceled) {
			t.Error("the caller is blamed")
		}
	})
}

// A Read that panics although the exchange was interrupted has panicked for the outer one of two exchanges, too.
func TestPanicInInner(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := newFake(nil)
		b.read = func([]byte) (int, error) { <-b.closed; panic(errBoom) }
		inner := newRig(t, answer(b))
		outer := newRig(t, trip(inner.RoundTrip))
		outer.total = time.Second
		resp, _ := outer.RoundTrip(request(t.Context()))
		if e := panics(func() { resp.Body.Read(nil) }); e != errBoom {
			t.Error(e)
		}
		outer.ended(Outcome{Fault: errBound, By: Bound, Panicked: true})
		inner.settled()
	})
}

// Nobody can catch what panics in the goroutine of a timer or of a context.
func TestPanicInInterrupt(t *testing.T) {
	for name, in := range map[string]func(r *rig, b *fake){
		"End": func(r *rig, _ *fake) {
			r.end = func(layer string, _ *Exchange, _ Outcome) {
				if layer == "slot" {
					panic(errBoom)
				}
			}
		},
		"Close": func(_ *rig, b *fake) { b.close = func() error { panic(errBoom) } },
	} {
		bubble(t, name, func(t *testing.T) {
			b := text("")
			r := newRig(t, answer(b))
			in(r, b)
			r.RoundTrip(request(t.Context()))
			if e := panics(func() { r.interrupt(Bound) }); e != nil {
				t.Error(e)
			}
			r.settled()
		})
	}
	bubble(t, "Goexit in Close", func(t *testing.T) {
		b := text("")
		b.close = func() error { runtime.Goexit(); return nil }
		r := newRig(t, answer(b))
		r.RoundTrip(request(t.Context()))
		go r.interrupt(Bound)
		synctest.Wait()
		r.settled()
	})
}
