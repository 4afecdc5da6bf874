package main

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"
)

// An effort is how much is spent on measuring.
type effort struct {
	rounds int           // of each comparison
	slice  time.Duration // how long a contender runs in a round, at least
	count  int           // operations whose allocations are counted
	load   time.Duration // how long a server is loaded
	quick  bool          // to see that the program works; what it measures means nothing
}

var (
	full  = effort{rounds: 21, slice: 40 * time.Millisecond, count: 2000, load: 2 * time.Second}
	quick = effort{rounds: 2, slice: time.Millisecond, count: 50, load: 100 * time.Millisecond, quick: true}
)

// size returns n, or less where it is only to be seen that the program works.
func (e effort) size(n int) int {
	if e.quick {
		return min(n, 100+n/100)
	}
	return n
}

// fewer returns e with a part of its rounds, for what takes long.
func (e effort) fewer(part int) effort {
	e.rounds = max(2, e.rounds/part)
	return e
}

// A contender is one of those that are compared. Its run does n operations.
type contender struct {
	name string
	run  func(n int) error
}

// A clock tells time of some kind.
type clock func() time.Duration

// cpu is the time that this process has used, on all processors, in the kernel too. It knows what a call costs wherever that
// is spent (a server in this process, a garbage collector beside the caller), and takes less notice of what else the machine does.
func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // which takes no argument that could be wrong
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// timings are what each contender took for an operation in each round, in ns.
type timings struct {
	names []string
	ns    [][]float64 // by contender and round
}

// compare runs the contenders in turn (A B C, B C A, ...), each for e.slice a turn.
func compare(e effort, c clock, contenders ...contender) (timings, error) {
	t := timings{ns: make([][]float64, len(contenders))}
	sizes := make([]int, len(contenders))
	for i, one := range contenders {
		t.names = append(t.names, one.name)
		n, err := calibrate(e, one)
		if err != nil {
			return t, fmt.Errorf("%s: %w", one.name, err)
		}
		sizes[i] = n
	}
	for round := range e.rounds {
		for turn := range contenders {
			i := (round + turn) % len(contenders)
			runtime.GC() // nobody pays for another one's garbage
			began := c()
			if err := contenders[i].run(sizes[i]); err != nil {
				return t, fmt.Errorf("%s: %w", contenders[i].name, err)
			}
			t.ns[i] = append(t.ns[i], float64(c()-began)/float64(sizes[i]))
		}
	}
	return t, nil
}

// calibrate returns how many operations fill a slice.
func calibrate(e effort, c contender) (n int, err error) {
	for n = 1; ; n *= 2 {
		began := time.Now()
		if err := c.run(n); err != nil {
			return 0, err
		}
		if took := time.Since(began); took >= e.slice/2 {
			return max(1, int(float64(n)*float64(e.slice)/float64(took))), nil
		}
	}
}

func (t timings) of(name string) []float64 { return t.ns[slices.Index(t.names, name)] }

// perOp returns how long an operation of that contender takes, in ns.
func (t timings) perOp(name string) spread { return spreadOf(t.of(name)) }

// ratio returns a/b. Each round makes one ratio: what disturbs the machine disturbs both.
func (t timings) ratio(a, b string) spread {
	var ratios []float64
	for i, x := range t.of(a) {
		ratios = append(ratios, x/t.of(b)[i])
	}
	return spreadOf(ratios)
}

// A spread is the median of some measurements, with the quartiles.
type spread struct{ q1, median, q3 float64 }

func spreadOf(all []float64) spread {
	all = slices.Sorted(slices.Values(all))
	at := func(q float64) float64 { // between its neighbours
		pos := q * float64(len(all)-1)
		low, part := int(pos), pos-math.Floor(pos)
		return all[low] + part*(all[min(low+1, len(all)-1)]-all[low])
	}
	return spread{at(0.25), at(0.5), at(0.75)}
}

func (s spread) String() string { return fmt.Sprintf("%.2f (%.2f–%.2f)", s.median, s.q1, s.q3) }

// counts are exact.
type counts struct{ allocs, bytes float64 }

// count returns what an operation allocates, everywhere in this process. The garbage collector rests: it would empty the
// pools, and what fills them again is no part of the operation.
func count(e effort, run func(n int) error) (counts, error) {
	least := counts{math.Inf(1), math.Inf(1)}
	for range 3 { // the runtime itself allocates now and then
		runtime.GC()
		old := debug.SetGCPercent(-1)
		err := run(e.count/4 + 10)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err == nil {
			err = run(e.count)
		}
		runtime.ReadMemStats(&after)
		debug.SetGCPercent(old)
		if err != nil {
			return least, err
		}
		n := float64(e.count)
		least.allocs = min(least.allocs, float64(after.Mallocs-before.Mallocs)/n)
		least.bytes = min(least.bytes, float64(after.TotalAlloc-before.TotalAlloc)/n)
	}
	return least, nil
}

func (c counts) minus(d counts) counts { return counts{c.allocs - d.allocs, c.bytes - d.bytes} }
