package resilient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// retries is cfg with up to n attempts, and a budget that is out of the way.
func retries(n int, cfg resilient.Config) resilient.Config {
	cfg.Retry.MaxAttempts, cfg.Retry.BudgetRatio, cfg.Retry.BudgetFloor = n, 1, 100
	return cfg
}

// Each attempt is an exchange of its own, and the caller sees the last one's answer.
func TestRetry(t *testing.T) {
	inBoth(t, setting{cfg: retries(3, resilient.Config{})}, func(r *rig) {
		r.server.Next(testserver.Abort(), testserver.Status(503)) // on an idle connection net/http would repeat the first itself
		if s, err := r.get(r.Context()); s != "ok" || err != nil {
			r.Errorf("%q, %v", s, err)
		}
		r.outcomes(map[string]float64{"error_status": 1, "transport_error": 1, "success": 1})
		m := r.metrics()
		for name, want := range map[string]float64{
			"requests_started_total": 3, "retry_attempts_total success": 1, "retry_attempts_total failure": 1, "retry_attempts_total refused": 0,
			"retry_wait_seconds": 2, "retry_budget_exhausted_total": 0,
		} {
			if m[name] != want {
				r.Errorf("%s: %v, want %v", name, m[name], want)
			}
		}
	})
}

// Off by default; POST is not repeated; a 4xx is an answer.
func TestRetryIsCareful(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.server.Next(testserver.Status(503))
		_, _ = r.get(r.Context())
		if n := r.server.Stats().Requests; n != 1 {
			r.Errorf("%d requests, without being asked for more", n)
		}
	})
	inBoth(t, setting{cfg: retries(3, resilient.Config{})}, func(r *rig) {
		for i, method := range []string{"POST", "PATCH", "PUT", "DELETE"} {
			r.server.Next(testserver.Status(503))
			resp, err := r.Do(r.request(r.Context(), method, strings.NewReader("pay")))
			if err != nil {
				r.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 503 || err != nil || len(b) == 0 {
				r.Errorf("%d %q %v", resp.StatusCode, b, err)
			}
			if n := r.server.Stats().Requests; n != i+1 {
				r.Errorf("%s: %d requests", method, n)
			}
		}
		r.server.Next(testserver.Status(404))
		_, _ = r.get(r.Context())
		if n := r.server.Stats().Requests; n != 5 {
			r.Errorf("%d requests", n)
		}
	})
}

// No permit is held during a pause.
func TestRetryPausesWithoutAPermit(t *testing.T) {
	cfg := retries(2, permits(1))
	cfg.Retry.BaseDelay, cfg.Retry.MaxDelay, cfg.Retry.MaxRetryAfter = time.Millisecond, time.Millisecond, 10*time.Second
	inBoth(t, setting{cfg: cfg}, func(r *rig) {
		r.server.Next(testserver.Status(503, "Retry-After", "3"))
		done := make(chan error, 1)
		go func() { _, err := r.get(r.Context()); done <- err }()
		time.Sleep(time.Second)
		synctest.Wait()
		r.held(0)
		if s, err := r.get(r.Context()); s != "ok" || err != nil {
			r.Errorf("beside the pause: %q, %v", s, err)
		}
		if d := took(func() {
			if err := <-done; err != nil {
				r.Error(err)
			}
		}); d < 2*time.Second || d > 2*time.Second+time.Millisecond {
			r.Errorf("after %v more", d)
		}
	})
}

// Within Execute attempts share its total, and take its permit in turn.
func TestRetryWithinExecute(t *testing.T) {
	cfg := retries(5, permits(1))
	cfg.Retry.BaseDelay, cfg.Retry.MaxDelay = time.Second, time.Second
	inBoth(t, setting{cfg: cfg}, func(r *rig) {
		r.server.Next(testserver.Status(503), testserver.Status(502))
		if _, err := resilient.Execute(r.Context(), r.Client, func(ctx context.Context) (int, error) {
			s, err := r.get(ctx)
			if s != "ok" {
				r.Errorf("%q", s)
			}
			r.inside(1, 0, 1)
			return 0, err
		}); err != nil {
			r.Error(err)
		}
		r.held(0)
		r.outcomes(map[string]float64{"error_status": 2, "success": 1})

		r.server.Default(testserver.After(900*time.Millisecond, testserver.Status(503)))
		var err error
		if d := took(func() {
			_, err = resilient.Call[int]{Total: 2 * time.Second}.Do(r.Context(), r.Client, func(ctx context.Context) (int, error) {
				resp, err := r.Do(r.request(ctx, "GET", nil))
				if err == nil {
					resp.Body.Close()
				}
				return 0, err
			})
		}); d > 2*time.Second {
			r.Errorf("after %v: %v", d, err)
		}
	})
}

