package transport_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// How long a call takes, and in how many attempts, by what bounds it.
func TestRetryWhen(t *testing.T) {
	deadline := func(d time.Duration) func(*rig) context.Context {
		return func(r *rig) context.Context {
			ctx, cancel := context.WithTimeout(r.Context(), d)
			r.Cleanup(cancel)
			return ctx
		}
	}
	with := func(change func(*transport.RetryPolicy)) transport.RetryPolicy {
		p := attempts(5)
		change(&p)
		return p
	}
	slow := testserver.After(sec, testserver.Status(503))
	date := func(after time.Duration) string {
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(after).Format(http.TimeFormat) // where fake time begins
	}
	asks := func(retryAfter string) http.Handler { return testserver.Status(503, "Retry-After", retryAfter) }
	for name, row := range map[string]struct {
		policy transport.RetryPolicy
		server http.Handler
		ctx    func(*rig) context.Context
		n      int
		after  time.Duration
	}{
		"doubling":                 {attempts(5), testserver.Status(503), nil, 5, 1500 * ms},
		"up to the longest":        {with(func(p *transport.RetryPolicy) { p.MaxDelay = 300 * ms }), testserver.Status(503), nil, 5, 900 * ms},
		"without a longest":        {with(func(p *transport.RetryPolicy) { p.BaseDelay, p.MaxDelay = 300*ms, 0 }), testserver.Status(503), nil, 5, 4500 * ms},
		"no pause":                 {with(func(p *transport.RetryPolicy) { p.BaseDelay = 0 }), testserver.Status(503), nil, 5, 0},
		"elapsed, exactly":         {with(func(p *transport.RetryPolicy) { p.MaxElapsed = 700 * ms }), testserver.Status(503), nil, 4, 700 * ms},
		"elapsed, just not":        {with(func(p *transport.RetryPolicy) { p.MaxElapsed = 700*ms - 1 }), testserver.Status(503), nil, 3, 300 * ms},
		"elapsed in the attempts":  {with(func(p *transport.RetryPolicy) { p.MaxElapsed = 2300 * ms }), slow, nil, 3, 3300 * ms},
		"not bounded":              {with(func(p *transport.RetryPolicy) { p.MaxElapsed = 0 }), slow, nil, 5, 6500 * ms},
		"deadline before a pause":  {attempts(5), testserver.Status(503), deadline(700 * ms), 3, 300 * ms},
		"deadline after a pause":   {attempts(5), testserver.Status(503), deadline(700*ms + 1), 4, 700 * ms},
		"deadline and a floor":     {with(func(p *transport.RetryPolicy) { p.DeadlineFloor = 50 * ms }), testserver.Status(503), deadline(750*ms - 1), 3, 300 * ms},
		"deadline, just the floor": {with(func(p *transport.RetryPolicy) { p.DeadlineFloor = 50 * ms }), testserver.Status(503), deadline(750 * ms), 4, 700 * ms},

		"asked for":                {attempts(2), asks("2"), nil, 2, 2100 * ms},
		"asked for none":           {attempts(2), asks("0"), nil, 2, 100 * ms},
		"asked for nonsense":       {attempts(2), asks("soon"), nil, 2, 100 * ms},
		"asked for less":           {attempts(2), asks("-5"), nil, 2, 100 * ms},
		"asked for a date":         {attempts(2), asks(date(3 * sec)), nil, 2, 3100 * ms},
		"asked for a past date":    {attempts(2), asks(date(-time.Hour)), nil, 2, 100 * ms},
		"asked beyond elapsed":     {attempts(2), asks("5"), nil, 1, 0},
		"asked beyond a deadline":  {attempts(2), asks("2"), deadline(2 * sec), 1, 0},
		"asked for the most":       {with(func(p *transport.RetryPolicy) { p.MaxRetryAfter, p.MaxAttempts = sec, 2 }), asks("1"), nil, 2, 1100 * ms},
		"asked for more":           {with(func(p *transport.RetryPolicy) { p.MaxRetryAfter = sec }), asks("2"), nil, 1, 0},
		"asked for anything":       {with(func(p *transport.RetryPolicy) { p.MaxRetryAfter = 0 }), asks("1"), nil, 1, 0},
		"asked for ever":           {with(func(p *transport.RetryPolicy) { p.MaxElapsed = 0 }), asks("99999999999999999999"), nil, 1, 0},
		"asked for the year 9999":  {with(func(p *transport.RetryPolicy) { p.MaxElapsed = 0 }), asks("Fri, 31 Dec 9999 23:59:59 GMT"), nil, 1, 0},
		"a silence of ours passes": {attempts(2), testserver.HangBeforeHeaders(), nil, 1, 5 * sec}, // it takes all that may elapse
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, calm, func(r *rig) {
				r.server.Default(row.server)
				ctx := r.Context()
				if row.ctx != nil {
					ctx = row.ctx(r)
				}
				var resp *http.Response
				var err error
				d := took(func() { resp, err = r.retry(row.policy).RoundTrip(r.request(ctx, "GET", nil)) })
				if n := r.server.Stats().Requests; n != row.n || d != row.after {
					r.Errorf("%d attempts in %v, want %d in %v: %v", n, d, row.n, row.after, err)
				}
				if err == nil {
					if s, err := read(resp, nil); resp.StatusCode != 503 || s != "Service Unavailable" || err != nil {
						r.Errorf("%v, %q, %v", resp, s, err)
					}
				}
			})
		})
	}
}

// Timeouts of ours are repeated where there is time for it, and connects need no method.
func TestRetryAfterATimeout(t *testing.T) {
	cfg := calm
	cfg.ConnectTimeout, cfg.ReadTimeout, cfg.TotalTimeout = 100*ms, 500*ms, 2*sec
	cfg.Breaker.Window = 30 * sec
	inBoth(t, cfg, func(r *rig) {
		r.server.Next(testserver.HangBeforeHeaders(), testserver.HangInHeaders())
		var err error
		if d := took(func() { _, err = r.get(r.Context(), r.retry(attempts(3))) }); err != nil || d != 2*500*ms+300*ms {
			r.Errorf("after %v: %v", d, err)
		}
		r.dial(testserver.BlackHole)
		r.own.CloseIdleConnections()
		r.held(0)
		if d := took(func() { _, err = r.get(r.Context(), r.retry(attempts(3))) }); d != 3*100*ms+300*ms {
			r.Errorf("after %v: %v", d, err)
		}
		isTimeout(r, err, transport.PhaseConnect, 100*ms)
	})
}

// A deadline of the caller's that ends an attempt, or shortens its total, ends the call.
func TestRetryAfterTheDeadline(t *testing.T) {
	inBoth(t, calm, func(r *rig) {
		r.server.Default(testserver.HangBeforeHeaders())
		ctx, cancel := context.WithTimeout(r.Context(), sec)
		defer cancel()
		var err error
		if d := took(func() { _, err = r.get(ctx, r.retry(attempts(3))) }); d != 900*ms {
			r.Errorf("after %v", d)
		}
		isTimeout(r, err, transport.PhaseDeadline, 900*ms)
		if n := r.server.Stats().Requests; n != 1 {
			r.Errorf("%d attempts", n)
		}
	})
}
