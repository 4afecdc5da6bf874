package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// A stackTrace is the functions of a sample, the innermost first.
type stackTrace []string

func traceOf(s *profile.Sample) (t stackTrace) {
	for _, loc := range s.Location {
		for _, line := range loc.Line { // those inlined into it first
			if line.Function != nil {
				t = append(t, line.Function.Name)
			}
		}
	}
	return t
}

const module = "github.com/resilient-go/resilient"

func isOurs(f string) bool {
	return strings.HasPrefix(f, module) && !isBench(f) && !strings.HasPrefix(f, module+"/internal/testserver")
}

// isBench is true of this program's functions; in its tests the package is called by its path.
func isBench(f string) bool {
	return strings.HasPrefix(f, "main.") || strings.HasPrefix(f, module+"/bench.")
}
func isBase(f string) bool      { return isBench(f) && strings.Contains(f, ".(*noNetwork") }
func isGobreaker(f string) bool { return strings.Contains(f, "sony/gobreaker") }
func isContext(f string) bool   { return strings.HasPrefix(f, "context.") }

// first returns the innermost function that one of the tests is true of, shortened, or "elsewhere".
func (t stackTrace) first(tests ...func(string) bool) string {
	for _, f := range t {
		for _, test := range tests {
			if test(f) {
				return shorten(f)
			}
		}
	}
	return "elsewhere"
}

func (t stackTrace) has(test func(string) bool) bool { return slices.ContainsFunc(t, test) }

// shorten leaves the package's last part and the function, without type arguments.
func shorten(f string) string {
	if i := strings.Index(f, "["); i >= 0 {
		f = f[:i] + f[strings.LastIndex(f, "]")+1:]
	}
	f = f[strings.LastIndex(f, "/")+1:]
	f = strings.TrimPrefix(f, "v2.")
	for _, r := range []string{"(*", ")"} {
		f = strings.ReplaceAll(f, r, "")
	}
	return f
}

// A spot is a place in the program, with what was counted and measured there.
type spot struct {
	where        string
	count, value int64
}

// spots adds up samples by place, the largest value first. The two numbers say which of a sample's values are count and value.
func spots(samples []*profile.Sample, count, value int, where func(stackTrace) string) []spot {
	sums := map[string]*spot{}
	for _, s := range samples {
		if s.Value[count] == 0 && s.Value[value] == 0 {
			continue
		}
		name := where(traceOf(s))
		if name == "" {
			continue
		}
		if sums[name] == nil {
			sums[name] = &spot{where: name}
		}
		sums[name].count += s.Value[count]
		sums[name].value += s.Value[value]
	}
	var all []spot
	for _, s := range sums {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b spot) int { return cmp.Or(cmp.Compare(b.value, a.value), strings.Compare(a.where, b.where)) })
	return all
}

// difference returns after's samples and before's, negated, for spots to add up.
func difference(before, after *profile.Profile) []*profile.Sample {
	all := slices.Clone(after.Sample)
	for _, s := range before.Sample {
		negative := *s
		negative.Value = make([]int64, len(s.Value))
		for i, v := range s.Value {
			negative.Value[i] = -v
		}
		all = append(all, &negative)
	}
	return all
}

// A part is a share of the cost that stays, and why it does.
type part struct {
	name, why string
	is        func(stackTrace) bool
}

func inPackage(path string) func(stackTrace) bool {
	return func(t stackTrace) bool { // of those that it is about, the innermost decides
		for _, f := range t {
			switch {
			case strings.HasPrefix(f, path+"."):
				return true
			case isOurs(f), isGobreaker(f), isBench(f):
				return false
			}
		}
		return false
	}
}