// The end of the client ends pauses at once: the caller gets the answer that it
// has, or is told that one was given up.
func TestRetryAndClose(t *testing.T) {
	cfg := retries(2, resilient.Config{})
	cfg.Retry.MaxRetryAfter = 10 * time.Second
	for name, answer := range map[string]http.Handler{
		"with a body": testserver.Status(503, "Retry-After", "4"), "broken off": testserver.Abort(),
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg
			if name == "broken off" {
				cfg.Retry.BaseDelay, cfg.Retry.MaxDelay = 5*time.Second, 5*time.Second
			}
			inBoth(t, setting{cfg: cfg}, func(r *rig) {
				r.server.Next(answer)
				done := make(chan error, 1)
				go func() { _, err := r.get(r.Context()); done <- err }()
				synctest.Wait()
				start := time.Now()
				r.Close()
				err := <-done
				if d := time.Since(start); d != 0 {
					r.Errorf("after %v", d)
				}
				var gaveUp *resilient.RetryError
				if name == "with a body" && (!errors.As(err, &gaveUp) || gaveUp.Status != 503 || !errors.Is(err, resilient.ErrClosed) || resilient.NotSent(err)) {
					r.Errorf("%v", err)
				}
				if name == "broken off" && (err == nil || errors.Is(err, resilient.ErrUnavailable)) {
					r.Errorf("%v", err)
				}
			})
		})
	}
}

// By choice the system's Retry-After pauses the whole client.
func TestRetryGate(t *testing.T) {
	cfg := resilient.Config{Retry: resilient.RetryConfig{Gate: true}}
	inBoth(t, setting{cfg: cfg}, func(r *rig) {
		r.server.Next(testserver.Status(429, "Retry-After", "5"))
		_, _ = r.get(r.Context())
		time.Sleep(time.Second)
		_, err := r.get(r.Context())
		var paused *resilient.PausedError
		if !errors.As(err, &paused) || !errors.Is(err, resilient.ErrUnavailable) || !resilient.NotSent(err) || paused.RetryAfter < 4*time.Second {
			r.Fatal(err)
		}
		if code, after, ok := resilient.StatusCode(err); code != 503 || after != (paused.RetryAfter+time.Second-1).Truncate(time.Second) || !ok {
			r.Error(code, after, ok)
		}
		if n := r.server.Stats().Requests; n != 1 || r.metrics()["retry_refusals_total paused"] != 1 {
			r.Errorf("%d requests, %v", n, r.metrics()["retry_refusals_total paused"])
		}
		time.Sleep(paused.RetryAfter)
		if s, err := r.get(r.Context()); s != "ok" {
			r.Error(s, err)
		}
	})
}

// By choice the system is told how much time is left, and a call with too little is refused.
func TestRetryDeadline(t *testing.T) {
	cfg := resilient.Config{Retry: resilient.RetryConfig{DeadlineHeader: "X-Deadline-Ms", DeadlineFloor: 100 * time.Millisecond}}
	inBoth(t, setting{cfg: cfg, server: testserver.Options{Handler: testserver.Echo()}}, func(r *rig) {
		ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
		defer cancel()
		if e := r.echo(r.request(ctx, "GET", nil)); e.Header.Get("X-Deadline-Ms") != "3000" {
			r.Errorf("%v", e.Header)
		}
		time.Sleep(2950 * time.Millisecond)
		_, err := r.get(ctx)
		var late *resilient.LateError
		if !errors.As(err, &late) || !resilient.NotSent(err) || !errors.Is(err, context.DeadlineExceeded) || late.Left != 50*time.Millisecond {
			r.Error(err)
		}
		if code, _, ok := resilient.StatusCode(err); code != 504 || !ok {
			r.Error(code, ok)
		}
		if v := r.metrics()["retry_refusals_total late"]; v != 1 {
			r.Error(v)
		}
	})
}

// Each attempt after the first is told of at level Debug, with its number.
func TestRetryLogs(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	inOne(t, setting{cfg: retries(2, resilient.Config{}), opts: []resilient.Option{resilient.WithLogger(logger)}}, func(r *rig) {
		r.server.Next(testserver.Status(503))
		_, _ = r.get(r.Context())
	})
	if s := log.String(); !strings.Contains(s, `msg="retry success" system=sber attempt=2 wait=`) || strings.Count(s, "retry") != 1 {
		t.Error(s)
	}
}

