package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// A lap is what came of a number of callers in a queue for one permit.
type lap struct {
	turn   float64 // CPU time of a turn, in ns
	allocs float64 // of a turn
	again  int     // turns of a caller that had just had one, and so did not wait
}

// queue has callers take turns, so many that n wait while one has the permit: it is a turn's whole cost (queueing, being
// handed the permit, giving it back) where everybody has to wait. All are in the queue before the first turn. The
// garbage collector rests meanwhile: its demands on those who allocate would empty the queue, and then nobody would wait. That
// is to the advantage of those who allocate.
func queue(g gate, n, turns int) (lap, error) {
	var l lap
	ctxs, cancel := callersOf(n + 1)
	defer cancel()
	errs := make([]error, len(ctxs))
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	if err := g.acquire(ctxs[0], 0); err != nil {
		return l, err
	}
	var (
		all           sync.WaitGroup
		left, last    = turns, -1 // guarded by the permit, as is what follows
		began, took   time.Duration
		before, after runtime.MemStats
	)
	for i := range ctxs {
		all.Go(func() {
			for {
				if errs[i] = g.acquire(ctxs[i], time.Hour); errs[i] != nil {
					return
				}
				left--
				if last == i {
					l.again++
				}
				last = i
				over := left <= 0
				if left == 0 {
					took = cpu() - began
					runtime.ReadMemStats(&after)
				}
				g.release()
				if over {
					return
				}
			}
		})
	}
	settle(n+1, time.Now().Add(time.Minute))
	runtime.ReadMemStats(&before)
	began = cpu()
	g.release()
	all.Wait()
	l.turn, l.allocs = float64(took)/float64(turns), float64(after.Mallocs-before.Mallocs)/float64(turns)
	return l, errors.Join(errs...)
}

// callersOf returns a context for each of n callers, each of which could be cancelled.
func callersOf(n int) ([]context.Context, context.CancelFunc) {
	ctxs, cancels := make([]context.Context, n), make([]context.CancelFunc, n)
	for i := range ctxs {
		ctxs[i], cancels[i] = context.WithCancel(context.Background()) //nolint:fatcontext // each its own, kept side by side
		ctxs[i].Done()                                                 // which makes the channel
	}
	return ctxs, func() {
		for _, cancel := range cancels {
			cancel()
		}
	}
}

// settle waits until at least n goroutines wait, and no other runs, and reports whether that was so before the deadline.
func settle(n int, deadline time.Time) bool {
	samples := []metrics.Sample{
		{Name: "/sched/goroutines/waiting:goroutines"},
		{Name: "/sched/goroutines/runnable:goroutines"},
		{Name: "/sched/goroutines/running:goroutines"},
	}
	for calm := 0; calm < 5; {
		if time.Now().After(deadline) {
			return false
		}
		metrics.Read(samples)
		if samples[0].Value.Uint64() >= uint64(n) && samples[1].Value.Uint64() == 0 && samples[2].Value.Uint64() <= 1 {
			calm++
		} else {
			calm = 0 // the figures are approximate
		}
		time.Sleep(100 * time.Microsecond)
	}
	return true
}

// handOffs measures turns in a queue.
func handOffs(_ context.Context, e effort) (*section, error) {
	s := newSection("A full queue")
	s.para("Callers take turns on one permit, each waiting for all others in between: CPU time of a turn, which is queueing, being handed " +
		"the permit and giving it back. Every caller has a context that could be cancelled. The garbage collector rests, which favours those that allocate.")
	sizes := []int{1, 10, 100, 1000, 10_000, 100_000}
	lines := make([]series, 3) // failsafe-go's is the channel with another name
	perTurn := map[int]spread{}
	rows := [][]string{{"waiters", "semaphore", "allocations", "CPU", "resilient ÷ it"}}
	for _, full := range sizes {
		n := e.size(full)
		laps, err := queues(e, n)
		if err != nil {
			return nil, err
		}
		of := func(name string) spread { return laps.perOp(name) }
		perTurn[full] = of(ours)
		for i, m := range gates[:3] {
			lines[i].name = m.name
			lines[i].x, lines[i].y = append(lines[i].x, float64(n)), append(lines[i].y, of(m.name).median)
			remark := ""
			if laps.again[m.name] > 0 {
				remark = fmt.Sprintf(" (%d turns without a wait)", laps.again[m.name])
			}
			rows = append(rows, []string{fmt.Sprint(n), m.name, number(laps.allocs[m.name]), nanos(of(m.name).median) + remark, laps.ratio(ours, m.name).String()})
		}
		if full == 100 || full == 10_000 {
			what := fmt.Sprintf("a turn in a queue of %d", full)
			s.atMost("allocations of "+what, laps.allocs[ours], 0, "", "")
			s.ratioAtMost(what, laps.ratio(ours, channel), 0.5, channel, queueRemedy)
			s.ratioAtMost(what, laps.ratio(ours, xSync), 0.35, xSync, queueRemedy)
		}
	}
	s.table(rows...)
	s.chart("queue", "CPU time of a turn by the length of the queue", lineChart("A turn in a full queue", "waiters", "ns of CPU time", lines...))
	s.para("With many waiters the memory of each goroutine, its stack above all, has left the processor's caches by its next turn: " +
		"that is the rise to the right, and the same for all.")
	s.goals = append(s.goals, goal{"a turn in a queue of 100,000", "≤ 4 × one of 100",
		fmt.Sprintf("%.2f", perTurn[100_000].median/perTurn[100].median), perTurn[100_000].median <= 4*perTurn[100].median, queueRemedy})
	return s, nil
}

