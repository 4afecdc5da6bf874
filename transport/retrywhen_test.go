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
