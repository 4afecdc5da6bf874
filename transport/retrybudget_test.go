package transport_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// A traffic is what a base saw: first attempts by when they came back, further
// ones by when they were decided, with a pause that is always the same.
type traffic struct {
	mu           sync.Mutex
	epoch        time.Time
	first, again []time.Duration
}

const samePause = 30 * ms

// base fails as fail says, after a time of its own.
func (tr *traffic) base(took time.Duration, fail bool) fake {
	return func(req *http.Request) (*http.Response, error) {
		now := time.Since(tr.epoch)
		if transport.Attempt(req.Context()) > 1 {
			tr.mu.Lock()
			tr.again = append(tr.again, now-samePause)
			tr.mu.Unlock()
			time.Sleep(took)
		} else {
			time.Sleep(took)
			tr.mu.Lock()
			tr.first = append(tr.first, now+took)
			tr.mu.Unlock()
		}
		if fail {
			return nil, errDown
		}
		return &http.Response{StatusCode: 200, ProtoMajor: 1, Body: http.NoBody, Request: req}, nil
	}
}

// inWindow counts the times in the window that ends with end.
func inWindow(times []time.Duration, end, window time.Duration) (n int) {
	for _, at := range times {
		if at > end-window && at <= end {
			n++
		}
	}
	return n
}

// Whatever fails, and whenever: in each window there are at most as many further
// attempts as the budget says, and all in all at most its share and, for each
// window that a schedule spans, its floor.
func TestRetryBudget(t *testing.T) {
	type burst struct {
		Wait, Took time.Duration
		Calls      int
		Fail       bool
	}
	steps := 0
	defer func() { t.Logf("%d steps", steps) }()
	rapid.Check(t, func(rt *rapid.T) {
		p := attempts(rapid.IntRange(2, 5).Draw(rt, "attempts"))
		p.BudgetRatio = rapid.SampledFrom([]float64{0, 0.1, 0.1, 0.5, 1}).Draw(rt, "ratio")
		p.BudgetFloor = rapid.IntRange(0, 4).Draw(rt, "floor")
		p.BudgetWindow = rapid.SampledFrom([]time.Duration{sec, 10 * sec, time.Hour}).Draw(rt, "window")
		p.MaxElapsed = 0
		bursts := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) burst {
			return burst{
				Wait:  rapid.SampledFrom([]time.Duration{0, 1, 7 * ms, 100 * ms, 333 * ms, 900 * ms, sec, 1100 * ms, 20 * sec}).Draw(rt, "wait"),
				Took:  rapid.SampledFrom([]time.Duration{0, ms, 150 * ms, sec}).Draw(rt, "took"),
				Calls: rapid.IntRange(1, 40).Draw(rt, "calls"),
				Fail:  rapid.Bool().Draw(rt, "fail"),
			}
		}), 1, 12).Draw(rt, "bursts")
		wrong := ""
		synctest.Test(t, func(t *testing.T) {
			tr := &traffic{epoch: time.Now()}
			retry := transport.NewRetry("sber", p)
			retry.SetJitter(func(time.Duration) time.Duration { return samePause })
			var all sync.WaitGroup
			calls := 0
			for _, b := range bursts {
				time.Sleep(b.Wait)
				rt := retry.Wrap(tr.base(b.Took, b.Fail))
				for range b.Calls {
					calls++
					all.Go(func() { _, _ = read(rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))) })
				}
			}
			all.Wait()
			for _, end := range tr.again {
				n, of := inWindow(tr.again, end, p.BudgetWindow), inWindow(tr.first, end, p.BudgetWindow)
				if float64(n) > p.BudgetRatio*float64(of)+float64(p.BudgetFloor)+1e-9 {
					wrong = fmt.Sprintf("in the %v up to %v: %d for %d calls", p.BudgetWindow, end, n, of)
				}
			}
			steps += calls
			windows := 1 + int(time.Since(tr.epoch)/p.BudgetWindow)
			if wire := len(tr.first) + len(tr.again); float64(wire) > (1+p.BudgetRatio)*float64(calls)+float64(windows*p.BudgetFloor)+1e-9 {
				wrong = fmt.Sprintf("%d on the wire for %d calls in %d windows", wire, calls, windows)
			}
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// What the budget allows it does give: the floor at once, a share of the calls,
// and both again when the window has passed.
func TestRetryBudgetIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := attempts(2)
		p.BudgetRatio, p.BudgetFloor, p.BudgetWindow = 0.1, 3, 10*sec
		retry := newRetry(p)
		told := eventsOf(retry)
		n := 0
		bad := retry.Wrap(fake(func(req *http.Request) (*http.Response, error) { n++; return response(req, 503, http.NoBody), nil }))
		good := retry.Wrap(fake(func(req *http.Request) (*http.Response, error) { n++; return response(req, 200, http.NoBody), nil }))
		do := func(rt http.RoundTripper, calls, want int) {
			t.Helper()
			n = 0
			for range calls {
				resp, err := rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
			}
			if n != want {
				t.Errorf("%d calls: %d on the wire, want %d", calls, n, want)
			}
		}
		do(bad, 3, 6) // the floor
		do(bad, 1, 1)
		if want := "2 failure 100ms, 2 failure 100ms, 2 failure 100ms, 2 budget_exhausted 0s"; told.String() != want {
			t.Errorf("told %v", told)
		}
		do(good, 96, 96)
		do(bad, 30, 30+13) // a tenth of these 130
		time.Sleep(12 * sec)
		do(bad, 4, 7) // only the floor
		time.Sleep(12 * sec)
		do(good, 1000, 1000)
		time.Sleep(12 * sec)
		do(bad, 4, 7) // those 1000 are forgotten

		p.BudgetWindow = 20 * sec // begins anew
		retry.Reconfigure(p)
		do(bad, 4, 7)
		p.BudgetWindow = 0
		retry.Reconfigure(p)
		do(bad, 50, 100)
		p.BudgetWindow, p.BudgetFloor, p.BudgetRatio = 10*sec, 0, 0
		retry.Reconfigure(p)
		do(bad, 50, 50)
	})
}

