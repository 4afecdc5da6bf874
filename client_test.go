package resilient_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

var discard = slog.New(slog.DiscardHandler)

func TestSuccess(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		body, err := r.get(r.Context())
		if body != "ok" || err != nil {
			r.Errorf("%q, %v", body, err)
		}
		r.held(0)
		r.outcomes(map[string]float64{"success": 1})
	})
}

func TestTimeouts(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.server.Default(testserver.HangBeforeHeaders())
		if d := took(func() { _, err := r.get(r.Context()); r.timeout(err, "read") }); d != 5*time.Second {
			r.Errorf("headers: after %v", d)
		}
		r.server.Default(testserver.StallInBody(3))
		if d := took(func() { _, err := r.get(r.Context()); r.timeout(err, "read") }); d != 5*time.Second {
			r.Errorf("body: after %v", d)
		}
		r.server.Default(testserver.Trickle(1, time.Second, -1))
		if d := took(func() { _, err := r.get(r.Context()); r.timeout(err, "total") }); d != 7*time.Second {
			r.Errorf("total: after %v", d)
		}
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if d := took(func() { _, err := r.get(ctx); r.timeout(err, "deadline") }); d != 1900*time.Millisecond {
			r.Errorf("deadline: after %v", d)
		}
		r.outcomes(map[string]float64{"timeout": 3, "cancelled": 1})
	})
}

// A body that nobody closes costs its permit for the total, not longer.
func TestForgottenBody(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.server.Default(testserver.StallInBody(3))
		resp, err := r.Do(r.request(r.Context(), "GET", nil))
		if err != nil {
			r.Fatal(err)
		}
		time.Sleep(7*time.Second - 1)
		r.held(1)
		time.Sleep(1 + time.Millisecond)
		r.held(0)
		_, err = io.ReadAll(resp.Body)
		r.timeout(err, "total")
		r.outcomes(map[string]float64{"abandoned": 1})
		r.breaker("closed")
	})
}

func TestRefusals(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.server.Default(testserver.HangBeforeHeaders())
		for range 16 {
			go r.get(r.Context())
		}
		time.Sleep(time.Second)
		r.held(16)
		d := took(func() {
			_, err := r.get(r.Context())
			if !resilient.NotSent(err) {
				r.Error(err)
			}
		})
		if d != 100*time.Millisecond {
			r.Errorf("refused after %v", d)
		}
		time.Sleep(5 * time.Second)
		r.breaker("open")
		if d := took(func() { _, err := r.get(r.Context()); r.Log(err) }); d != 0 {
			r.Errorf("refused after %v", d)
		}
		r.outcomes(map[string]float64{"timeout": 16, "refused_full": 1, "refused_open": 1})
		if n := r.server.Stats().MaxConcurrent; n != 16 {
			r.Errorf("%d at the server", n)
		}
		r.server.Default(testserver.OK("ok"))
		time.Sleep(30 * time.Second)
		for range 3 {
			if _, err := r.get(r.Context()); err != nil {
				r.Error(err)
			}
		}
		r.breaker("closed")
	})
}
