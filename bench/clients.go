package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/transport"
)

// A fleet is clients of one registry, and its metrics.
type fleet struct {
	reg     *resilient.Registry
	prom    *prometheus.Registry
	clients []*resilient.Client
}

func newFleet(n int, cfg resilient.Config, opts func() []resilient.Option) (*fleet, error) {
	f := &fleet{prom: prometheus.NewRegistry()}
	f.reg = resilient.NewRegistry(resilient.WithRegisterer(f.prom))
	for i := range n {
		c, err := f.reg.NewClient(fmt.Sprintf("system-%d", i), cfg, opts()...)
		if err != nil {
			return nil, err
		}
		f.clients = append(f.clients, c)
	}
	return f, nil
}

// close lets go of what registries of the process know; the fleet's own goes with it.
func (f *fleet) close() error { return f.reg.Shutdown(context.Background()) }

func noOptions() []resilient.Option { return nil }

// heap is what is in use, after what can be thrown away has been.
func heap() float64 {
	for range 3 { // pools take two
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// idleClients measures what a client is that does nothing.
func idleClients(ctx context.Context, e effort) (*section, error) {
	s := newSection("Idle clients")
	n := e.size(10_000)
	cfg, err := resilient.Config{}.Complete()
	if err != nil {
		return nil, err
	}
	before := heap()
	transports := make([]*http.Transport, n)
	for i := range transports {
		transports[i] = transport.Base(cfg)
	}
	each := (heap() - before) / float64(n)
	runtime.KeepAlive(transports)
	clear(transports)

	goroutines := runtime.NumGoroutine()
	before = heap()
	f, err := newFleet(n, resilient.Config{}, noOptions)
	if err != nil {
		return nil, err
	}
	fresh := (heap()-before)/float64(n) - each
	extra := runtime.NumGoroutine() - goroutines
	if _, err := f.prom.Gather(); err != nil {
		return nil, err
	}
	scraped := (heap()-before)/float64(n) - each
	if err := f.close(); err != nil {
		return nil, err
	}
	used, unused, err := usedClients(ctx, e)
	if err != nil {
		return nil, err
	}
	s.para("%d clients with the default configuration, of which none calls anything. Memory is that of a client without its transport, which takes %s bytes by itself.", n, number(each))
	s.table(
		[]string{"client", "heap"},
		[]string{"made", number(fresh) + " B"},
		[]string{"scraped: every series is there, with zeros", number(scraped) + " B"},
		[]string{"after calls with every outcome" + unused, number(used) + " B"},
	)
	s.atMost("an idle client over its transport, never used", fresh, 1024, " B",
		"It can't be met with these parts: gobreaker with its window, the semaphore, and the configuration that State returns are more than that by themselves. Without the retry's budget until it is used, and with one set of rules for all that read it, about 1 KB could go.")
	s.atMost("an idle client over its transport, all series used", used, 3072, " B",
		"Fifteen histograms of 168 bytes, each made when it is first needed, are 2.5 KB on top of the row above. Fewer buckets, or one histogram for the rare outcomes, would say less.")
	s.atMost("heap that a scrape leaves behind, a client", max(0, scraped-fresh), 16, " B", "")
	s.atMost(fmt.Sprintf("goroutines of %d idle clients", n), float64(extra), 0, "", "")

	m := e.size(10_000)
	t, err := compare(e.fewer(7), cpu, contender{ours, func(k int) error {
		for range k {
			if _, err := newFleet(m, resilient.Config{}, noOptions); err != nil {
				return err
			}
		}
		return nil
	}}, contender{bare, func(k int) error {
		for range k {
			all := make([]*http.Transport, m)
			for i := range all {
				all[i] = plenty.transport()
			}
			runtime.KeepAlive(all)
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	parts, err := partsOf(e)
	if err != nil {
		return nil, err
	}
	s.para("What a client consists of, its transport included, by the function that makes it:")
	s.table(parts...)
	s.para("Making %d of them:", m)
	s.table(
		[]string{"client", "CPU for each"},
		[]string{bare + " (a clone of http.DefaultTransport)", nanos(t.perOp(bare).median / float64(m))},
		[]string{ours, nanos(t.perOp(ours).median / float64(m))},
	)
	s.ratioAtMost(fmt.Sprintf("making %d clients", m), t.ratio(ours, bare), 2.5, "bare",
		"The clone of a Transport is half a microsecond; the parts above are some hundred allocations, and the name and the configuration are checked. Tried: no look at all other clients for each new one (a fifth of what it was), no message for a rule that holds (half of that). The rest would need parts that are made when they are first used.")
	return s, nil
}

// partsOf returns a table of what a new client is made of.
func partsOf(e effort) ([][]string, error) {
	n := e.size(1000)
	oldRate := runtime.MemProfileRate
	defer func() { runtime.MemProfileRate = oldRate }()
	runtime.MemProfileRate = 1
	before, err := memoryRecords(inUse)
	if err != nil {
		return nil, err
	}
	f, err := newFleet(n, resilient.Config{}, noOptions)
	if err != nil {
		return nil, err
	}
	after, err := memoryRecords(inUse)
	if err != nil {
		return nil, err
	}
	rows := [][]string{{"made in", "bytes"}}
	rest := 0.0
	for _, sp := range growth(before, after) {
		if each := float64(sp.value) / float64(n); each >= 100 {
			rows = append(rows, []string{"`" + sp.where + "`", number(each)})
		} else {
			rest += each
		}
	}
	return append(rows, []string{"others, less than 100 each", number(rest)}), f.close()
}

// usedClients returns what is left of a client in memory when it has seen every outcome but the one that ends it, without its
// transport, and a remark on what it has not seen.
func usedClients(ctx context.Context, e effort) (bytes float64, unused string, err error) {
	n := e.size(1000)
	cfg := resilient.Config{ConnectTimeout: time.Millisecond, ReadTimeout: 20 * time.Millisecond, TotalTimeout: 40 * time.Millisecond, MaxConnsPerHost: 2}
	cfg.Bulkhead.AcquireTimeout, cfg.Bulkhead.MaxWaiting = resilient.NoWait, resilient.NoQueue
	// Neither opens by itself: it is forced.
	cfg.Breaker.MinRequests, cfg.Breaker.ConsecutiveFailures = 1_000_000, resilient.Off
	before := heap()
	bases := make([]*scripted, n)
	for i := range bases {
		bases[i] = &scripted{name: fmt.Sprint(i)}
	}
	each := (heap() - before) / float64(n)
	i := 0
	f, err := newFleet(n, cfg, func() []resilient.Option {
		i++
		return []resilient.Option{resilient.WithBase(bases[i-1]), resilient.WithLogger(silent)}
	})
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	for range 5 { // a busy machine makes some calls end otherwise
		if err := useAll(ctx, f.clients); err != nil {
			return 0, "", err
		}
		if unused, err = unusedOutcomes(f.prom, n); err != nil {
			return 0, "", err
		}
		if strings.Count(unused, ",") == 0 {
			break
		}
	}
	bytes = (heap()-before)/float64(n) - each
	runtime.KeepAlive(bases)
	if unused != "" {
		unused = " but " + unused
	}
	return bytes, unused, nil
}

// unusedOutcomes names the outcomes that not all systems have seen.
func unusedOutcomes(g prometheus.Gatherer, systems int) (string, error) {
	families, err := g.Gather()
	if err != nil {
		return "", err
	}
	seen, names := map[string]int{}, []string(nil)
	for _, f := range families {
		if f.GetName() != "resilient_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "outcome" && m.GetCounter().GetValue() > 0 {
					seen[l.GetValue()]++
				} else if l.GetName() == "outcome" {
					seen[l.GetValue()] += 0
				}
			}
		}
	}
	for name, n := range seen {
		if n < systems {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", "), nil
}

// useAll has each client make calls that end in every way.
func useAll(ctx context.Context, clients []*resilient.Client) error {
	var wg sync.WaitGroup
	errs := make(chan error, len(clients))
	busy := make(chan struct{}, 64)
	for _, c := range clients {
		busy <- struct{}{}
		wg.Go(func() {
			defer func() { <-busy }()
			if err := useOne(ctx, c); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

func useOne(ctx context.Context, c *resilient.Client) error {
	request := func(ctx context.Context, path string) *http.Request {
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://sber.test/"+path, nil)
		return req
	}
	do := func(req *http.Request) {
		defer func() { _ = recover() }()
		if resp, err := c.RoundTrip(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	for _, path := range []string{"ok", "500", "error", "panic", "upgrade", "hang"} {
		do(request(ctx, path))
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	do(request(gone, "ok"))
	invalid := request(ctx, "ok")
	invalid.Method = "NO METHOD"
	do(invalid)
	c.ForceOpen(0)
	do(request(ctx, "ok"))
	c.Automatic()
	resp, err := c.RoundTrip(request(ctx, "ok"))
	if err != nil {
		return nil // too slow a machine: next time
	}
	do(request(ctx, "ok")) // there is no second permit
	for range 1000 {
		if c.State().InFlight == 0 { // nobody reads the body: the total ends it
			return resp.Body.Close()
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("a forgotten body never ends")
}

// A scripted base ends a call in the way that its path says.
type scripted struct{ name string }

func (b *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	status, body := 200, io.NopCloser(strings.NewReader("ok"))
	switch req.URL.Path {
	case "/500":
		status = 500
	case "/error":
		return nil, errors.New("no route to " + b.name)
	case "/panic":
		panic("a broken transport")
	case "/upgrade":
		status, body = http.StatusSwitchingProtocols, duplex{}
	case "/hang":
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return &http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: noHeader, ContentLength: 2, Body: body, Request: req}, nil
}

type duplex struct{}

func (duplex) Read([]byte) (int, error)    { return 0, io.EOF }
func (duplex) Write(p []byte) (int, error) { return len(p), nil }
func (duplex) Close() error                { return nil }
