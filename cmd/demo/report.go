package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
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

// A row is a line of the table; one with a name alone is a heading.
type row struct {
	name, ours, plain string
	promise           promise
}

// A promise is what a resilient client should do; the zero promise is none.
type promise struct {
	text string
	kept bool
}

// report compares the two runs, and the first one with what was promised.
func report(ours, plain result) []row {
	refusal := ours.acquire + refusalSlack
	latency := time.Duration(latencyFactor*float64(ours.before.quantile(0.99))) + latencySlack
	none := promise{}
	return []row{
		{name: "sber"},
		{"exchanges at once, at most", number(ours.exchanges), number(plain.exchanges), promise{
			fmt.Sprintf("≤ %d", maxExchanges), ours.exchanges > 0 && ours.exchanges <= maxExchanges}},
		{"time to refusal, hanging: p50", p50(ours.toRefusal), p50(plain.toRefusal), none},
		{"time to refusal, hanging: p99", p99(ours.toRefusal), p99(plain.toRefusal), none},
		{"time to refusal, hanging: longest", longest(ours.toRefusal), longest(plain.toRefusal), promise{
			"≤ " + ms(refusal), len(ours.toRefusal) > 0 && ours.toRefusal.quantile(1) <= refusal}},
		{"time to refusal, open: p50", p50(ours.toRefusalOpen), p50(plain.toRefusalOpen), none},
		{"time to refusal, open: p99", p99(ours.toRefusalOpen), p99(plain.toRefusalOpen), promise{
			"≤ " + ms(refusalOpen), len(ours.toRefusalOpen) > 0 && ours.toRefusalOpen.quantile(0.99) <= refusalOpen}},
		{"answered", number(ours.sber[answered]), number(plain.sber[answered]), none},
		{"refused, not asked", number(ours.sber[refused]), number(plain.sber[refused]), none},
		{"failed", number(ours.sber[failed]), number(plain.sber[failed]), none},
		{"turned away: no slot", number(ours.sber[turnedAway]), number(plain.sber[turnedAway]), none},
		{"breaker at the end", orDash(ours.breaker), orDash(plain.breaker), promise{
			"closed, having been open", len(ours.toRefusalOpen) > 0 && ours.breaker == "closed"}},
		{name: "insurance"},
		{"p99 before", p99(ours.before), p99(plain.before), none},
		{"p99 while sber hangs", p99(ours.during), p99(plain.during), promise{
			fmt.Sprintf("≤ %v × before + %v = %s", latencyFactor, latencySlack, ms(latency)),
			len(ours.before) > 0 && ours.during.quantile(0.99) <= latency}},
		{"calls while sber hangs", number(len(ours.during)), number(len(plain.during)), promise{
			fmt.Sprintf("≥ %d", minCalls), len(ours.during) >= minCalls}},
		{"failures while sber hangs", number(ours.failures), number(plain.failures), promise{
			"0", ours.failures == 0}},
		{name: "process"},
		{"goroutines, at most", number(ours.goroutines), number(plain.goroutines), none},
		{"connections opened", number(ours.connections), number(plain.connections), none},
		{"a 10ms tick late by, at most", ms(ours.late), ms(plain.late), none},
	}
}

// verdict says which promises were not kept.
func verdict(rows []row) error {
	var broken strings.Builder
	system := ""
	for _, r := range rows {
		if r.ours == "" {
			system = r.name
		}
		if r.promise.text != "" && !r.promise.kept {
			fmt.Fprintf(&broken, "\n  %s, %s: %s, promised %s", system, r.name, r.ours, r.promise.text)
		}
	}
	if broken.Len() == 0 {
		return nil
	}
	return errors.New("not as promised:" + broken.String())
}

func table(rows []row) string {
	var b strings.Builder
	line := func(name, ours, plain, rest string) {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-35s%10s%10s   %s", name, ours, plain, rest), " ") + "\n")
	}
	line("", "resilient", "plain", "  promised")
	for _, r := range rows {
		switch {
		case r.ours == "":
			line(r.name, "", "", "")
		case r.promise.text == "":
			line("  "+r.name, r.ours, r.plain, "")
		case r.promise.kept:
			line("  "+r.name, r.ours, r.plain, "✓ "+r.promise.text)
		default:
			line("  "+r.name, r.ours, r.plain, "✗ "+r.promise.text)
		}
	}
	b.WriteString("\nA plain client refuses nothing: its time to refusal is the time to its timeout.\n")
	b.WriteString("Goroutines include those of the two partners, which run in this process.\n")
	return b.String()
}

func number(n int) string { return strconv.Itoa(n) }

func p50(t times) string     { return quantile(t, 0.5) }
func p99(t times) string     { return quantile(t, 0.99) }
func longest(t times) string { return quantile(t, 1) }

func quantile(t times, q float64) string {
	if len(t) == 0 {
		return "–"
	}
	return ms(t.quantile(q))
}

// ms writes d in milliseconds, to two digits or three.
func ms(d time.Duration) string {
	v := float64(d) / float64(time.Millisecond)
	switch {
	case d == d.Round(time.Millisecond):
		return fmt.Sprintf("%.0fms", v)
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
