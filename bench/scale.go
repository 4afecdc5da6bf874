package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/resilient-go/resilient"
)

// scale measures how the cost of a call grows with what may grow.
func scale(ctx context.Context, e effort) (*section, error) {
	s := newSection("Scale")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.para("CPU time of one call without a network, as something grows: bare, and with everything on. (For the length of the queue see *A full queue*.)")
	for _, g := range []struct {
		name, axis, note string
		sizes            []int
		make             func(ctx context.Context, n int) (with, without caller, done func(), err error)
	}{
		{"systems", "clients, called in turn", "With many clients each one's memory is cold when its turn comes.", []int{1, 10, 100, 1000, 10_000}, manySystems},
		{"in-flight", "exchanges in flight in the same client", "Each is known to its client, so that a Shutdown can end it.", []int{1, 10, 100, 1000, 10_000}, manyInFlight},
		{"headers", "request headers", "All are looked at before anything is taken for a request that could not be sent.", []int{1, 10, 100, 1000}, manyHeaders},
		{"body", "bytes of the response's body", "Each Read tells the client's clock of silence; no byte is copied.", []int{1, 100, 10_000, 1_000_000}, largeBody},
		{"upload", "bytes of a streamed request body", "A streamed body is read in pieces of 32 KiB at most, each a sign of life.", []int{1, 100, 10_000, 1_000_000}, largeUpload},
	} {
		rows := [][]string{{g.axis, bare, ours, "added"}}
		lines := []series{{name: ours}, {name: bare}}
		for _, full := range g.sizes {
			n := e.size(full)
			with, without, done, err := g.make(ctx, n)
			if err != nil {
				return nil, fmt.Errorf("%s, %d: %w", g.axis, n, err)
			}
			t, err := compare(e.fewer(3), cpu, contender{ours, with.run}, contender{bare, without.run})
			done()
			if err != nil {
				return nil, fmt.Errorf("%s, %d: %w", g.axis, n, err)
			}
			a, b := t.perOp(ours).median, t.perOp(bare).median
			rows = append(rows, []string{fmt.Sprint(n), nanos(b), nanos(a), nanos(max(0, a-b))})
			for i, y := range []float64{a, b} {
				lines[i].x, lines[i].y = append(lines[i].x, float64(n)), append(lines[i].y, y)
			}
		}
		s.table(rows...)
		s.chart("scale-"+g.name, "CPU time of a call by "+g.axis, lineChart("A call by "+g.axis, g.axis, "ns of CPU time", lines...))
		s.para("%s", g.note)
	}
	return s, nil
}

func manySystems(ctx context.Context, n int) (with, without caller, done func(), err error) {
	i := 0
	f, err := newFleet(n, plenty.config(), func() []resilient.Option {
		return []resilient.Option{resilient.WithBase(newNoNetwork(200, "ok"))}
	})
	if err != nil {
		return
	}
	with, err = get(ctx, roundTripFunc(func(req *http.Request) (*http.Response, error) {
		i++
		return f.clients[i%n].RoundTrip(req)
	}), "http://sber.test/")
	if err != nil {
		return
	}
	without, err = get(ctx, newNoNetwork(200, "ok"), "http://sber.test/")
	return with, without, func() { _ = f.close() }, err
}

// A roundTripFunc is an http.RoundTripper for a caller.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func manyInFlight(ctx context.Context, n int) (with, without caller, done func(), err error) {
	l := plenty
	l.permits = n + 1
	g, err := overOurs(l, newNoNetwork(200, "ok"))
	if err != nil {
		return
	}
	var open []io.Closer
	for range n {
		body, err := openBody(ctx, g)
		if err != nil {
			return with, without, nil, err
		}
		open = append(open, body)
	}
	if with, err = get(ctx, g, "http://sber.test/"); err != nil {
		return
	}
	without, err = get(ctx, newNoNetwork(200, "ok"), "http://sber.test/")
	return with, without, func() {
		for _, body := range open {
			body.Close()
		}
		g.close()
	}, err
}

func manyHeaders(ctx context.Context, n int) (with, without caller, done func(), err error) {
	return withRequest(ctx, newNoNetwork(200, "ok"), newNoNetwork(200, "ok"), func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, "GET", "http://sber.test/", nil)
		for i := range n {
			req.Header.Set(fmt.Sprintf("X-Header-%d", i), "a value of no great length")
		}
		return req, err
	}, false)
}

func largeBody(ctx context.Context, n int) (with, without caller, done func(), err error) {
	content := strings.Repeat("x", n)
	return withRequest(ctx, newNoNetwork(200, content), newNoNetwork(200, content), func(ctx context.Context) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, "GET", "http://sber.test/", nil)
	}, false)
}

func largeUpload(ctx context.Context, n int) (with, without caller, done func(), err error) {
	content := strings.Repeat("x", n)
	return withRequest(ctx, newNoNetwork(200, "ok"), newNoNetwork(200, "ok"), func(ctx context.Context) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, "POST", "http://sber.test/", struct{ io.Reader }{strings.NewReader(content)})
	}, true)
}

// withRequest has two callers, one over ours, make the same request each time, or a new one.
func withRequest(ctx context.Context, base, other *noNetwork, make func(context.Context) (*http.Request, error), anew bool) (with, without caller, done func(), err error) {
	g, err := overOurs(plenty, base)
	if err != nil {
		return
	}
	req, err := make(ctx)
	next := func() (*http.Request, error) { return req, nil }
	if anew {
		next = func() (*http.Request, error) { return make(ctx) }
	}
	return caller{g, next}, caller{other, next}, g.close, err
}
