package exchange_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A body that HTTP/2 says is empty may still lack its end.
func TestOpenEmptyBodyOverHTTP2(t *testing.T) {
	t.Skip("open: an HTTP/2 body is taken for ended by its declared length or status, though its END_STREAM or trailers are still to come: roundtrip.go:173-182")
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
				if want := name == "trailers"; want != (resp.Trailer.Get("T") == "v") && s.protocol == testserver.HTTP2 {
					t.Errorf("%T: trailer %v", r, resp.Trailer)
				}
				resp.Body.Close()
			}
		})
	}
}

type conn struct{ *fake }

func (conn) Write(p []byte) (int, error) { return len(p), nil }

// An upgrade is given back in two parts: the handshake's by RoundTrip, and by
// then its owner may already be at the whole. Each End must run once, and the
// handshake's Ends must not see an outcome that is being written.
func TestOpenOwnerDuringHandshake(t *testing.T) {
	t.Skip("open: the two giveBacks of an upgrade race: exchange.go:203, roundtrip.go:151")
	for range 3000 {
		var wg sync.WaitGroup
		b := conn{text("")}
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			return reply(req, http.StatusSwitchingProtocols, b), nil
		}))
		r.answered = func(layer string, x *Exchange, _ *http.Response) {
			if layer == "watch" { // the last one
				wg.Go(func() {
					for range rand.IntN(200) {
						runtime.Gosched()
					}
					x.Interrupt(Owner, errOwner, context.Canceled)
				})
			}
		}
		resp, err := r.RoundTrip(request(t.Context()))
		wg.Wait()
		if err == nil {
			resp.Body.Close()
		}
		r.settled()
	}
}

// The Ends that run after the handshake must see that it was one.
func TestOpenUpgradedAtHandshake(t *testing.T) {
	t.Skip("open: Outcome.Upgraded is set by the second part of the end alone: exchange.go:170")
	r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
		return reply(req, http.StatusSwitchingProtocols, conn{text("")}), nil
	}))
	r.end = func(layer string, x *Exchange) {
		if !x.Upgraded {
			t.Errorf("%s is not told", layer)
		}
	}
	resp, err := r.RoundTrip(request(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	r.settled()
}

// The owner interrupts an exchange while its caller's context ends in Begin.
func TestOpenOwnerDuringBegin(t *testing.T) {
	t.Skip("open: begin notes the caller's end without the mutex and over an earlier interruption: roundtrip.go:72")
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
	t.Skip("open: a panicking End in the goroutine of a timer ends the process: exchange.go:125")
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
	t.Skip("open: a Goexit in the inner Close keeps the exchange from ending: exchange.go:120-126")
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
	t.Skip("open: a body closed first counts as cancelled when a Read returns after the caller's context has ended too: exchange.go:151")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newFake(nil)
		b.read = func([]byte) (int, error) { <-b.closed; cancel(); return 0, errBoom }
		b.close = func() error { time.Sleep(time.Second); return nil }
		r := newRig(t, answer(b), "watch", "permit")
		resp, _ := r.RoundTrip(request(ctx))
		closing := make(chan struct{})
		go func() { defer close(closing); resp.Body.Close() }()
		resp.Body.Read(make([]byte, 1))
		<-closing
		r.ended(Outcome{})
	})
}

// An answer without a body that came too late.
func TestOpenLateAnswerWithoutBody(t *testing.T) {
	t.Skip("open: the body of a late 204 is dropped unclosed: roundtrip.go:138")
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
	t.Skip("open: an outer exchange ends with the inner one that it closes itself, in the middle of a Read: exchange.go:218-229")
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
	})
}

// Cancelled, then closed, one after the other.
func TestOpenCancelThenClose(t *testing.T) {
	t.Skip("open: a context that ended before Close is noticed or not, by chance: body.go:66")
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
}