// What is below the client knows which attempt it sees.
func TestAttempt(t *testing.T) {
	inBoth(t, setting{cfg: retries(3, resilient.Config{})}, func(r *rig) {
		r.server.Next(testserver.Status(503), testserver.Status(503))
		n := 0
		trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { n++ }}
		if resilient.Attempt(r.Context()) != 1 {
			r.Error("no attempt is the first")
		}
		if _, err := r.get(httptrace.WithClientTrace(r.Context(), trace)); err != nil || n != 3 {
			r.Errorf("%d connections: %v", n, err)
		}
	})
	var seen []int
	var base roundTripper = func(req *http.Request) (*http.Response, error) {
		seen = append(seen, resilient.Attempt(req.Context()))
		return &http.Response{StatusCode: 503, ProtoMajor: 1, Body: http.NoBody, Request: req}, nil
	}
	cfg := retries(3, resilient.Config{})
	cfg.Retry.BaseDelay, cfg.Retry.MaxDelay = time.Millisecond, time.Millisecond
	c, err := resilient.NewRegistry().NewClient("sber", cfg, resilient.WithBase(&base))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req, _ := http.NewRequest("GET", "http://sber.test/", nil)
	if resp, err := c.Do(req); err != nil || resp.StatusCode != 503 || len(seen) != 3 || seen[0] != 1 || seen[2] != 3 {
		t.Errorf("%v, %v: %v", resp, err, seen)
	}
}

// An open breaker, forced or not, is not tried again; the real answer is returned, with its body.
func TestRetryAndBreaker(t *testing.T) {
	inBoth(t, setting{cfg: retries(3, trips(1, resilient.Config{}))}, func(r *rig) {
		r.server.Next(testserver.Status(503))
		if s, err := r.get(r.Context()); err != nil || s != "Service Unavailable" {
			// its end opened the breaker, after it had been given up
			var gaveUp *resilient.RetryError
			if !errors.As(err, &gaveUp) || !errors.Is(err, resilient.ErrCircuitOpen) || resilient.NotSent(err) || gaveUp.Status != 503 {
				r.Errorf("%q, %v", s, err)
			}
		}
		if n := r.server.Stats().Requests; n != 1 {
			r.Errorf("%d requests", n)
		}
		r.ForceOpen(0)
		start := time.Now()
		if _, err := r.get(r.Context()); !errors.Is(err, resilient.ErrCircuitOpen) || !resilient.NotSent(err) || !time.Now().Equal(start) {
			r.Error(err)
		}
	})
}

// A reload during a pause: the call goes on by the policy that it began with.
func TestRetryAndReconfigure(t *testing.T) {
	cfg := retries(2, resilient.Config{})
	cfg.Retry.MaxRetryAfter = 10 * time.Second
	inBoth(t, setting{cfg: cfg}, func(r *rig) {
		r.server.Next(testserver.Status(503, "Retry-After", "3"), testserver.Status(503))
		done := make(chan string, 1)
		go func() { s, _ := r.get(r.Context()); done <- s }()
		time.Sleep(time.Second)
		r.change(func(cfg *resilient.Config) { cfg.Retry.MaxAttempts = 1 })
		if s := <-done; s != "Service Unavailable" {
			r.Error(s)
		}
		r.server.Next(testserver.Status(503))
		_, _ = r.get(r.Context())
		if n := r.server.Stats().Requests; n != 3 {
			r.Errorf("%d requests", n)
		}
	})
}

// The budget bounds what a failing system gets, whoever calls.
func TestRetryBudget(t *testing.T) {
	cfg := resilient.Config{Retry: resilient.RetryConfig{MaxAttempts: 3}}
	cfg.Breaker.MinRequests, cfg.Breaker.ConsecutiveFailures = 100_000, resilient.Off
	cfg.Retry.BaseDelay, cfg.Retry.MaxDelay = time.Millisecond, time.Millisecond
	inBoth(t, setting{cfg: cfg, server: testserver.Options{Handler: testserver.Status(503)}}, func(r *rig) {
		for range 100 {
			_, _ = r.get(r.Context())
		}
		n, m := r.server.Stats().Requests, r.metrics()
		if n > 100+10+3 || n < 100+10 || m["retry_budget_exhausted_total"] == 0 {
			r.Errorf("%d requests for 100 calls, %v without budget", n, m["retry_budget_exhausted_total"])
		}
	})
}
