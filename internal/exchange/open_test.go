package exchange_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
)

// A body that HTTP/2 says is empty may still lack its end.
func TestOpenEmptyBodyOverHTTP2(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"ContentLength 0": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "0")
			w.(http.Flusher).Flush()
			time.Sleep(time.Second)
		},
		"204": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			w.(http.Flusher).Flush()
			time.Sleep(time.Second)
		},
		"trailers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "T")
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusOK)
			w.Header().Set("T", "v")
		},
	} {
		both(t, name, h, func(t *testing.T, s *system) {
			for _, r := range []http.RoundTripper{s.base, newRig(t, s.base)} {
				resp, err := r.RoundTrip(s.request(t.Context()))
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Errorf("%T: %q, %v", r, b, err)
				}
				t.Logf("%T %T trailer %v", r, resp.Body, resp.Trailer)
				resp.Body.Close()
			}
		})
	}
}

type conn struct{ *fake }

func (conn) Write(p []byte) (int, error) { return len(p), nil }

// The owner closes an upgrade while its handshake's part is being given back.
func TestOpenOwnerDuringHandshake(t *testing.T) {
	for range 2000 {
		b := conn{text("")}
		var wg sync.WaitGroup
		r := newRig(t, nil)
		r.RoundTripper = trip(func(req *http.Request) (*http.Response, error) { return reply(req, 101, b), nil })
		r.around(all...)
		r.answered = func(layer string, x *Exchange, _ *http.Response) {
			if layer == "watch" {
				go x.Interrupt(Owner, errOwner, context.Canceled)
			}
		}
		resp, err := r.RoundTrip(request(t.Context()))
		if err == nil {
			resp.Body.Close()
		}
		wg.Wait()
	}
}

func TestOpenOwnerDuringHandshakeExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := conn{text("")}
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) { return reply(req, 101, b), nil }))
		r.end = func(layer string, x *Exchange) {
			if layer == "bound" {
				done := make(chan bool)
				go func() { r.interrupt(Owner); close(done) }()
				<-done
			}
		}
		resp, err := r.RoundTrip(request(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		r.settled()
	})
}

// The owner interrupts an exchange while its caller's context ends in Begin.
func TestOpenOwnerDuringBegin(t *testing.T) {
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		r := newRig(t, answer(text("")))
		r.begin = func(layer string, x *Exchange) error {
			if layer == "permit" {
				wg.Go(func() { r.interrupt(Owner) })
				cancel()
				return ctx.Err()
			}
			return nil
		}
		r.RoundTrip(request(ctx))
		wg.Wait()
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := newRig(t, answer(text("")))
		r.begin = func(layer string, x *Exchange) error {
			if layer == "permit" {
				r.interrupt(Owner)
				cancel()
				return ctx.Err()
			}
			return nil
		}
		_, err := r.RoundTrip(request(ctx))
		if err != errOwner {
			t.Error(err)
		}
		r.ended(Outcome{Fault: errOwner, By: Owner, Refused: true})
	})
}

// An End that panics in a goroutine that is nobody's.
func TestOpenEndPanicsInInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, answer(text("")))
		r.end = func(layer string, x *Exchange) {
			if layer == "slot" {
				panic(errBoom)
			}
		}
		r.RoundTrip(request(t.Context()))
		if e := panics(func() { r.interrupt(Bound) }); e != nil {
			t.Error(e)
		}
		r.settled()
	})
}

func TestOpenCloseGoexitsInInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := text("")
		b.close = func() error { runtime.Goexit(); return nil }
		r := newRig(t, answer(b))
		r.RoundTrip(request(t.Context()))
		go r.interrupt(Bound)
		synctest.Wait()
		r.settled()
	})
}

// Closed first, then the context ended, then the Read that Close broke off returned.
func TestOpenClosedThenCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newFake(nil)
		b.read = func([]byte) (int, error) { <-b.closed; cancel(); return 0, errBoom }
		b.close = func() error { time.Sleep(time.Second); return nil }
		r := newRig(t, answer(b), "watch", "permit")
		resp, _ := r.RoundTrip(request(ctx))
		go func() { time.Sleep(time.Second); resp.Body.Close() }()
		n, err := resp.Body.Read(make([]byte, 1))
		t.Log(n, err)
		synctest.Wait()
		r.ended(Outcome{})
	})
}

// An answer without a body that came too late.
func TestOpenLateAnswerWithoutBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := text("")
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			time.Sleep(2 * time.Second)
			return reply(req, 204, b), nil
		}))
		r.total = time.Second
		resp, err := r.RoundTrip(request(t.Context()))
		if resp != nil || err != errBound {
			t.Error(resp, err)
		}
		if b.count() != 1 {
			t.Error("body not closed")
		}
		r.settled()
	})
}

// An outer exchange is interrupted in a Read: it must not end before that has returned.
func TestOpenOuterEndsInRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFake(nil)
		b.read = func([]byte) (int, error) { <-b.closed; time.Sleep(time.Second); return 0, errBoom }
		inner := newRig(t, answer(b), "permit")
		outer := newRig(t, trip(inner.RoundTrip))
		outer.total = time.Second
		resp, err := outer.RoundTrip(request(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(1500 * time.Millisecond)
			outer.held(4)
			inner.held(1)
		}()
		_, err = resp.Body.Read(make([]byte, 1))
		if err != errBound {
			t.Error(err)
		}
		outer.settled()
		inner.settled()
		t.Logf("%+v", inner.last().how)
	})
}

// Cancelled, then closed, one after the other.
func TestOpenCancelThenClose(t *testing.T) {
	how := map[string]int{}
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			r := newRig(t, answer(stuck(ctx, 1)))
			resp, _ := r.RoundTrip(request(ctx))
			cancel()
			resp.Body.Close()
			synctest.Wait()
			r.settled()
			how[map[bool]string{true: "cancelled", false: "closed"}[errors.Is(r.last().how.Fault, context.Canceled)]]++
		})
	}
	if len(how) != 1 {
		t.Error(how)
	}
	t.Log(how)
}
