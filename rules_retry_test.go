package resilient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// requests checks how many of them f has the system get.
func (r *rig) requests(what string, want int, f func()) {
	r.Helper()
	before := r.server.Stats().Requests
	f()
	if got := r.server.Stats().Requests - before; got != want {
		r.Errorf("%s: %d requests, want %d", what, got, want)
	}
}

// RE-1: retried is only what is safe: what can be made twice without harm, or was not made at all, and what may pass.
func TestRule_RE1(t *testing.T) {
	inBoth(t, setting{server: testserver.Options{Handler: testserver.Status(503)}}, func(r *rig) {
		r.requests("unless asked for", 1, func() { r.get(r.Context()) })
	})
	for _, row := range []struct {
		what, method, key string
		putDelete         bool
		answer            http.Handler
		want              int
	}{
		{"a GET", "GET", "", false, testserver.Status(503), 2},
		{"an answer cut off", "GET", "", false, testserver.Abort(), 2},
		{"a POST, which may have been carried out", "POST", "", false, testserver.Status(503), 1},
		{"the same, cut off", "POST", "", false, testserver.Abort(), 1},
		{"a POST with a key", "POST", "order 17", false, testserver.Status(503), 2},
		{"a PUT", "PUT", "", false, testserver.Status(503), 1},
		{"a PUT, by choice", "PUT", "", true, testserver.Status(503), 2},
		{"what is the caller's mistake", "GET", "", false, testserver.Status(404), 1},
		{"a fault that will not pass", "GET", "", false, testserver.Status(500), 1},
	} {
		t.Run(row.what, func(t *testing.T) {
			cfg := retries(2, resilient.Config{})
			cfg.Retry.PutDelete = row.putDelete
			inBoth(t, setting{cfg: cfg, server: testserver.Options{Handler: testserver.Echo()}}, func(r *rig) {
				var body io.Reader
				if row.method != "GET" {
					body = strings.NewReader("17 roubles")
				}
				req := r.request(r.Context(), row.method, body)
				if row.key != "" {
					req.Header.Set("Idempotency-Key", row.key)
				}
				r.server.Next(row.answer)
				r.requests(row.what, row.want, func() {
					if row.want == 1 {
						if resp, err := r.Do(req); err == nil {
							resp.Body.Close()
						}
					} else if e := r.echo(req); e.Method != row.method || body != nil && e.Body != "17 roubles" || e.Header.Get("Idempotency-Key") != row.key {
						r.Errorf("repeated as another request: %+v", e)
					}
				})
			})
		})
	}
	// A POST that was not sent: of the two attempts the system sees the second.
	dials := 0
	var dial func(context.Context, string, string) (net.Conn, error)
	through := resilient.WithDialContext(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials++; dials == 1 {
			return nil, errors.New("no route")
		}
		return dial(ctx, network, addr)
	})
	inOne(t, setting{cfg: retries(2, resilient.Config{}), opts: []resilient.Option{through}, server: testserver.Options{Handler: testserver.Echo()}}, func(r *rig) {
		dial = r.server.Dial
		if e := r.echo(r.request(r.Context(), "POST", strings.NewReader("17 roubles"))); e.Body != "17 roubles" || dials != 2 {
			r.Errorf("%d dials: %+v", dials, e)
		}
	})
	// A refusal is final, and so is the end of whoever asked.
	inBoth(t, setting{cfg: retries(3, resilient.Config{})}, func(r *rig) {
		r.ForceOpen(0)
		r.requests("a refusal", 0, func() {
			if d := took(func() {
				_, err := r.get(r.Context())
				r.is(err, resilient.ErrCircuitOpen)
			}); d != 0 {
				r.Errorf("refused after %v", d)
			}
		})
		r.Automatic()
		r.server.Default(testserver.HangBeforeHeaders())
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		r.requests("a caller that has gone", 1, func() { r.get(ctx) })
	})
}

// RE-2: retries are few, for one call and for all of them.
func TestRule_RE2(t *testing.T) {
	if full, err := (resilient.Config{}).Complete(); full.Retry.MaxAttempts != 1 || full.Retry.BudgetRatio != 0.1 || full.Retry.BudgetFloor != 3 || err != nil {
		t.Errorf("%+v, %v", full.Retry, err)
	}
	refused(t, resilient.Config{Retry: resilient.RetryConfig{MaxAttempts: 6}}, "Retry.MaxAttempts")
	refused(t, resilient.Config{Retry: resilient.RetryConfig{BudgetRatio: 1.01}}, "Retry.BudgetRatio")
	refused(t, resilient.Config{Retry: resilient.RetryConfig{BudgetRatio: -1, BudgetFloor: -1}}, "Retry.BudgetRatio Retry.BudgetFloor") // no "without a budget"

	down := testserver.Options{Handler: testserver.Status(503)}
	inBoth(t, setting{cfg: retries(3, trips(10_000, resilient.Config{})), server: down}, func(r *rig) {
		r.requests("one call", 3, func() { r.get(r.Context()) })
	})
	cfg := trips(10_000, resilient.Config{})
	cfg.Retry = resilient.RetryConfig{MaxAttempts: 5, BaseDelay: time.Millisecond, MaxDelay: time.Millisecond} // so that all are within 10 s
	inBoth(t, setting{cfg: cfg, server: down}, func(r *rig) {
		r.requests("100 calls, a tenth of that, and three", 113, func() {
			for range 100 {
				if answer, err := r.get(r.Context()); answer != "Service Unavailable" || err != nil {
					r.Errorf("%q, %v in place of the system's answer", answer, err)
				}
			}
		})
		m := r.metrics()
		if spent, without := m["retry_attempts_total failure"], m["retry_budget_exhausted_total"]; spent != 13 || without == 0 {
			r.Errorf("%v attempts after the first, %v without budget", spent, without)
		}
	})
}

