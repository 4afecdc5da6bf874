package transport_test

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/transport"
)

// Each attempt after the first has one outcome, whatever it is.
func TestRetryEvents(t *testing.T) {
	for name, row := range map[string]struct {
		second func(*http.Request) (*http.Response, error)
		want   string
	}{
		"success":     {answer(200), "2 success 100ms"},
		"4xx":         {answer(404), "2 success 100ms"},
		"failure":     {answer(503), "2 failure 100ms"},
		"error":       {func(*http.Request) (*http.Response, error) { return nil, errDown }, "2 failure 100ms"},
		"invalid":     {func(*http.Request) (*http.Response, error) { return nil, nil }, "2 success 100ms"},
		"refused":     {func(*http.Request) (*http.Response, error) { return nil, &transport.OpenError{} }, "2 refused 100ms"},
		"gone":        {hang, "2 cancelled 100ms"},
		"panic":       {func(*http.Request) (*http.Response, error) { panic("boom") }, "2 panic 100ms"},
		"goexit":      {func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }, "2 panic 100ms"},
		"gone, later": {func(req *http.Request) (*http.Response, error) { time.Sleep(2 * sec); return answer(200)(req) }, "2 success 100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				retry := newRetry(attempts(2))
				told := eventsOf(retry)
				rt := retry.Wrap(fake(func(req *http.Request) (*http.Response, error) {
					if transport.Attempt(req.Context()) == 1 {
						return nil, errDown
					}
					return row.second(req)
				}))
				ctx, cancel := context.WithTimeout(t.Context(), sec)
				defer cancel()
				swallow(func() { _, _ = read(rt.RoundTrip(newRequest(t, ctx, "GET", "http://sber.test/", nil))) })
				if told.String() != row.want {
					t.Errorf("told %v, want %s", told, row.want)
				}
			})
		})
	}
}

// A panic or Goexit from below goes on unchanged.
func TestRetryPanicsGoOn(t *testing.T) {
	defer func() {
		if p := recover(); p != "boom" {
			t.Errorf("panic %v", p)
		}
	}()
	n := 0
	_, _ = newRetry(attempts(2)).Wrap(fake(func(*http.Request) (*http.Response, error) {
		if n++; n == 2 {
			panic("boom")
		}
		return nil, errDown
	})).RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))
	t.Error("no panic")
}

// A hook that panics, ends its goroutine or uses the client harms no call.
func TestRetryHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retry := newRetry(attempts(2))
		n, rt := 0, http.RoundTripper(nil)
		retry.OnEvent(func(transport.RetryEvent) {
			switch n++; n {
			case 1:
				panic("boom")
			case 2:
				runtime.Goexit()
			case 3:
				_, _ = rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))
			}
		})
		rt = retry.Wrap(fake(func(req *http.Request) (*http.Response, error) {
			if transport.Attempt(req.Context()) == 1 {
				return response(req, 503, strings.NewReader("down")), nil
			}
			return answer(200)(req)
		}))
		for i := range 3 {
			if s, err := read(rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))); s != "ok" || err != nil {
				t.Errorf("%d: %q, %v", i, s, err)
			}
		}
		if n != 4 {
			t.Errorf("told %d times", n)
		}
	})
}

// A policy that changes is that of the next call; the budget, that of all, goes on.
func TestRetryReconfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := func(n, floor int) transport.RetryPolicy {
			p := attempts(n)
			p.BudgetFloor, p.BudgetWindow = floor, time.Hour
			return p
		}
		n, floor := 0, 10
		retry := newRetry(policy(5, floor))
		rt := retry.Wrap(fake(func(*http.Request) (*http.Response, error) {
			if n++; n == 2 {
				retry.Reconfigure(policy(1, floor))
			}
			return nil, errDown
		}))
		do := func(want int) {
			t.Helper()
			n = 0
			if _, err := rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil)); n != want || err != errDown {
				t.Errorf("%d attempts, want %d; %v", n, want, err)
			}
		}
		do(5)
		do(1)
		floor = 7 // of which 4 are spent
		retry.Reconfigure(policy(5, floor))
		do(4)
		retry.Reconfigure(policy(5, floor))
		do(1)
	})
}

// What is configured is what is done; the zero configuration repeats nothing.
func TestRetryPolicyOf(t *testing.T) {
	zero := transport.RetryPolicyOf(complete(t, config.Config{}))
	want := attempts(1)
	want.BudgetRatio, want.BudgetFloor, want.BudgetWindow = 0.1, 3, 10*sec
	if zero != want {
		t.Errorf("%+v", zero)
	}
	got := transport.RetryPolicyOf(complete(t, config.Config{Retry: config.Retry{
		MaxAttempts: 4, PutDelete: true, Status: "429,500-599", BaseDelay: 1, MaxDelay: 2, MaxElapsed: 3, MaxRetryAfter: 4,
		BudgetRatio: 0.5, BudgetFloor: 6, Gate: true, DeadlineHeader: "X-Left", DeadlineFloor: 7,
	}}))
	if got != (transport.RetryPolicy{
		MaxAttempts: 4, PutDelete: true, Statuses: statuses("429,500-599"), BaseDelay: 1, MaxDelay: 2, MaxElapsed: 3, MaxRetryAfter: 4,
		BudgetRatio: 0.5, BudgetFloor: 6, BudgetWindow: 10 * sec, Gate: true, DeadlineHeader: "X-Left", DeadlineFloor: 7,
	}) {
		t.Errorf("%+v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("took what is not complete")
		}
	}()
	transport.RetryPolicyOf(config.Config{})
}
