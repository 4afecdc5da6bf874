package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// calls measures a successful call through each stack where the base costs next to nothing.
func calls(ctx context.Context, e effort) (*section, error) {
	s := newSection("A call, without a network")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var contenders []contender
	allocated := map[string]counts{}
	for _, st := range stacks {
		g, err := st.over(plenty, newNoNetwork(200, "ok"))
		if err != nil {
			return nil, err
		}
		defer g.close()
		c, err := get(ctx, g, "http://sber.test/")
		if err != nil {
			return nil, err
		}
		if allocated[st.name], err = count(e, c.run); err != nil {
			return nil, fmt.Errorf("%s: %w", st.name, err)
		}
		contenders = append(contenders, contender{st.name, c.run})
	}
	t, err := compare(e, cpu, contenders...)
	if err != nil {
		return nil, err
	}

	s.para("What the stacks themselves cost: the base derives a context for each request, as http.Transport does, and returns two bytes. " +
		"The caller could cancel, reads the body to its end and closes it. CPU time, the garbage collector's included.")
	rows := [][]string{{"stack", "allocations", "bytes", "CPU", "× bare", "resilient ÷ it"}}
	var bars []bar
	for _, st := range stacks {
		a := allocated[st.name]
		rows = append(rows, []string{st.name, number(a.allocs), number(a.bytes), nanos(t.perOp(st.name).median),
			t.ratio(st.name, bare).String(), t.ratio(ours, st.name).String()})
		bars = append(bars, bar{st.name, t.perOp(st.name), st.name == ours})
	}
	s.table(rows...)
	s.chart("calls", "CPU time of a call through each stack", barChart("A call without a network, ns of CPU time", bars))
	const slower = "The garbage collector and the exchange itself are most of it: see the profile below. Tried: one look at the clock for all who ask at the same moment (a tenth less), an exchange that fits the size class below (128 bytes less). What is left is the copy of the request, the watch on the caller's context, two locks each of breaker and metrics, and the silence around each Read; the goal takes a chain without executions, reload, streams and conserved counts."
	s.ratioAtMost("a call without a network, all layers and metrics", t.ratio(ours, failsafe), 0.45, failsafe, slower)
	s.ratioAtMost("the same", t.ratio(ours, byHand), 0.9, "the chain "+byHand, slower)
	s.ratioAtMost("the same", t.ratio(ours, promOnly), 1.5, promOnly, slower)
	s.ratioAtMost("the same", t.ratio(ours, otelOnly), 0.5, otelOnly, slower)
	return s, nil
}

// layers counts what each layer adds alone, and all with something foreign between them.
func layers(ctx context.Context, e effort) (*section, error) {
	s := newSection("The layers, one by one")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg, err := plenty.config().Complete()
	if err != nil {
		return nil, err
	}
	breaker := transport.NewBreaker("sber", cfg)
	sem := semaphore.New("sber", semaphore.Limits{MaxConcurrent: plenty.permits, MaxWaiting: plenty.waiting})
	bulkhead, timeouts := transport.Bulkhead(sem, plenty.wait, breaker.Peek), transport.NewTimeouts("sber", cfg)
	base := newNoNetwork(200, "ok")
	chain := func(layers ...transport.Layer) guarded {
		return guarded{transport.Chain(base, layers...), nothingToClose}
	}
	client, err := overOurs(plenty, newNoNetwork(200, "ok"))
	if err != nil {
		return nil, err
	}
	defer client.close()
	stacks := []struct {
		name  string
		rt    http.RoundTripper
		limit float64
	}{
		{"the base alone", base, 0},
		{"bulkhead", chain(bulkhead), 4},
		{"breaker", chain(breaker.Wrap), 5},
		{"timeouts", chain(timeouts.Wrap), 7},
		{"all three", chain(bulkhead, breaker.Wrap, timeouts.Wrap), 8},
		{"all three, and a foreign layer below the bulkhead", chain(bulkhead, foreign, breaker.Wrap, timeouts.Wrap), 12},
		{"the whole client, with metrics", client, 8},
	}
	var contenders []contender
	var added []counts
	for i, st := range stacks {
		c, err := get(ctx, st.rt, "http://sber.test/")
		if err != nil {
			return nil, err
		}
		a, err := count(e, c.run)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", st.name, err)
		}
		added = append(added, a)
		if i > 0 {
			added[i] = a.minus(added[0])
			s.atMost("allocations added by "+st.name, added[i].allocs, st.limit, "", "")
		}
		contenders = append(contenders, contender{st.name, c.run})
	}
	t, err := compare(e, cpu, contenders...)
	if err != nil {
		return nil, err
	}
	s.para("Each layer around the same base as above. Layers directly around one another share one exchange, so together they cost " +
		"less than one by one; a foreign layer between them begins a second one.")
	rows := [][]string{{"layers", "allocations added", "bytes added", "CPU added"}}
	for i, st := range stacks[1:] {
		rows = append(rows, []string{st.name, number(added[i+1].allocs), number(added[i+1].bytes),
			nanos(t.perOp(st.name).median - t.perOp(stacks[0].name).median)})
	}
	s.table(rows...)
	return s, nil
}

