package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/resilient-go/resilient/semaphore"
)

// An op is something that was done to a semaphore, from one moment to another, and what came of it.
type op struct {
	kind    string
	waits   bool
	limits  semaphore.Limits // of resize
	from    int64
	to      int64
	outcome string
}

func (o op) String() string {
	return fmt.Sprintf("%d-%d %s %+v waits %v: %s", o.from, o.to, o.kind, o.limits, o.waits, o.outcome)
}

// How far an op has come, in an order that might have been.
const (
	notYet  = iota
	queued  // an Acquire that waits
	granted // an Acquire that waited, and has a permit
	done
)

// An order is one in which ops might have happened: a sequential semaphore, too slow and too simple to be wrong, and how far
// each op has come with it.
type order struct {
	ops    []op
	phases []byte
	queue  []int // of ops
	max    int
	room   int // in the queue
	active int
	full   int
	waited int
	closed bool
}

// linearizable reports whether there is an order of all ops, each at some moment between its beginning and its end, in which a
// semaphore that does one thing at a time comes to the same outcomes. It is Wing and Gong's search, with the states that led
// nowhere kept. An Acquire that waits happens in two: it joins the queue, and leaves it.
func linearizable(l semaphore.Limits, ops []op) bool {
	start := order{ops: ops, phases: make([]byte, len(ops)), max: l.MaxConcurrent, room: l.MaxWaiting}
	return start.search(map[string]bool{})
}

func (o *order) search(dead map[string]bool) bool {
	key := fmt.Sprint(o.phases, o.queue, o.max, o.room, o.active, o.full, o.waited, o.closed)
	if dead[key] {
		return false
	}
	first := int64(math.MaxInt64) // the end of the first that is not done: what begins later comes later
	for i, p := range o.phases {
		if p != done {
			first = min(first, o.ops[i].to)
		}
	}
	if first == math.MaxInt64 {
		return true
	}
	for i, p := range o.phases {
		if p == done || o.ops[i].from > first {
			continue
		}
		next := *o
		next.phases, next.queue = slices.Clone(o.phases), slices.Clone(o.queue)
		if next.step(i) && next.search(dead) {
			return true
		}
	}
	dead[key] = true
	return false
}

// step has an op do the next thing, and reports whether that fits what came of it.
func (o *order) step(i int) bool {
	op := &o.ops[i]
	want, phase := op.outcome, o.phases[i]
	o.phases[i] = done
	switch op.kind {
	case "acquire":
		return o.acquire(i, phase)
	case "try":
		if o.active >= o.max {
			return want == "full"
		}
		o.active++
		return want == "permit"
	case "release":
		o.active--
		return o.grant()
	case "resize":
		if !o.closed {
			o.max, o.room = op.limits.MaxConcurrent, op.limits.MaxWaiting
		}
		return o.grant()
	case "close":
		o.max, o.room, o.closed = 0, 0, true
		for _, w := range o.queue {
			o.phases[w] = done
			if r := o.ops[w].outcome; r != "closed" && r != "gone" {
				return false
			}
		}
		o.queue = nil
		return true
	case "state":
		return want == stateText(semaphore.State{MaxConcurrent: o.max, MaxWaiting: o.room, Active: o.active, Waiting: len(o.queue),
			RejectedFull: uint64(o.full), RejectedWaited: uint64(o.waited)})
	}
	panic(op.kind)
}

func (o *order) acquire(i int, phase byte) bool {
	want := o.ops[i].outcome
	switch {
	case phase == granted: // as its caller left: it passes the permit on
		o.active--
		return want == "gone" && o.grant()
	case phase == queued:
		o.queue = slices.DeleteFunc(o.queue, func(w int) bool { return w == i })
		if want == "waited" {
			o.waited++
		}
		return want == "waited" || want == "gone"
	case !o.closed && o.active >= o.max && o.ops[i].waits && len(o.queue) < o.room:
		o.phases[i] = queued
		o.queue = append(o.queue, i)
		return true
	case want == "gone": // before it came: it takes nothing
		return true
	case o.closed:
		return want == "closed"
	case o.active < o.max:
		o.active++
		return want == "permit"
	}
	o.full++
	return want == "full"
}