const queueRemedy = "A change of goroutines, with a select over the permit and the caller's end, is most of a turn, and of 10,000 goroutines " +
	"each one's memory is cold when its turn comes; both are the same for every semaphore. One alarm for all waiters in place of a timer each, as it is now, took off a quarter to a third; " +
	"telling waiters outside of the lock, and no atomic write to a gate that stays shut, would take off a twentieth each. What is left over the bare change of goroutines is a clock, a lock and two links of a list. " +
	"To do without the select would need a callback from the caller's context, at three allocations a wait."

// A queueTimings is timings of turns.
type queueTimings struct {
	timings
	allocs map[string]float64
	again  map[string]int
}

// queues compares the gates with n waiters.
func queues(e effort, n int) (queueTimings, error) {
	t := queueTimings{timings{ns: make([][]float64, 3)}, map[string]float64{}, map[string]int{}}
	turns := max(20_000, 3*n)
	if n >= 10_000 {
		e = e.fewer(3)
	}
	if e.quick {
		turns = max(200, 2*n)
	}
	var all []gate
	for _, m := range gates[:3] {
		t.names = append(t.names, m.name)
		all = append(all, m.make(1))
	}
	for round := range e.rounds + 1 {
		for turn := range all {
			i := (round + turn) % len(all)
			l, err := queue(all[i], n, turns)
			if err != nil {
				return t, err
			}
			if round == 0 { // fills the pools
				continue
			}
			name := t.names[i]
			t.ns[i] = append(t.ns[i], l.turn)
			t.again[name] += l.again
			if least, ok := t.allocs[name]; !ok || l.allocs < least {
				t.allocs[name] = l.allocs
			}
		}
	}
	return t, nil
}

// lateness measures how late callers learn that their wait was in vain, when many do at once.
func lateness(_ context.Context, e effort) (*section, error) {
	s := newSection("Timing out together")
	n := e.size(10_000)
	s.para("%d callers wait in vain until the same moment; how long after it they know (p99), on the clock on the wall. All are in the queue before it. "+
		"The garbage collector rests.", n)
	e = e.fewer(2)
	t := timings{ns: make([][]float64, len(gates))}
	var all []gate
	for _, m := range gates {
		t.names = append(t.names, m.name)
		all = append(all, m.make(1))
	}
	for round := range e.rounds {
		for turn := range all {
			i := (round + turn) % len(all)
			late, err := timeOutTogether(all[i], n)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.names[i], err)
			}
			t.ns[i] = append(t.ns[i], float64(quantile(late, 0.99)))
		}
	}
	rows := [][]string{{"semaphore", "p99 lateness", "resilient ÷ it"}}
	for _, name := range t.names {
		p := t.perOp(name)
		rows = append(rows, []string{name, fmt.Sprintf("%s (%s–%s)", nanos(p.median), nanos(p.q1), nanos(p.q3)), t.ratio(ours, name).String()})
	}
	s.table(rows...)
	s.ratioAtMost("p99 lateness of 10,000 who time out together", t.ratio(ours, xSync), 0.5, xSync,
		"Waking 10,000 goroutines takes two processors as long by itself: the semaphore that is a channel, with no lock and no queue of its own, is no earlier. "+
			"Tried without gain: a heap of deadlines, and yielding in place of the mutex.")
	return s, nil
}

// timeOutTogether returns the lateness of each of n callers, in order.
func timeOutTogether(g gate, n int) ([]time.Duration, error) {
	ctxs, cancel := callersOf(n)
	defer cancel()
	if err := g.acquire(ctxs[0], 0); err != nil {
		return nil, err
	}
	defer g.release()
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		late, admitted := make([]time.Duration, n), make([]bool, n)
		runtime.GC()
		old := debug.SetGCPercent(-1)
		var all sync.WaitGroup
		until := time.Now().Add(wait)
		for i := range n {
			all.Go(func() {
				admitted[i] = g.acquire(ctxs[i], time.Until(until)) == nil
				late[i] = time.Since(until)
			})
		}
		inTime := settle(n, until.Add(-time.Millisecond))
		all.Wait()
		debug.SetGCPercent(old)
		switch {
		case slices.Contains(admitted, true):
			return nil, errAdmitted
		case inTime || wait > 10*time.Second:
			slices.Sort(late)
			return late, nil
		}
	}
}

// quantile returns the least of all, which are in order, that a share q does not exceed.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return all[min(len(all)-1, int(q*float64(len(all))))]
}
