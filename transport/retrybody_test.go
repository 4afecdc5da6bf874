package transport_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// bodies makes the bodies of a request that can be had again, and counts their closes.
type bodies struct {
	made, closed, twice atomic.Int64
}

type onceBody struct {
	io.Reader
	of     *bodies
	closed atomic.Bool
}

func (b *onceBody) Close() error {
	if b.closed.Swap(true) {
		b.of.twice.Add(1)
		return nil
	}
	b.of.closed.Add(1)
	return nil
}

func (b *bodies) body() (io.ReadCloser, error) {
	b.made.Add(1)
	return &onceBody{Reader: strings.NewReader("pay"), of: b}, nil
}

// request is a PUT with a key.
func (b *bodies) request(r *rig, ctx context.Context) *http.Request {
	r.Helper()
	req := r.request(ctx, "PUT", nil)
	req.Header.Set("Idempotency-Key", "1")
	req.Body, _ = b.body()
	req.GetBody, req.ContentLength = b.body, 3
	return req
}

// check checks that n were made, and each closed once.
func (b *bodies) check(t testing.TB, n int64) {
	t.Helper()
	if b.made.Load() != n || b.closed.Load() != n || b.twice.Load() != 0 {
		t.Errorf("%d bodies made, %d closed, %d twice; want %d", b.made.Load(), b.closed.Load(), b.twice.Load(), n)
	}
}

// An answerBody is a response body that counts how often it was closed, and read to its end.
type answerBody struct {
	left           int
	pace           time.Duration // of a Read
	shut           chan struct{}
	closes, ends   atomic.Int64
	broken, panics bool
}

func (b *answerBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(b.pace):
	case <-b.shut:
		return 0, http.ErrBodyReadAfterClose
	}
	switch {
	case b.panics:
		panic("boom")
	case b.left == 0 && b.broken:
		return 0, io.ErrUnexpectedEOF
	case b.left == 0:
		b.ends.Add(1)
		return 0, io.EOF
	}
	n := min(len(p), b.left, 1000)
	b.left -= n
	return n, nil
}

func (b *answerBody) Close() error {
	if b.closes.Add(1) == 1 {
		close(b.shut)
	}
	return nil
}

// Whatever the attempts end with: each answer but the one that the caller gets is
// closed when RoundTrip returns, that one is open and unread, and each request
// body was closed once.
func TestRetryConservesBodies(t *testing.T) {
	type step struct {
		Fail string
		Size int
		Pace time.Duration
	}
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				rapid.SampledFrom([]string{"ok", "503", "503", "503 broken", "error", "full", "panic", "goexit", "503 panics"}).Draw(rt, "fail"),
				rapid.SampledFrom([]int{0, 1, 4096, 4097, 100000}).Draw(rt, "size"),
				rapid.SampledFrom([]time.Duration{0, 1, 20 * ms, time.Hour}).Draw(rt, "pace"),
			}
		}), 5, 5).Draw(rt, "steps")
		p := attempts(rapid.IntRange(2, 5).Draw(rt, "attempts"))
		p.BudgetFloor, p.BudgetWindow = rapid.IntRange(0, 5).Draw(rt, "floor"), time.Hour
		again := rapid.IntRange(0, 5).Draw(rt, "bodies that can be had again")
		bad := rapid.SampledFrom([]string{"error", "panic", "goexit"}).Draw(rt, "and then")
		part := rapid.Int64Range(1, 100).Draw(rt, "hundredths of the longest pause")
		gone := time.Duration(rapid.IntRange(0, 2000).Draw(rt, "ms to the caller's end")) * ms
		wrong := ""
		synctest.Test(t, func(t *testing.T) {
			var answers []*answerBody
			requests := &bodies{}
			base := fake(func(req *http.Request) (*http.Response, error) {
				defer req.Body.Close()
				s := steps[len(answers)]
				b := &answerBody{left: s.Size, pace: s.Pace, shut: make(chan struct{}), broken: strings.HasSuffix(s.Fail, "broken"), panics: strings.HasSuffix(s.Fail, "panics")}
				answers = append(answers, b)
				time.Sleep(10 * ms)
				switch s.Fail {
				case "error":
					b.closes.Add(1) // there is none
					return nil, errDown
				case "full":
					b.closes.Add(1)
					return nil, &semaphore.FullError{System: "sber"}
				case "panic":
					b.closes.Add(1)
					panic("boom")
				case "goexit":
					b.closes.Add(1)
					runtime.Goexit()
				case "ok":
					return response(req, 200, b), nil
				}
				return response(req, 503, b), nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), gone)
			defer cancel()
			req := newRequest(t, ctx, "PUT", "http://sber.test/", nil)
			req.Header.Set("Idempotency-Key", "1")
			req.Body, _ = requests.body()
			req.GetBody = func() (io.ReadCloser, error) {
				if again--; again >= 0 {
					return requests.body()
				}
				switch bad {
				case "panic":
					panic("boom")
				case "goexit":
					runtime.Goexit()
				}
				return nil, errMine
			}
			if ctx.Err() != nil {
				return
			}
			var resp *http.Response
			var err error
			retry := transport.NewRetry("sber", p)
			retry.SetJitter(func(most time.Duration) time.Duration { return most * time.Duration(part) / 100 })
			swallow(func() { resp, err = retry.Wrap(base).RoundTrip(req) })
			synctest.Wait()
			for i, b := range answers {
				mine := resp != nil && resp.Body == b
				if mine != (b.closes.Load() == 0) || mine && (b.ends.Load() != 0 || b.left != steps[i].Size) {
					wrong = fmt.Sprintf("answer %d closed %d times, %d left; the caller has it: %v; %v", i+1, b.closes.Load(), b.left, mine, err)
				}
			}
			if n := requests.made.Load(); requests.closed.Load() != n || requests.twice.Load() != 0 {
				wrong = fmt.Sprintf("of %d request bodies %d closed, %d twice", n, requests.closed.Load(), requests.twice.Load())
			}
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}
