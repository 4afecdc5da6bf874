package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/resilient-go/resilient"
)

// What is demanded of the resilient clients.
const (
	maxExchanges  = 16                    // with sber at once
	refusalSlack  = 25 * time.Millisecond // beyond the acquire timeout, until sber's breaker is open
	refusalOpen   = 5 * time.Millisecond  // p99, from then on
	minCalls      = 1000                  // of insurance during the hang, for the rest to mean something
	latencyFactor = 1.5                   // of insurance's p99 before the hang, to that during it
	latencySlack  = 5 * time.Millisecond
)

// A result is what was measured in one run.
type result struct {
	exchanges     int   // with sber at once, at most
	toRefusal     times // of sber's calls that began before its breaker was open
	toRefusalOpen times // of those that began later
	sber          [outcomes]int
	before        times // of insurance, while all was well
	during        times // while sber hung
	failures      int   // of the latter, whatever the reason
	goroutines    int   // at most; the partners' own are among them
	connections   int
	breaker       string        // sber's, at the end; "" without resilient
	acquire       time.Duration // the acquire timeout in force
	late          time.Duration // of a tick, at most
}

func (s *stage) result() result {
	during := func(c call) bool { return c.phase == hangs || c.phase == open }
	guard := s.clients.guards[sber]
	refusals := func(later bool) times {
		return s.log.times(asked, func(c call) bool {
			if guard == nil { // nothing is refused, but there are timeouts, and the phases of the other run
				return c.system == sber && c.outcome == failed && (c.phase > hangs) == later
			}
			return c.system == sber && c.outcome == refused && c.open == later
		})
	}
	r := result{
		exchanges:     s.partners.gauges[sber].peak(),
		toRefusal:     refusals(false),
		toRefusalOpen: refusals(true),
		before:        s.log.times(took, func(c call) bool { return c.system == insurance && c.phase == healthy }),
		during:        s.log.times(took, func(c call) bool { return c.system == insurance && during(c) }),
		failures:      s.log.count(func(c call) bool { return c.system == insurance && during(c) && c.outcome != answered }),
		goroutines:    s.goroutines,
		late:          s.log.latest(),
	}
	for o := range r.sber {
		r.sber[o] = s.log.count(func(c call) bool { return c.system == sber && c.outcome == outcome(o) })
	}
	for _, p := range s.partners.servers {
		r.connections += p.Stats().Conns
	}
	if guard != nil {
		state := guard.State()
		r.breaker, r.acquire = state.Breaker.State, state.Config.Bulkhead.AcquireTimeout
	}
	return r
}

// A row is a line of the table. One with a demand is a promise, kept or not.
type row struct {
	name, ours, plain, demand string
	kept                      bool
}

// report compares the two runs.
func report(ours, plain result) []row {
	limit := ours.acquire + refusalSlack
	slowest := time.Duration(latencyFactor*float64(ours.before.quantile(0.99))) + latencySlack

	each := func(name string, f func(result) string) row { return row{name: name, ours: f(ours), plain: f(plain)} }
	demand := func(r row, kept bool, format string, a ...any) row {
		r.demand, r.kept = fmt.Sprintf(format, a...), kept
		return r
	}
	quantile := func(name string, t func(result) times, q float64) row {
		return each(name, func(r result) string { return ms(t(r), q) })
	}
	number := func(name string, n func(result) int) row {
		return each(name, func(r result) string { return fmt.Sprint(n(r)) })
	}
	toRefusal := func(r result) times { return r.toRefusal }
	toRefusalOpen := func(r result) times { return r.toRefusalOpen }
	before := func(r result) times { return r.before }
	during := func(r result) times { return r.during }

	return []row{
		{name: "sber"},
		demand(number("exchanges at once, at most", func(r result) int { return r.exchanges }),
			ours.exchanges > 0 && ours.exchanges <= maxExchanges, "≤ %d", maxExchanges),
		quantile("time to refusal while it hangs, p50", toRefusal, 0.5),
		quantile("  p99", toRefusal, 0.99),
		demand(quantile("  longest", toRefusal, 1),
			len(ours.toRefusal) > 0 && ours.toRefusal.quantile(1) <= limit, "≤ %v", limit),
		quantile("time to refusal once open, p50", toRefusalOpen, 0.5),
		demand(quantile("  p99", toRefusalOpen, 0.99),
			len(ours.toRefusalOpen) > 0 && ours.toRefusalOpen.quantile(0.99) <= refusalOpen, "≤ %v", refusalOpen),
		number("answered", func(r result) int { return r.sber[answered] }),
		number("refused, not asked", func(r result) int { return r.sber[refused] }),
		number("failed", func(r result) int { return r.sber[failed] }),
		number("turned away: no slot", func(r result) int { return r.sber[turnedAway] }),
		demand(each("breaker at the end", func(r result) string { return orDash(r.breaker) }),
			len(ours.toRefusalOpen) > 0 && ours.breaker == "closed", "closed again"),
		{name: "insurance"},
		quantile("p99 before sber hangs", before, 0.99),
		demand(quantile("p99 while sber hangs", during, 0.99),
			len(ours.before) > 0 && ours.during.quantile(0.99) <= slowest,
			"≤ 1.5 × before + 5ms: %s", format(slowest)),
		demand(number("calls while sber hangs", func(r result) int { return len(r.during) }),
			len(ours.during) >= minCalls, "≥ %d", minCalls),
		demand(number("  of them failed", func(r result) int { return r.failures }),
			ours.failures == 0, "0"),
		{name: "service"},
		number("goroutines, at most", func(r result) int { return r.goroutines }),
		number("connections opened", func(r result) int { return r.connections }),
		each("a 10ms tick late by, at most", func(r result) string { return format(r.late) }),
	}
}

