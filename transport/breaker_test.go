package transport_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

func TestTrips(t *testing.T) {
	ratio := config.Breaker{MinRequests: 4, FailureRatio: 0.5, ConsecutiveFailures: config.Off}
	row3 := config.Breaker{MinRequests: 100, ConsecutiveFailures: 3}
	many := strings.Repeat
	for _, row := range []struct {
		cfg  config.Breaker
		do   string
		want string
	}{
		{ratio, "fff", "closed"},
		{ratio, "ffff", "open"},
		{ratio, "ssff", "open"},
		{ratio, "ffss", "closed"}, // only a failure trips
		{ratio, "ffssf", "open"},
		{ratio, "sssff", "closed"},
		{ratio, "sssfff", "open"},
		{ratio, "fff" + many("n", 50), "closed"},
		{ratio, "fff" + many("n", 50) + "f", "open"},
		{ratio, many("s", 100) + many("f", 99), "closed"},
		{ratio, many("s", 100) + many("f", 100), "open"},
		{config.Breaker{MinRequests: 1, FailureRatio: 1}, "s" + many("f", 9), "closed"},
		{config.Breaker{MinRequests: 10, FailureRatio: 0.3, ConsecutiveFailures: config.Off}, "sssssssff" + "f", "open"},
		{config.Breaker{MinRequests: 10, FailureRatio: 0.31, ConsecutiveFailures: config.Off}, "sssssssff" + "f", "closed"},
		{config.Breaker{MinRequests: 1}, "f", "open"},
		{row3, "ff", "closed"},
		{row3, "fff", "open"},
		{row3, "ffsff", "closed"},
		{row3, "ffsfff", "open"},
		{row3, "ffnf", "open"}, // a neutral is no success
		{row3, many("s", 1000) + "fff", "open"},
		{config.Breaker{}, many("s", 1000) + many("f", 15), "closed"},
		{config.Breaker{}, many("s", 1000) + many("f", 16), "open"},
		{config.Breaker{}, many("f", 9), "closed"},
		{config.Breaker{}, many("f", 10), "open"},
	} {
		synctest.Test(t, func(t *testing.T) {
			j := newJudge(t, row.cfg)
			_ = j.do(row.do)
			if got := j.State().State; got != row.want {
				t.Errorf("%+v after %.40s: %s, want %s", row.cfg, row.do, got, row.want)
			}
		})
	}
}

func TestWindowRolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, config.Breaker{MinRequests: 10, FailureRatio: 0.5, ConsecutiveFailures: 1000})
		_ = j.do(strings.Repeat("s", 5000) + "fffff")
		time.Sleep(31 * time.Second)
		_ = j.do("fffff") // the old five are forgotten, as are the thousands (B-17)
		j.is("closed")
		_ = j.do("fffff")
		j.is("open")
	})
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, config.Breaker{MinRequests: 10, FailureRatio: 0.5, ConsecutiveFailures: 1000})
		for range 9 { // all within 30s
			_ = j.do("f")
			time.Sleep(3 * time.Second)
		}
		j.is("closed")
		_ = j.do("f")
		j.is("open")
	})
}

// gobreaker's own count of failures in a row decays with its buckets (B-19).
func TestConsecutiveOutlivesTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, config.Breaker{MinRequests: 1000, ConsecutiveFailures: 5})
		for range 4 {
			_ = j.do("f")
			time.Sleep(12 * time.Second)
		}
		j.is("closed")
		_ = j.do("f")
		j.is("open")
		time.Sleep(30*time.Second + 1)
		_ = j.do("sssffff") // counts from zero again
		j.is("closed")
		_ = j.do("f")
		j.is("open")
	})
}

// A result later than the window still counts in a row, or calls that last
// longer than it would never open anything.
func TestResultsLongerThanTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, config.Breaker{MinRequests: 1000, ConsecutiveFailures: 3})
		j.after = time.Minute
		_ = j.do("ff")
		j.is("closed")
		_ = j.do("f")
		j.is("open")
	})
}

// A hang opens after one timeout, however many successes the window holds.
func TestHangOpensAfterOneTimeout(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		for range 500 {
			if err := get(r, r.all()); err != nil {
				r.Fatal(err)
			}
		}
		r.server.Default(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }))
		d := took(func() {
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() { _ = get(r, r.all()) })
			}
			all.Wait()
		})
		r.state("open")
		if d != 5*time.Second {
			r.Errorf("after %v", d)
		}
	})
}

// A result that belongs to an earlier state decides nothing (B-09).
func TestLateResults(t *testing.T) {
	for _, late := range []int{200, 503} {
		synctest.Test(t, func(t *testing.T) {
			j := newJudge(t, config.Breaker{MinRequests: 2, HalfOpenProbes: 1})
			slow := j.Wrap(fake(func(req *http.Request) (*http.Response, error) {
				time.Sleep(40 * time.Second)
				return response(req, late, http.NoBody), nil
			}))
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { _, _ = read(slow.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))) })
			}
			time.Sleep(time.Second)
			_ = j.do("ff")
			time.Sleep(30*time.Second + 1)
			j.is("half_open")
			all.Wait()
			j.is("half_open")
			_ = j.do("s")
			j.is("closed")
		})
	}
}