// parts are tried in order.
var parts = []part{
	{"the base and the caller", "They are there without us: a child context, a response, a copy of the body.", func(t stackTrace) bool {
		return t.has(isBase) || !t.has(isOurs) && t.has(isBench)
	}},
	{"the garbage collector", "It follows from the allocations below.", func(t stackTrace) bool {
		return t.has(func(f string) bool {
			return strings.HasPrefix(f, "runtime.gc") || strings.HasPrefix(f, "runtime.bgsweep") || strings.HasPrefix(f, "runtime.bgscavenge")
		})
	}},
	{"clocks", "An exchange is timed at its start, admission, headers and end, and the timers need to know now; silence is measured around each Read.", func(t stackTrace) bool {
		return t.has(isOurs) && t.has(func(f string) bool {
			return f == "time.Now" || f == "time.Since" || f == "time.runtimeNano" || f == "time.Until" || f == "runtime.nanotime"
		})
	}},
	{"contexts", "The watch on the caller's context: an end of the caller's must end the exchange without a goroutine that waits for it.", func(t stackTrace) bool {
		return t.has(isOurs) && len(t) > 0 && t.first(isContext, isOurs) != "elsewhere" && strings.HasPrefix(t.first(isContext, isOurs), "context.")
	}},
	{"gobreaker", "Its window is asked before the exchange and told after, under its mutex.", func(t stackTrace) bool { return t.has(isGobreaker) }},
	{"semaphore", "A compare-and-swap each way.", inPackage(module + "/semaphore")},
	{"metrics and the register of exchanges (root)", "One lock at each end of the exchange, so that every scrape adds up.", inPackage(module)},
	{"layers (transport)", "Judging the answer; one pooled timer for both bounds, set at the start and stopped at the end.", inPackage(module + "/transport")},
	{"exchange", "The check of the request, its copy, the body's wrapper, and the end, once.", inPackage(module + "/internal/exchange")},
	{"elsewhere", "The scheduler, the runtime.", func(stackTrace) bool { return true }},
}

// costs says where the time and the memory of a call go.
func costs(ctx context.Context, e effort) (*section, error) {
	s := newSection("Where the rest goes, and why it stays")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, err := overOurs(plenty, newNoNetwork(200, "ok"))
	if err != nil {
		return nil, err
	}
	defer g.close()
	c, err := get(ctx, g, "http://sber.test/")
	if err != nil {
		return nil, err
	}
	if err := timeSpent(e, c, s); err != nil {
		return nil, err
	}
	if err := memorySpent(e, c, s); err != nil {
		return nil, err
	}
	return s, nil
}

func timeSpent(e effort, c caller, s *section) error {
	n, err := calibrate(effort{slice: e.load * 2}, contender{run: c.run})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		return err
	}
	err = c.run(n)
	pprof.StopCPUProfile()
	if err != nil {
		return err
	}
	p, err := profile.ParseData(b.Bytes())
	if err != nil {
		return err
	}
	total := int64(0)
	for _, sample := range p.Sample {
		total += sample.Value[1]
	}
	sums := map[string]int64{}
	for _, sp := range spots(p.Sample, 0, 1, func(t stackTrace) string {
		return parts[slices.IndexFunc(parts, func(p part) bool { return p.is(t) })].name
	}) {
		sums[sp.where] = sp.value
	}
	s.para("A CPU profile of %d calls without a network:", n)
	rows := [][]string{{"part", "share", "of a call", "why it stays"}}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(sums[b.name], sums[a.name]) })
	for _, p := range parts {
		if total > 0 {
			rows = append(rows, []string{p.name, fmt.Sprintf("%.0f %%", 100*float64(sums[p.name])/float64(total)), nanos(float64(sums[p.name]) / float64(n)), p.why})
		}
	}
	s.table(rows...)
	return nil
}

