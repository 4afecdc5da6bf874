package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/google/pprof/profile"
)

// processors measures callers on many processors, and looks where they are in one another's way.
func processors(ctx context.Context, e effort) (*section, error) {
	s := newSection("Many processors")
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
	b, err := get(ctx, newNoNetwork(200, "ok"), "http://sber.test/")
	if err != nil {
		return nil, err
	}
	s.para("As many callers as processors, without a network, all through one client. CPU time of a call. This machine has %s; "+
		"a GOMAXPROCS above that shows what it costs to have more callers than processors.", plural(runtime.NumCPU(), "processor"))
	rows := [][]string{{"GOMAXPROCS", bare, ours, "resilient with one processor = 1"}}
	var lines [2]series
	lines[0].name, lines[1].name = ours, bare
	one := 0.0
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 2, 4, 8, 16} {
		runtime.GOMAXPROCS(procs)
		t, err := compare(e.fewer(2), cpu, contender{ours, parallel(procs, c.run)}, contender{bare, parallel(procs, b.run)})
		if err != nil {
			return nil, err
		}
		if procs == 1 {
			one = t.perOp(ours).median
		}
		for i, name := range []string{ours, bare} {
			lines[i].x, lines[i].y = append(lines[i].x, float64(procs)), append(lines[i].y, t.perOp(name).median)
		}
		rows = append(rows, []string{fmt.Sprint(procs), nanos(t.perOp(bare).median), nanos(t.perOp(ours).median), number(t.perOp(ours).median / one)})
	}
	s.table(rows...)
	s.chart("processors", "CPU time of a call by GOMAXPROCS", lineChart("A call by GOMAXPROCS", "processors", "ns of CPU time", lines[0], lines[1]))

	together, err := allInside(ctx)
	if err != nil {
		return nil, err
	}
	s.goals = append(s.goals, goal{fmt.Sprintf("calls that can be in the base at the same moment, of %d", plenty.permits), "all: no lock is held across a round trip",
		fmt.Sprint(together), together == plenty.permits, ""})
	runtime.GOMAXPROCS(max(2, runtime.NumCPU()))
	waits, n, err := contention(parallel(16, c.run), e)
	if err != nil {
		return nil, err
	}
	s.para("No lock is held across a round trip: %d of %d calls were in the base at the same moment. Where %d callers on %s waited for a lock "+
		"in %d calls, by the mutex profile:", together, plenty.permits, 16, plural(runtime.GOMAXPROCS(0), "processor"), n)
	rows = [][]string{{"lock", "waits, of 1,000 calls", "waited, of a call"}}
	for _, w := range waits {
		rows = append(rows, []string{w.where, number(float64(w.count) * 1000 / float64(n)), nanos(float64(w.value) / float64(n))})
	}
	s.table(rows...)
	return s, nil
}

// A meeting is a base that lets calls go on when all are in it.
type meeting struct {
	mu        sync.Mutex
	in, wants int
	all       chan struct{}
}

func (m *meeting) RoundTrip(req *http.Request) (*http.Response, error) {
	m.mu.Lock()
	if m.in++; m.in == m.wants {
		close(m.all)
	}
	m.mu.Unlock()
	select {
	case <-m.all:
		return &http.Response{StatusCode: 200, ProtoMajor: 1, Header: noHeader, Body: http.NoBody, Request: req}, nil
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// allInside returns how many calls were in the base at the same moment.
func allInside(ctx context.Context) (int, error) {
	m := &meeting{wants: plenty.permits, all: make(chan struct{})}
	g, err := overOurs(plenty, m)
	if err != nil {
		return 0, err
	}
	defer g.close()
	c, err := get(ctx, g, "http://sber.test/")
	if err != nil {
		return 0, err
	}
	_ = parallel(plenty.permits, c.run)(plenty.permits) // whoever did not meet the others is in the count
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.in, nil
}

// contention runs a contender for a second and returns who waited for a lock, and how many operations it did.
func contention(run func(n int) error, e effort) ([]spot, int, error) {
	before, err := readProfile("mutex")
	if err != nil {
		return nil, 0, err
	}
	old := runtime.SetMutexProfileFraction(1)
	defer runtime.SetMutexProfileFraction(old)
	n := 0
	for began := time.Now(); time.Since(began) < e.load/2; n += 1000 {
		if err := run(1000); err != nil {
			return nil, 0, err
		}
	}
	after, err := readProfile("mutex")
	if err != nil {
		return nil, 0, err
	}
	return spots(difference(before, after), 0, 1, func(st stackTrace) string { return st.first(isOurs, isGobreaker, isContext) }), n, nil
}

// readProfile returns one of runtime/pprof's profiles.
func readProfile(name string) (*profile.Profile, error) {
	p := pprof.Lookup(name)
	if p == nil {
		return nil, errors.New("no profile " + name)
	}
	var b bytes.Buffer
	if err := p.WriteTo(&b, 0); err != nil {
		return nil, err
	}
	return profile.ParseData(b.Bytes())
}
