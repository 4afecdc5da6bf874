package resilient_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// RE-1 to RE-4: only what is safe is repeated, few times, after pauses that grow and are jittered, within a short time.
func TestRule_RE1_RE2_RE3_RE4(t *testing.T) {
	never := trips(1<<20, resilient.Config{}) // a breaker that stays closed
	three := never
	three.Retry.MaxAttempts = 3
	requests := func(r *rig, want int, of string) {
		r.Helper()
		if n := r.server.Stats().ByPath["/"+of]; n != want {
			r.Errorf("%s: %d requests, want %d", of, n, want)
		}
	}
	send := func(r *rig, method, of string, header ...string) error {
		req := r.request(r.Context(), method, nil)
		req.URL.Path = "/" + of
		for _, h := range header {
			req.Header.Set(h, "order-1")
		}
		resp, err := r.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}

	t.Run("off unless asked for", func(t *testing.T) {
		inBoth(t, setting{cfg: never, server: testserver.Options{Handler: testserver.Status(503)}}, func(r *rig) {
			send(r, "GET", "get")
			requests(r, 1, "get")
		})
	})
	t.Run("what is safe", func(t *testing.T) {
		dial := atomic.Pointer[testserver.Server]{} // nil: nobody is there
		through := resilient.WithDialContext(func(ctx context.Context, network, addr string) (net.Conn, error) {
			if server := dial.Load(); server != nil {
				return server.Dial(ctx, network, addr)
			}
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
		})
		inOne(t, setting{cfg: retries(3, never), opts: []resilient.Option{through}}, func(r *rig) {
			time.AfterFunc(time.Nanosecond, func() { dial.Store(r.server) })
			if err := send(r, "POST", "never-left"); err != nil {
				r.Errorf("a POST of which nothing had left: %v", err)
			}
			r.server.Default(testserver.Status(503))
			for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE"} {
				send(r, method, method)
				requests(r, 3, method)
			}
			for _, method := range []string{"POST", "PATCH", "PUT", "DELETE"} { // of PUT and DELETE somebody has to vouch for the system
				send(r, method, method)
				requests(r, 1, method)
			}
			send(r, "POST", "keyed", "Idempotency-Key")
			requests(r, 3, "keyed")
			r.server.Default(testserver.Status(400))
			send(r, "GET", "fault")
			requests(r, 1, "fault")
			r.ForceOpen(0)
			r.is(send(r, "GET", "refused"), resilient.ErrCircuitOpen)
			requests(r, 0, "refused")
			if m := r.metrics(); m["requests_total refused_open"] != 1 {
				r.Errorf("a refusal is repeated: %v", m["requests_total refused_open"])
			}
		})
	})
	t.Run("few", func(t *testing.T) {
		refused(t, resilient.Config{Retry: resilient.RetryConfig{MaxAttempts: 6}}, "Retry.MaxAttempts")
		inBoth(t, setting{cfg: three, server: testserver.Options{Handler: testserver.Status(503)}}, func(r *rig) {
			send(r, "GET", "one")
			requests(r, 3, "one")
			for range 100 { // a tenth of the calls, and 3
				send(r, "GET", "many")
			}
			if n := r.server.Stats().Requests; n > 101+10+3 || n < 101+10 {
				r.Errorf("%d requests for 101 calls of a system that is down", n)
			}
		})
		opens := trips(2, retries(5, resilient.Config{}))
		inBoth(t, setting{cfg: opens, server: testserver.Options{Handler: testserver.Status(503)}}, func(r *rig) {
			send(r, "GET", "opens")
			requests(r, 2, "opens") // the breaker's opening ends it
		})
	})
	t.Run("growing, jittered", func(t *testing.T) {
		inOne(t, setting{cfg: retries(5, never)}, func(r *rig) {
			var last time.Time
			var pauses [5]map[time.Duration]bool // before the second attempt, before the third …
			n := 0
			r.server.Default(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if n > 0 {
					pauses[n][time.Since(last)] = true
				}
				last, n = time.Now(), n+1
				w.WriteHeader(503)
			}))
			for i := range pauses {
				pauses[i] = map[time.Duration]bool{}
			}
			for range 100 {
				send(r, "GET", "paused")
				n = 0
				time.Sleep(11 * time.Second) // the window of the budget
			}
			for i, longest := range []time.Duration{1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 3: 400 * time.Millisecond, 4: 800 * time.Millisecond} {
				above := 0
				for d := range pauses[i] {
					if d <= 0 || d > longest {
						r.Errorf("a pause of %v before attempt %d, at most %v", d, i+1, longest)
					}
					if d > longest/2 {
						above++
					}
				}
				if i > 0 && (above == 0 || len(pauses[i]) < 90) {
					r.Errorf("before attempt %d: %d different pauses, %d in the longer half", i+1, len(pauses[i]), above)
				}
			}
		})
	})
	t.Run("short", func(t *testing.T) {
		refused(t, resilient.Config{Retry: resilient.RetryConfig{MaxElapsed: 5*time.Second + 1}}, "Retry.MaxElapsed")
		slow := testserver.After(2*time.Second, testserver.Status(503))
		inBoth(t, setting{cfg: retries(5, never), server: testserver.Options{Handler: slow}}, func(r *rig) {
			if d := took(func() { send(r, "GET", "slow") }); d >= 7*time.Second {
				r.Errorf("attempts began for %v", d-2*time.Second)
			}
			requests(r, 3, "slow")
			r.server.Default(testserver.Status(503, "Retry-After", "2"))
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			defer cancel()
			if d := took(func() {
				if body, err := r.get(ctx); !strings.Contains(body, "Unavailable") || err != nil {
					r.Errorf("the answer is not the caller's: %q, %v", body, err)
				}
			}); d != 0 {
				r.Errorf("the caller's last second is waited away: %v", d)
			}
		})
	})
}