// reasons are what the allocations are for, by the function that makes them.
var reasons = []struct{ function, why string }{
	{"exchange.chain.RoundTrip", "The exchange: state, request copy, context and body wrapper in one. A caller may keep the body and resp.Request, so it can't be used again."},
	{"exchange.Exchange.derive", "The channel of the request's context."},
	{"exchange.Exchange.watch", "The watch on the caller's context: what context.AfterFunc makes."},
	{"exchange.ctx.AfterFunc", "The base's own context hangs below ours."},
	{"TwoStepCircuitBreaker", "gobreaker's func that takes the verdict."},
	{"noNetwork", "The base: its context's place below ours, the response."},
}

func reasonFor(where string) string {
	for _, r := range reasons {
		if strings.Contains(where, r.function) {
			return r.why
		}
	}
	return ""
}

// memorySpent lists every allocation of a call. The profile of memory is exact at a rate of 1.
func memorySpent(e effort, c caller, s *section) error {
	n := e.count
	oldRate := runtime.MemProfileRate
	defer func() { runtime.MemProfileRate = oldRate }()
	runtime.MemProfileRate = 1
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	if err := c.run(n); err != nil { // pools, and the rate's taking effect
		return err
	}
	before, err := memoryRecords(allocated)
	if err != nil {
		return err
	}
	if err := c.run(n); err != nil {
		return err
	}
	after, err := memoryRecords(allocated)
	if err != nil {
		return err
	}
	rows := [][]string{{"allocated in", "allocations", "bytes", "what for"}}
	for _, sp := range growth(before, after) {
		if sp.count*10 < int64(n) { // less often is no part of a call: pools that are filled again
			continue
		}
		rows = append(rows, []string{"`" + sp.where + "`", number(float64(sp.count) / float64(n)), number(float64(sp.value) / float64(n)), reasonFor(sp.where)})
	}
	s.para("Every allocation of a call, the base's included:")
	s.table(rows...)
	return nil
}

// growth returns how much more there is after than before, the most first.
func growth(before, after map[string]spot) (all []spot) {
	for where, sp := range after {
		sp.count, sp.value = sp.count-before[where].count, sp.value-before[where].value
		all = append(all, sp)
	}
	slices.SortFunc(all, func(a, b spot) int { return cmp.Or(cmp.Compare(b.value, a.value), strings.Compare(a.where, b.where)) })
	return all
}

func allocated(r *runtime.MemProfileRecord) (objects, bytes int64) {
	return r.AllocObjects, r.AllocBytes
}
func inUse(r *runtime.MemProfileRecord) (objects, bytes int64) {
	return r.InUseObjects(), r.InUseBytes()
}

// memoryRecords returns what a look at the memory profile's records says, by place. The profile is as of the last collection but one.
func memoryRecords(look func(*runtime.MemProfileRecord) (objects, bytes int64)) (map[string]spot, error) {
	runtime.GC()
	runtime.GC()
	n, _ := runtime.MemProfile(nil, true)
	records := make([]runtime.MemProfileRecord, n+100)
	n, complete := runtime.MemProfile(records, true)
	if !complete {
		return nil, errors.New("the memory profile grew by more than 100 places while it was read")
	}
	sums := map[string]spot{}
	for _, r := range records[:n] {
		var t stackTrace
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			t = append(t, f.Function)
		}
		where := t.allocating()
		if slices.ContainsFunc(t, func(f string) bool { return strings.HasSuffix(f, "main.memoryRecords") }) {
			continue // this very look
		}
		sp := sums[where]
		objects, bytes := look(&r)
		sums[where] = spot{where, sp.count + objects, sp.value + bytes}
	}
	return sums, nil
}

// allocating returns who asked for the memory: a function of ours or the base's, and what of another package it called for that.
func (t stackTrace) allocating() string {
	inner := ""
	for _, f := range t {
		switch {
		case strings.HasPrefix(f, "runtime."), strings.HasPrefix(f, "internal/runtime"):
			continue
		case isOurs(f), isBench(f):
			return strings.TrimSuffix(shorten(f)+" → "+inner, " → ")
		case inner == "" || !isGobreaker(f) && !isContext(f):
			inner = shorten(f)
		}
	}
	return inner
}