// Calls that were refused pay for no retries: they were not on the wire.
func TestRetryBudgetOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := attempts(2)
		p.BudgetRatio, p.BudgetWindow = 0.1, 10*sec
		retry := newRetry(p)
		none := semaphore.New("sber", semaphore.Limits{})
		for range 100 {
			_, _ = retry.Wrap(transport.Bulkhead(none, 0, nil)(answer(200))).RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))
		}
		n := 0
		_, _ = retry.Wrap(fake(func(*http.Request) (*http.Response, error) { n++; return nil, errDown })).
			RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))
		if n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
}

// Many callers at once overdraw nothing.
func TestRetryBudgetAtOnce(t *testing.T) {
	p := attempts(3)
	p.BudgetRatio, p.BudgetFloor, p.BudgetWindow, p.BaseDelay = 0.1, 3, time.Hour, 0
	retry := transport.NewRetry("sber", p)
	var mu sync.Mutex
	n := 0
	rt := retry.Wrap(fake(func(*http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		return nil, errDown
	}))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				_, _ = rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))
			}
		})
	}
	all.Wait()
	if n != 800+83 {
		t.Errorf("%d on the wire for 800 calls", n)
	}
}

// A ledger is a budget too slow and too simple to be wrong: it knows when each call was counted, and each further attempt.
type ledger struct {
	epoch        time.Time
	window       time.Duration
	calls, again []time.Time
}

// slot is that of a moment; a budget counts in tenths of its window.
func (l *ledger) slot(at time.Time) int64 { return int64(at.Sub(l.epoch) / (l.window / 10)) }

// since counts those of the last n slots.
func (l *ledger) since(times []time.Time, n int64) (count int) {
	for _, at := range times {
		if l.slot(at) > l.slot(time.Now())-n {
			count++
		}
	}
	return count
}

// Whatever calls come, and whenever, and whatever the budget is changed to, one is repeated if the ledger has room for it, and not
// otherwise. Calls are counted for ten slots, attempts for eleven, so that a whole window never has more than its share.
func TestRetryBudgetModel(t *testing.T) {
	type deed struct {
		Kind   string
		Policy transport.RetryPolicy
		Pause  time.Duration
	}
	deeds := rapid.Custom(func(t *rapid.T) deed {
		p := attempts(2)
		p.BudgetRatio = rapid.SampledFrom([]float64{0, 0.125, 0.5, 1}).Draw(t, "ratio") // of which multiples are exact
		p.BudgetFloor = rapid.IntRange(0, 3).Draw(t, "floor")
		p.BudgetWindow = rapid.SampledFrom([]time.Duration{sec, sec, 10 * sec}).Draw(t, "window")
		p.MaxElapsed = 0
		return deed{
			Kind:   rapid.SampledFrom([]string{"fails", "fails", "fails", "succeeds", "succeeds", "refused", "reconfigure"}).Draw(t, "kind"),
			Policy: p,
			Pause:  rapid.SampledFrom([]time.Duration{0, 0, 0, 7 * ms, 100 * ms, 333 * ms, 950 * ms, 1100 * ms, 20 * sec}).Draw(t, "pause"),
		}
	})
	steps := 0
	defer func() { t.Logf("%d steps", steps) }()
	rapid.Check(t, func(rt *rapid.T) {
		first, all := deeds.Draw(rt, "policy").Policy, rapid.SliceOfN(deeds, 1, 100).Draw(rt, "deeds")
		steps += len(all)
		wrong := ""
		synctest.Test(t, func(t *testing.T) {
			l := &ledger{epoch: time.Now(), window: first.BudgetWindow}
			p, retry, sent := first, transport.NewRetry("sber", first), 0
			retry.SetJitter(func(time.Duration) time.Duration { return 1 })
			for i, d := range all {
				time.Sleep(d.Pause)
				if d.Kind == "reconfigure" {
					p = d.Policy
					retry.Reconfigure(p)
					continue
				}
				if d.Kind != "refused" && p.BudgetWindow != l.window {
					*l = ledger{epoch: l.epoch, window: p.BudgetWindow} // it begins anew
				}
				sent = 0
				want := 1
				switch d.Kind {
				case "succeeds":
					l.calls = append(l.calls, time.Now())
				case "fails":
					l.calls = append(l.calls, time.Now())
					if float64(l.since(l.again, 11)+1) <= p.BudgetRatio*float64(l.since(l.calls, 10))+float64(p.BudgetFloor) {
						l.again = append(l.again, time.Now())
						want = 2
					}
				}
				rt := retry.Wrap(fake(func(req *http.Request) (*http.Response, error) {
					sent++
					switch d.Kind {
					case "fails":
						return nil, errDown
					case "refused":
						return nil, &semaphore.FullError{System: "sber"}
					}
					return response(req, 200, http.NoBody), nil
				}))
				_, _ = read(rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil)))
				if sent != want && wrong == "" {
					wrong = fmt.Sprintf("deed %d %s at %v: sent %d times, want %d", i, d.Kind, time.Since(l.epoch), sent, want)
				}
			}
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}
