package transport_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// A caller that goes in the pause is told so at once, with its cause; its next
// body and the last answer are closed, and no permit is held meanwhile.
func TestRetryCancelledInThePause(t *testing.T) {
	for name, row := range map[string]struct {
		cause error
		want  []error
	}{
		"cancel":            {nil, []error{context.Canceled}},
		"cause":             {errMine, []error{context.Canceled, errMine}},
		"another's refusal": {&transport.OpenError{System: "other"}, []error{context.Canceled, transport.ErrCircuitOpen}},
	} {
		for answer, fail := range map[string]http.Handler{
			"503": testserver.Status(503), "abort": testserver.Abort(), "stalls": dripping(503, time.Hour), "trickles": dripping(503, ms), "empty": empty(503),
		} {
			t.Run(name+" "+answer, func(t *testing.T) {
				inBoth(t, calm, func(r *rig) {
					ctx, cancel := context.WithCancelCause(r.Context())
					time.AfterFunc(70*ms, func() { r.held(0); cancel(row.cause) })
					r.server.Next(fail)
					bodies := &bodies{}
					retry := newRetry(attempts(3))
					told := eventsOf(retry)
					var resp *http.Response
					var err error
					d := took(func() { resp, err = retry.Wrap(r.all()).RoundTrip(bodies.request(r, ctx)) })
					for _, want := range row.want {
						if !errors.Is(err, want) {
							r.Errorf("%v is not %v", err, want)
						}
					}
					if resp != nil || d != 70*ms || transport.NotSent(err) || told.String() != "2 cancelled 70ms" || r.server.Stats().Requests != 1 {
						r.Errorf("%v after %v: %v; %v", resp, d, err, told)
					}
					r.held(0)
					bodies.check(r, 2)
				})
			})
		}
	}
}

// dripping answers code, and then a byte each interval.
func dripping(code int, every time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.WriteHeader(code)
		testserver.Trickle(1, every, -1).ServeHTTP(w, req)
	})
}

// empty answers code, and declares that there is no body.
func empty(code int, header ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(code)
	})
}

// The pause is a random part of the longest, which doubles between the bounds.
func TestRetryPauses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := rapid.OneOf(rapid.Int64Range(-10, 1000), rapid.Int64())
		p := transport.RetryPolicy{BaseDelay: time.Duration(duration.Draw(t, "base")), MaxDelay: time.Duration(duration.Draw(t, "max"))}
		for n := 2; n < 70; n++ {
			d := transport.Ceiling(p, n)
			want := max(0, float64(p.BaseDelay)) * math.Pow(2, float64(n-2))
			if p.MaxDelay > 0 {
				want = min(want, float64(p.MaxDelay))
			}
			if want = min(want, float64(year)); float64(d) != want {
				t.Fatalf("before attempt %d: %v, want %v", n, d, time.Duration(want))
			}
			if j := transport.Jitter(d); d > 0 && (j <= 0 || j > d) || d <= 0 && j != 0 {
				t.Fatalf("%v of %v", j, d)
			}
		}
	})
	const most = 1000
	low, high := 0, 0
	for range 10000 {
		if transport.Jitter(most) <= most/10 {
			low++
		}
		if transport.Jitter(most) > most-most/10 {
			high++
		}
	}
	if low < 800 || low > 1200 || high < 800 || high > 1200 {
		t.Errorf("of 10000 pauses %d are in the first tenth, %d in the last", low, high)
	}
}

// Whenever the caller goes, nothing is sent afterwards.
func TestRetryNeverAfterTheCallersEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 200), 1, 8).Draw(rt, "ms that the attempts take")
		end := time.Duration(rapid.IntRange(0, 1500).Draw(rt, "ms to the end")) * ms
		byDeadline := rapid.Bool().Draw(rt, "by deadline")
		synctest.Test(t, func(t *testing.T) {
			begun, n := time.Now(), 0
			base := fake(func(req *http.Request) (*http.Response, error) {
				if at := time.Since(begun); n > 0 && (at > end || byDeadline && at == end) {
					t.Errorf("attempt %d at %v, the end was %v", n+1, at, end)
				}
				n++
				time.Sleep(time.Duration(steps[n%len(steps)]) * ms)
				return nil, errDown
			})
			ctx, cancel := context.WithCancel(t.Context())
			if byDeadline {
				ctx, cancel = context.WithTimeout(t.Context(), end)
			} else {
				time.AfterFunc(end, cancel)
			}
			defer cancel()
			p := attempts(5)
			p.MaxElapsed = 0
			_, err := transport.NewRetry("sber", p).Wrap(base).RoundTrip(newRequest(t, ctx, "GET", "http://sber.test/", nil))
			if !errors.Is(err, errDown) && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) {
				t.Errorf("%v at %v, the end was %v", err, time.Since(begun), end)
			}
		})
	})
}
