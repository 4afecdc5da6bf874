package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/resilient-go/resilient"
)

// A tally is what came of the calls of the systems that are well.
type tally struct {
	asked, good, failed int
	p50, p99, worst     time.Duration
}

// others tallies the calls of all systems but the sick one that were asked for in a part of the run.
func (r result) others(patience, from, to time.Duration) (t tally) {
	var took []time.Duration
	for _, c := range r.calls {
		if c.system == 0 || c.at < from || c.at >= to {
			continue
		}
		t.asked++
		took = append(took, c.took)
		switch {
		case c.err != nil:
			t.failed++
		case c.took <= patience:
			t.good++
		}
	}
	slices.Sort(took)
	if n := len(took); n > 0 {
		t.p50, t.p99, t.worst = took[n/2], took[n*99/100], took[n-1]
	}
	return t
}

// atOnce is in how much time a refusal is one at once.
const atOnce = 5 * time.Millisecond

// firstRefusal returns how long after its death the first call of the sick system was refused by the breaker without a wait, and
// how many calls in a hundred were, from then on until it was well.
func (r result) firstRefusal() (after time.Duration, percent float64, ok bool) {
	first := time.Duration(-1)
	for _, c := range r.calls {
		if c.system == 0 && c.at >= r.dead && errors.Is(c.err, resilient.ErrCircuitOpen) && c.took < atOnce && (first < 0 || c.at < first) {
			first = c.at
		}
	}
	if first < 0 {
		return 0, 0, false
	}
	all, refused := 0, 0
	for _, c := range r.calls {
		if c.system == 0 && c.at >= first && c.at < r.well {
			all++
			if c.took < atOnce && errors.Is(c.err, resilient.ErrUnavailable) {
				refused++
			}
		}
	}
	return first - r.dead, 100 * float64(refused) / float64(max(1, all)), true
}

// part is how exactly it is known when traffic is full.
const part = time.Second / 4

// fullTraffic returns how long after its recovery the sick system's calls succeed again, 95 in a hundred of those that were asked
// for in each quarter of a second from then on.
func (r result) fullTraffic(patience, end time.Duration) (time.Duration, bool) {
	asked, good := map[int]int{}, map[int]int{}
	last := int((end - r.well) / part)
	for _, c := range r.calls {
		if i := int((c.at - r.well) / part); c.system == 0 && c.at >= r.well && i < last {
			asked[i]++
			if c.err == nil && c.took <= patience {
				good[i]++
			}
		}
	}
	i := last
	for i > 0 && asked[i-1] > 0 && good[i-1]*100 >= asked[i-1]*95 {
		i--
	}
	return time.Duration(i) * part, i < last
}

// report writes the page.
func report(p plan, all []result) (string, error) {
	cfg, err := p.Config.Complete()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	end := p.Well + p.Dead + p.After
	others := (p.Systems - 1) * p.Rate
	fmt.Fprintf(&b, `# What one dead partner costs the others

Written by `+"`make isolation`"+`: a measurement, on %s, %s × %d, GOMAXPROCS %d. The partners, the network between and the service
share that machine.

A service calls %d systems, each %d times a second, at an even rate whatever becomes of the calls, and has %d workers for that: as many
calls are under way at most, and others wait for a worker, first come first served. A partner answers in %v. An answer that comes later than
%v after it was asked for is no use to anybody: a call that is older when a worker gets to it is given up, as one whose caller has gone.

After %v one system vanishes: its connections carry nothing any more, nobody answers who connects, and from then on it is
called **%d times as often**. After %v more it is back. Each run takes %v; beside each there is one without the fault.

- *a client for each system*: resilient, with its defaults, but for an OpenFor of %v in place of 30s;
- *one plain client for all*: an http.Client over a clone of http.DefaultTransport, with a Timeout of 7s.

## The other %d systems

While the partner was away, and for the same time without the fault; times are from when a call was asked for to the end of its answer's body.

| | goodput, of %d/s | failed | p50 | p99 | the longest |
|---|---|---|---|---|---|
`, runtime.Version(), processor(), runtime.NumCPU(), runtime.GOMAXPROCS(0), p.Systems, p.Rate, p.Workers, p.Takes, p.Patience, p.Well, p.Times, p.Dead, end,
		cfg.Breaker.OpenFor, p.Systems-1, others)
	for _, r := range all {
		t := r.others(p.Patience, p.Well, p.Well+p.Dead)
		fmt.Fprintf(&b, "| %s | %.1f/s | %d of %d | %s | %s | %s |\n", r.name(), float64(t.good)/p.Dead.Seconds(), t.failed, t.asked, short(t.p50), short(t.p99), short(t.worst))
	}
	b.WriteString("\n## The partner that vanishes\n\n| | from its death to the first refusal at once | refused at once from then on | from its recovery to full traffic |\n|---|---|---|---|\n")
	for _, r := range all {
		if !r.fault {
			continue
		}
		refusal, share := "never", "none"
		if d, percent, ok := r.firstRefusal(); ok {
			refusal, share = short(d), fmt.Sprintf("%.1f %%", percent)
		}
		traffic := fmt.Sprintf("not within %v", p.After)
		if d, ok := r.fullTraffic(p.Patience, end); ok {
			traffic = "within " + short(d+part)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.name(), refusal, share, traffic)
	}
	fmt.Fprintf(&b, `
At once is within %v, by the breaker. It opens when enough calls in a row have failed: those that need a new connection after the
ConnectTimeout (%v), the others after the ReadTimeout (%v). Until then callers hold %d permits, and wait %v for one at most.
Its probes begin an OpenFor (%v) after it has opened; those that meet the partner still dead take a ReadTimeout more, and another
OpenFor. So full traffic is back after %v at most. The plain client never stops calling, and is back at once: what its calls had sent
is answered as soon as the network carries it.

## The service

| | workers busy, at most, of %d | callers of the sick system within its client, at most | goroutines in the process, at most |
|---|---|---|---|
`, atOnce, cfg.ConnectTimeout, cfg.ReadTimeout, cfg.Bulkhead.MaxConcurrent, cfg.Bulkhead.AcquireTimeout, cfg.Breaker.OpenFor, cfg.Breaker.OpenFor+cfg.ReadTimeout, p.Workers)
	for _, r := range all {
		held := "–"
		if r.guarded {
			held = fmt.Sprint(r.held)
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %d |\n", r.name(), r.busy, held, r.goroutines)
	}
	return b.String(), nil
}

func (r result) name() string {
	name := "one plain client for all"
	if r.guarded {
		name = "a client for each system"
	}
	if r.fault {
		return "**" + name + ", one vanishes**"
	}
	return name + ", no fault"
}

// short writes a duration with as many digits as are worth reading.
func short(d time.Duration) string {
	if d >= time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// processor names the processor, where the system tells.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "an unknown processor"
}