// RE-3: pauses grow and are random, and none is shorter than the system asks for.
func TestRule_RE3(t *testing.T) {
	var at []time.Time // of a call's attempts
	down := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		at = append(at, time.Now())
		w.WriteHeader(503)
	})
	cfg := retries(5, trips(10_000, resilient.Config{}))
	cfg.Retry.BaseDelay, cfg.Retry.MaxDelay = 100*time.Millisecond, 400*time.Millisecond
	inBoth(t, setting{cfg: cfg, server: testserver.Options{Handler: down}}, func(r *rig) {
		longest, different := [4]time.Duration{}, map[time.Duration]bool{}
		for range 60 {
			at = nil
			r.get(r.Context())
			for i := 1; i < len(at); i++ {
				pause := at[i].Sub(at[i-1])
				longest[i-1], different[pause] = max(longest[i-1], pause), true
			}
			time.Sleep(10 * time.Second) // for the budget
		}
		for i, most := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 400 * time.Millisecond} {
			if longest[i] > most || longest[i] < most*3/4 { // 60 at random: all below that once in 30 million
				r.Errorf("before attempt %d at most %v, want nearly %v", i+2, longest[i], most)
			}
		}
		if len(different) < 230 {
			r.Errorf("%d pauses of 240 are different", len(different))
		}

		at = nil
		r.server.Next(testserver.Status(503, "Retry-After", "3"), testserver.OK("ok"))
		if d := took(func() {
			if s, err := r.get(r.Context()); s != "ok" || err != nil {
				r.Errorf("%q, %v", s, err)
			}
		}); d <= 3*time.Second || d > 3100*time.Millisecond {
			r.Errorf("asked to wait for 3 s, came after %v", d)
		}
	})
}

// RE-4: retries are short: none begins more than 5 s after the first attempt, or too late for the caller, and a pause holds no permit.
func TestRule_RE4(t *testing.T) {
	refused(t, resilient.Config{Retry: resilient.RetryConfig{MaxElapsed: 5*time.Second + 1}}, "Retry.MaxElapsed")
	refused(t, resilient.Config{Retry: resilient.RetryConfig{MaxElapsed: -1}}, "Retry.MaxElapsed")
	ctx := func(r *rig, d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(r.Context(), d)
		r.Cleanup(cancel)
		return ctx
	}
	inBoth(t, setting{cfg: retries(5, resilient.Config{})}, func(r *rig) {
		r.server.Default(testserver.HangBeforeHeaders())
		r.requests("a silence of 5 s", 1, func() {
			_, err := r.get(r.Context())
			r.timeout(err, "read")
		})
		for _, row := range []struct {
			what, asked string
			ctx         context.Context
		}{
			{"asked for more than 5 s", "6", r.Context()},
			{"asked for more than the caller has", "3", ctx(r, 2*time.Second)},
		} {
			r.server.Default(testserver.Status(503, "Retry-After", row.asked))
			r.requests(row.what, 1, func() {
				if d := took(func() {
					if answer, err := r.get(row.ctx); answer != "Service Unavailable" || err != nil {
						r.Errorf("%s: %q, %v", row.what, answer, err)
					}
				}); d != 0 {
					r.Errorf("%s: answered after %v, want at once", row.what, d)
				}
			})
		}
	})
	inBoth(t, setting{cfg: retries(5, bounds(500*time.Millisecond, 2*time.Second, 6*time.Second, permits(1)))}, func(r *rig) {
		r.server.Default(testserver.HangBeforeHeaders())
		r.requests("silences of 2 s", 3, func() { // at 0, and before 2.1 s and 4.3 s
			if d := took(func() {
				_, err := r.get(r.Context())
				r.timeout(err, "read")
			}); d < 6*time.Second || d > 7*time.Second {
				r.Errorf("after %v, want 5 s and a silence at most", d)
			}
		})
		r.server.Default(testserver.Status(503, "Retry-After", "3"))
		done := make(chan struct{})
		go func() { defer close(done); r.get(r.Context()) }()
		time.Sleep(time.Second)
		r.held(0)
		<-done
	})
}
