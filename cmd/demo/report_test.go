package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// good is a result that keeps every promise, if only just.
func good() result {
	return result{
		exchanges:     16,
		toRefusal:     same(10, 125*time.Millisecond),
		toRefusalOpen: append(same(99, 5*time.Millisecond), time.Second), // the p99 is 5 ms
		before:        same(100, 20*time.Millisecond),
		during:        same(1000, 35*time.Millisecond),
		breaker:       "closed",
		acquire:       100 * time.Millisecond,
	}
}

func same(n int, d time.Duration) times { return slices.Repeat(times{d}, n) }

func TestPromises(t *testing.T) {
	t.Parallel()
	if err := verdict(report(good(), result{})); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		spoil  func(*result)
		broken []string
	}{
		{"17 exchanges", func(r *result) { r.exchanges = 17 }, []string{"sber, exchanges at once, at most: 17, promised ≤ 16"}},
		{"no exchange", func(r *result) { r.exchanges = 0 }, []string{"sber, exchanges at once"}},
		{"one late refusal", func(r *result) { r.toRefusal = append(r.toRefusal, 126*time.Millisecond) },
			[]string{"sber, time to refusal, hanging: longest: 126ms, promised ≤ 125ms"}},
		{"no refusal", func(r *result) { r.toRefusal = nil }, []string{"sber, time to refusal, hanging"}},
		{"two late refusals in 100 once open", func(r *result) { r.toRefusalOpen[98] = 6 * time.Millisecond },
			[]string{"sber, time to refusal, open: p99: 6ms, promised ≤ 5ms"}},
		{"never open", func(r *result) { r.toRefusalOpen = nil },
			[]string{"sber, time to refusal, open: p99: –", "sber, breaker at the end: closed"}},
		{"open at the end", func(r *result) { r.breaker = "open" }, []string{"sber, breaker at the end: open, promised closed"}},
		{"insurance slower", func(r *result) { r.during = same(1000, 36*time.Millisecond) },
			[]string{"insurance, p99 while sber hangs: 36ms, promised ≤ 1.5 × before + 5ms = 35ms"}},
		{"insurance never measured before", func(r *result) { r.before = nil }, []string{"insurance, p99 while sber hangs"}},
		{"too few calls of insurance", func(r *result) { r.during = r.during[1:] },
			[]string{"insurance, calls while sber hangs: 999, promised ≥ 1000"}},
		{"a failure of insurance", func(r *result) { r.failures = 1 }, []string{"insurance, failures while sber hangs: 1, promised 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := good()
			c.spoil(&r)
			rows := report(r, good())
			err := verdict(rows)
			if err == nil {
				t.Fatal("every promise kept")
			}
			got := strings.Split(err.Error(), "\n")[1:]
			if !slices.EqualFunc(got, c.broken, func(a, b string) bool { return strings.HasPrefix(strings.TrimSpace(a), b) }) {
				t.Errorf("broken: %q, want %q", got, c.broken)
			}
			if n := strings.Count(table(rows), "✗"); n != len(c.broken) {
				t.Errorf("%d marks in\n%s", n, table(rows))
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n    int
		q    float64
		want time.Duration
	}{{0, 0.5, 0}, {1, 0.5, 1}, {1, 1, 1}, {100, 0.5, 50}, {100, 0.99, 99}, {101, 0.99, 100}, {100, 1, 100}} {
		var ts times
		for i := range c.n {
			ts = append(ts, time.Duration(i+1))
		}
		if got := ts.quantile(c.q); got != c.want {
			t.Errorf("quantile %v of 1 to %d: %d, want %d", c.q, c.n, got, c.want)
		}
	}
}