// foreign is a layer of somebody else's.
func foreign(next http.RoundTripper) http.RoundTripper { return foreignLayer{next} }

type foreignLayer struct{ next http.RoundTripper }

func (f foreignLayer) RoundTrip(req *http.Request) (*http.Response, error) {
	return f.next.RoundTrip(req)
}

// A bodyKind is a kind of request.
type bodyKind struct {
	name string
	body func() io.Reader
}

var bodyKinds = []bodyKind{
	{"no request body", func() io.Reader { return nil }},
	{"1 KiB in memory", func() io.Reader { return bytes.NewReader(kibibyte) }},
	{"1 KiB streamed", func() io.Reader { return struct{ io.Reader }{bytes.NewReader(kibibyte)} }},
}

var kibibyte = bytes.Repeat([]byte("x"), 1024)

// post calls with a new request each time.
func (k bodyKind) post(ctx context.Context, rt http.RoundTripper, url string) caller {
	return caller{rt, func() (*http.Request, error) { return http.NewRequestWithContext(ctx, "POST", url, k.body()) }}
}

// loopbackCounts counts what ours adds to a call over the loopback interface.
func loopbackCounts(ctx context.Context, e effort, s *section) error {
	site, err := startSite(http.HandlerFunc(ok))
	if err != nil {
		return err
	}
	defer site.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rows := [][]string{{"request", bare, "", ours, "", "added", ""}}
	for i, kind := range bodyKinds {
		var c [2]counts
		for j, name := range []string{bare, ours} {
			g, err := stackNamed(name).over(plenty, nil)
			if err != nil {
				return err
			}
			c[j], err = count(e, kind.post(ctx, g, site.url).run)
			g.close()
			if err != nil {
				return err
			}
		}
		added := c[1].minus(c[0])
		var row []string
		for _, a := range []counts{c[0], c[1], added} {
			row = append(row, number(a.allocs)+" allocations", number(a.bytes)+" B")
		}
		rows = append(rows, append([]string{kind.name}, row...))
		limit := 8.0
		if i == 2 {
			limit = 11
		}
		s.atMost("allocations added to bare net/http over loopback, "+kind.name, added.allocs, limit, "",
			"Without a network it is 8 exactly, and TestCostOverLoopback holds 8 here: what the server and net/http's own goroutines allocate differs by a fraction from run to run.")
		if i < 2 {
			s.atMost("bytes added, "+kind.name, added.bytes, 1536, " B", "")
		}
	}
	s.para("What is allocated in the whole process for one call, the server's part included:")
	s.table(rows...)
	return nil
}

// loopback measures calls to a server on the loopback interface.
func loopback(ctx context.Context, e effort) (*section, error) {
	s := newSection("A call over the loopback interface")
	site, err := startSite(http.HandlerFunc(ok))
	if err != nil {
		return nil, err
	}
	defer site.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.para("A plain http.Server in this process answers two bytes. CPU time of the whole process, server included: what a service " +
		"with both ends on one machine would see. Over a network, and for an answer that takes work, the share of the layers is smaller.")
	rows := [][]string{{"stack"}}
	for _, st := range stacks {
		rows = append(rows, []string{st.name})
	}
	for _, callers := range []int{1, 64} {
		var contenders []contender
		for _, st := range stacks {
			g, err := st.over(plenty, nil)
			if err != nil {
				return nil, err
			}
			defer g.close()
			c, err := get(ctx, g, site.url)
			if err != nil {
				return nil, err
			}
			if st.name == heimdall { // refuses some of 64 callers with 80 permits
				c.rt = again{c.rt}
			}
			contenders = append(contenders, contender{st.name, parallel(callers, c.run)})
		}
		t, err := compare(e, cpu, contenders...)
		if err != nil {
			return nil, err
		}
		rows[0] = append(rows[0], fmt.Sprintf("CPU, %s", plural(callers, "caller")), "× bare")
		for i, st := range stacks {
			rows[i+1] = append(rows[i+1], nanos(t.perOp(st.name).median), t.ratio(st.name, bare).String())
		}
		s.ratioAtMost(fmt.Sprintf("CPU of a call over loopback, %s", plural(callers, "caller")), t.ratio(ours, bare), 1.12, "bare",
			"Over loopback there is no network to wait for, and the answer is two bytes: the layers' part of the table above is all there is to win, and what it consists of is in the profile below.")
	}
	s.table(rows...)
	if err := loopbackCounts(ctx, e, s); err != nil {
		return nil, err
	}
	return s, nil
}

// again repeats what was refused.
type again struct{ next http.RoundTripper }

func (a again) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	for range 1000 {
		if resp, err = a.next.RoundTrip(req); err == nil || !strings.Contains(err.Error(), "max concurrency") {
			return resp, err
		}
		time.Sleep(100 * time.Microsecond)
	}
	return nil, err
}

// parallel shares out a run among callers.
func parallel(callers int, run func(n int) error) func(n int) error {
	return func(n int) error {
		errs := make(chan error, callers)
		for i := range callers {
			go func() { errs <- run((n + i) / callers) }()
		}
		var first error
		for range callers {
			if err := <-errs; first == nil {
				first = err
			}
		}
		return first
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