// grant hands free permits to those who wait, first come first served, and reports whether that fits what came of them.
func (o *order) grant() bool {
	for o.active < o.max && len(o.queue) > 0 {
		w := o.queue[0]
		o.queue = o.queue[1:]
		o.active++
		switch o.ops[w].outcome {
		case "permit":
			o.phases[w] = done
		case "gone":
			o.phases[w] = granted
		default:
			return false
		}
	}
	return true
}

func stateText(s semaphore.State) string {
	return fmt.Sprint(s.MaxConcurrent, s.MaxWaiting, s.Active, s.Waiting, s.RejectedFull, s.RejectedWaited)
}

// A deed of a goroutine's: an op, how long it waits at most, how long its caller does, and what comes before it.
type deed struct {
	Kind       string
	Limits     semaphore.Limits
	Wait, Gone time.Duration
	Yields     int
}

// Whatever several goroutines do at the same time, what comes of it is what a semaphore that does one thing at a time would do,
// in some order that agrees with when each of them did it.
func TestLinearizable(t *testing.T) {
	limits := rapid.Custom(func(t *rapid.T) semaphore.Limits {
		return semaphore.Limits{MaxConcurrent: rapid.IntRange(0, 3).Draw(t, "max"), MaxWaiting: rapid.IntRange(0, 3).Draw(t, "waiting")}
	})
	deeds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) deed {
		micros := rapid.SampledFrom([]int{0, 1, 10, 50, 200})
		d := deed{
			Kind: rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "try", "release", "release", "release", "resize", "state", "state", "close"}).Draw(t, "kind"),
			Wait: time.Duration(micros.Draw(t, "wait")) * time.Microsecond, Gone: time.Hour,
			Yields: rapid.IntRange(0, 3).Draw(t, "yields"),
		}
		if rapid.IntRange(0, 3).Draw(t, "impatient") == 0 {
			d.Gone = time.Duration(micros.Draw(t, "gone")) * time.Microsecond
		}
		if d.Kind == "close" && rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
			d.Kind = "state"
		}
		if d.Kind == "resize" {
			d.Limits = limits.Draw(t, "limits")
		}
		return d
	}), 1, 6)
	steps := 0
	rapid.Check(t, func(t *rapid.T) {
		l := limits.Draw(t, "limits")
		program := rapid.SliceOfN(deeds, 2, 4).Draw(t, "program")
		for range 5 { // it does not come the same way each time
			ops := concurrently(l, program)
			steps += len(ops)
			if !linearizable(l, ops) {
				text := ""
				for _, o := range ops {
					text += o.String() + "\n"
				}
				t.Fatalf("of %+v there is no order of\n%s", l, text)
			}
		}
	})
	t.Logf("%d steps", steps)
}

// concurrently runs a program, a goroutine for each part of it, and returns what was done; all permits are given back in the end.
func concurrently(l semaphore.Limits, program [][]deed) []op {
	s := semaphore.New("sber", l)
	var clock atomic.Int64
	var start, all sync.WaitGroup
	start.Add(len(program))
	parts := make([][]op, len(program)+1)
	for i, deeds := range program {
		all.Go(func() {
			start.Done()
			start.Wait()
			held := 0
			for _, d := range deeds {
				for range d.Yields {
					runtime.Gosched()
				}
				if d.Kind == "release" && held == 0 {
					continue
				}
				o := do(s, &clock, d)
				switch {
				case o.kind == "release":
					held--
				case o.outcome == "permit":
					held++
				}
				parts[i] = append(parts[i], o)
			}
			for range held {
				parts[i] = append(parts[i], do(s, &clock, deed{Kind: "release"}))
			}
		})
	}
	all.Wait()
	parts[len(program)] = []op{do(s, &clock, deed{Kind: "state"})}
	return slices.Concat(parts...)
}