func TestHalfOpen(t *testing.T) {
	for _, row := range []struct {
		probes int
		do     string
		want   string
	}{
		{3, "ss", "half_open"},
		{3, "sss", "closed"},
		{3, "ssf", "open"},
		{3, "f", "open"},
		{3, strings.Repeat("n", 50), "half_open"},
		{3, "snsns", "closed"},
		{1, "n", "half_open"},
		{1, "s", "closed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			j := newJudge(t, config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: row.probes})
			_ = j.do("f")
			time.Sleep(30*time.Second + 1)
			_ = j.do(row.do)
			if got := j.State().State; got != row.want {
				t.Errorf("%d probes, %s: %s, want %s", row.probes, row.do, got, row.want)
			}
		})
	}
}

// At most that many probes are under way, and who comes later is told so.
func TestProbesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, config.Breaker{MinRequests: 1, ConsecutiveFailures: 1})
		_ = j.do("f")
		time.Sleep(30*time.Second + 1)
		var through, refused atomic.Int32
		slow := j.Wrap(fake(func(req *http.Request) (*http.Response, error) {
			through.Add(1)
			time.Sleep(time.Second)
			return response(req, 200, strings.NewReader("ok")), nil
		}))
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				_, err := read(slow.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil)))
				if open, ok := errors.AsType[*transport.OpenError](err); ok && open.RetryAfter == 0 && open.Probing {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if through.Load() != 3 || refused.Load() != 17 {
			t.Errorf("%d through, %d refused", through.Load(), refused.Load())
		}
		j.is("closed")
	})
}

// To the nanosecond: when it is open, what it tells, and that neither Peek nor
// those who are refused (B-21) change anything.
func TestOpenFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, OpenFor: 10 * time.Second})
		if s := j.State(); s.State != "closed" || !s.OpenUntil.IsZero() || j.Peek() != nil {
			t.Error(s)
		}
		_ = j.do("f")
		until := time.Now().Add(10 * time.Second)
		for range 100 {
			time.Sleep(99 * time.Millisecond)
			e := j.refused()
			if e.RetryAfter != time.Until(until) || e.System != "sber" {
				t.Fatalf("%+v, want %v", e, time.Until(until))
			}
			if peek, ok := errors.AsType[*transport.OpenError](j.Peek()); !ok || *peek != *e {
				t.Fatalf("Peek says %v", j.Peek())
			}
			if s := j.State(); s.State != "open" || !s.OpenUntil.Equal(until) {
				t.Fatalf("State %v", s)
			}
		}
		time.Sleep(time.Until(until))
		j.is("open") // at OpenFor exactly
		j.refused()
		time.Sleep(1)
		if err := j.Peek(); err != nil {
			t.Error(err)
		}
		sent := j.sent
		for range 10 {
			_ = j.Peek()
		}
		if err := j.do("s"); err != nil || j.sent != sent+1 {
			t.Error(err)
		}
		if s := j.State(); s.State != "half_open" || !s.OpenUntil.IsZero() {
			t.Error(s)
		}
	})
}

// Peek makes no transition, State does.
func TestPeekChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, config.Breaker{MinRequests: 1, ConsecutiveFailures: 1})
		var seen []string
		j.OnTransition(func(tr transport.Transition) { seen = append(seen, tr.To) })
		_ = j.do("f")
		time.Sleep(time.Hour)
		for range 100 {
			if err := j.Peek(); err != nil {
				t.Fatal(err)
			}
		}
		if fmt.Sprint(seen) != "[open]" {
			t.Error(seen)
		}
		j.is("half_open")
		synctest.Wait() // State does not wait for hooks
		if fmt.Sprint(seen) != "[open half_open]" {
			t.Error(seen)
		}
		j.next = nil
		for range 3 { // probes taken: that is Allow's to say
			go j.rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", io.MultiReader()))
			synctest.Wait()
		}
		if err := j.Peek(); err != nil {
			t.Error(err)
		}
	})
}

func TestOpenError(t *testing.T) {
	e := &transport.OpenError{System: "sber", RetryAfter: time.Second}
	var err error = e
	switch _, isTimeout := err.(interface{ Timeout() bool }); {
	case isTimeout, !errors.Is(err, transport.ErrCircuitOpen), !errors.Is(err, semaphore.ErrUnavailable), errors.Is(err, semaphore.ErrBulkheadFull):
		t.Error(err)
	case err.Error() != "transport: sber: circuit open for another 1s", e.LogValue().String() == "":
		t.Error(err)
	}
	if text := (&transport.OpenError{System: "sber"}).Error(); text != "transport: sber: circuit open" {
		t.Error(text)
	}
}

func TestNewBreakerPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic for a FailureStatus that is none")
		}
	}()
	transport.NewBreaker("sber", config.Config{Breaker: config.Breaker{FailureStatus: "x"}})
}