// verdict says which promises were not kept.
func verdict(rows []row) error {
	var errs []error
	system := ""
	for _, r := range rows {
		if r.ours == "" {
			system = r.name
		}
		if r.demand != "" && !r.kept {
			errs = append(errs, fmt.Errorf("not as promised: %s: %s: measured %s, promised %s",
				system, strings.TrimSpace(r.name), r.ours, r.demand))
		}
	}
	return errors.Join(errs...)
}

func table(rows []row) string {
	var b strings.Builder
	line := func(name, ours, plain, rest string) {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-38s%10s%10s   %s", name, ours, plain, rest), " ") + "\n")
	}
	line("", "resilient", "plain", "  promised")
	for _, r := range rows {
		switch {
		case r.ours == "":
			line(r.name, "", "", "")
		case r.demand == "":
			line("  "+r.name, r.ours, r.plain, "")
		case r.kept:
			line("  "+r.name, r.ours, r.plain, "✓ "+r.demand)
		default:
			line("  "+r.name, r.ours, r.plain, "✗ "+r.demand)
		}
	}
	b.WriteString("\nA plain client refuses nothing: its time to refusal is the time to its timeout.\n")
	b.WriteString("Goroutines include those of the two partners, which run in this process.\n")
	return b.String()
}

// printIntroduction says what is shown, and how it differs from a client by default.
func printIntroduction(out io.Writer) error {
	here, err := bounds.Complete()
	if err != nil {
		return err
	}
	usual, err := resilient.Config{}.Complete()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "A service with %d slots calls two partners, 200 times a second each. Sber hangs.\n\n", slots)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "bound\there\tdefault")
	for _, bound := range []struct {
		name string
		of   func(resilient.Config) any
	}{
		{"connections", func(c resilient.Config) any { return c.MaxConnsPerHost }},
		{"exchanges at once", func(c resilient.Config) any { return c.Bulkhead.MaxConcurrent }},
		{"wait for a permit", func(c resilient.Config) any { return c.Bulkhead.AcquireTimeout }},
		{"connect", func(c resilient.Config) any { return c.ConnectTimeout }},
		{"read", func(c resilient.Config) any { return c.ReadTimeout }},
		{"total", func(c resilient.Config) any { return c.TotalTimeout }},
		{"breaker opens for", func(c resilient.Config) any { return c.Breaker.OpenFor }},
		{"probes to close it", func(c resilient.Config) any { return c.Breaker.HalfOpenProbes }},
	} {
		fmt.Fprintf(w, "%s\t%v\t%v\n", bound.name, bound.of(here), bound.of(usual))
	}
	return w.Flush()
}

// ms formats the quantile q of t.
func ms(t times, q float64) string {
	if len(t) == 0 {
		return "–"
	}
	return format(t.quantile(q))
}

// format gives d in milliseconds, to three digits or so.
func format(d time.Duration) string {
	switch v := float64(d) / 1e6; {
	case v < 1:
		return fmt.Sprintf("%.2fms", v)
	case v < 100:
		return fmt.Sprintf("%.1fms", v)
	default:
		return fmt.Sprintf("%.0fms", v)
	}
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