// do does a deed, and notes when and what came of it.
func do(s *semaphore.Semaphore, clock *atomic.Int64, d deed) (o op) {
	ctx, cancel := context.WithTimeout(context.Background(), d.Gone)
	defer cancel()
	o = op{kind: d.Kind, waits: d.Wait > 0, limits: d.Limits}
	o.from = clock.Add(1)
	defer func() { o.to = clock.Add(1) }()
	switch d.Kind {
	case "acquire":
		_, err := s.Acquire(ctx, d.Wait)
		full, isFull := errors.AsType[*semaphore.FullError](err)
		switch {
		case err == nil:
			o.outcome = "permit"
		case isFull:
			o.outcome = string(full.Reason)
		case err == errClosed:
			o.outcome = "closed"
		case errors.Is(err, ctx.Err()):
			o.outcome = "gone"
		default:
			o.outcome = strings.TrimSpace("? " + err.Error())
		}
	case "try":
		o.outcome = map[bool]string{true: "permit", false: "full"}[s.TryAcquire()]
	case "release":
		s.Release()
	case "resize":
		s.Resize(d.Limits)
	case "close":
		s.Close(errClosed)
	case "state":
		o.outcome = stateText(s.State())
	}
	return o
}

// The search itself finds what can't be, and what can.
func TestLinearizableFinds(t *testing.T) {
	one := semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 2}
	acquire := func(from, to int64, outcome string) op {
		return op{kind: "acquire", waits: true, from: from, to: to, outcome: outcome}
	}
	release := func(from, to int64) op { return op{kind: "release", from: from, to: to} }
	state := func(from, to int64, text string) op { return op{kind: "state", from: from, to: to, outcome: text} }
	for name, c := range map[string]struct {
		ops  []op
		want bool
	}{
		"one after the other":       {[]op{acquire(1, 2, "permit"), release(3, 4), acquire(5, 6, "permit")}, true},
		"two at once":               {[]op{acquire(1, 2, "permit"), acquire(3, 4, "permit"), release(5, 6)}, false},
		"handed over":               {[]op{acquire(1, 2, "permit"), acquire(3, 6, "permit"), release(4, 5)}, true},
		"handed over, seen waiting": {[]op{acquire(1, 2, "permit"), acquire(3, 8, "permit"), state(4, 5, "1 2 1 1 0 0"), release(6, 7)}, true},
		"a lost wake-up":            {[]op{acquire(1, 2, "permit"), acquire(3, 8, "waited"), state(4, 5, "1 2 1 1 0 0"), release(6, 7), state(9, 10, "1 2 0 0 0 1")}, true},
		"a later lost wake-up": {[]op{acquire(1, 2, "permit"), acquire(3, 12, "waited"), state(4, 5, "1 2 1 1 0 0"), release(6, 7),
			state(8, 9, "1 2 0 1 0 0")}, false},
		"overtaking": {[]op{acquire(1, 2, "permit"), acquire(3, 20, "waited"), state(4, 5, "1 2 1 1 0 0"), acquire(6, 11, "permit"),
			state(7, 8, "1 2 1 2 0 0"), release(9, 10), state(12, 13, "1 2 1 1 0 0")}, false},
		"counted twice":          {[]op{acquire(1, 2, "permit"), {kind: "acquire", from: 3, to: 4, outcome: "full"}, state(5, 6, "1 2 1 0 2 0")}, false},
		"a permit that vanishes": {[]op{acquire(1, 2, "permit"), release(3, 4), state(5, 6, "1 2 1 0 0 0")}, false},
		"passed on by one who left": {[]op{acquire(1, 2, "permit"), acquire(3, 12, "gone"), acquire(5, 13, "permit"), state(6, 7, "1 2 1 2 0 0"), release(8, 9),
			state(10, 11, "1 2 1 1 0 0")}, true},
	} {
		if got := linearizable(one, c.ops); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
