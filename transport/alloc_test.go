package transport_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// once is a body of nothing, which is not http.NoBody.
type once struct{}

func (once) Read([]byte) (int, error) { return 0, io.EOF }
func (once) Close() error             { return nil }

// What layers cost over a base that costs a response, for a caller that may
// cancel; with a child context of the base's, as http.Transport makes one.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	cfg := complete(t, config.Config{})
	sem := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 16, MaxWaiting: 16})
	breaker := transport.NewBreaker("sber", cfg)
	bulkhead := transport.Bulkhead(sem, 100*time.Millisecond, breaker.Peek)
	timeout := transport.NewTimeouts("sber", cfg).Wrap
	foreign := func(next http.RoundTripper) http.RoundTripper { return fake(next.RoundTrip) }

	noop := fake(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, ProtoMajor: 1, Body: once{}, ContentLength: -1, Request: req}, nil
	})
	child := fake(func(req *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancel(req.Context())
		_ = ctx
		defer cancel()
		return noop(req)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	measure := func(rt http.RoundTripper) float64 {
		req := newRequest(t, ctx, "GET", "http://sber.test/", nil)
		return testing.AllocsPerRun(2000, func() {
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	}
	bare, bareChild := measure(noop), measure(child)
	t.Logf("bare %v, with a child context %v", bare, bareChild)
	for _, row := range []struct {
		name   string
		layers []transport.Layer
		budget float64
	}{
		{"bulkhead", []transport.Layer{bulkhead}, 4},
		{"breaker", []transport.Layer{breaker.Wrap}, 5},
		{"timeout", []transport.Layer{timeout}, 7},
		{"all three", []transport.Layer{bulkhead, breaker.Wrap, timeout}, 8},
		{"all three, with a foreign one between", []transport.Layer{bulkhead, foreign, breaker.Wrap, timeout}, 12},
	} {
		got, gotChild := measure(transport.Chain(noop, row.layers...))-bare, measure(transport.Chain(child, row.layers...))-bareChild
		t.Logf("%s: +%v, over a base with a child context +%v", row.name, got, gotChild)
		if got > row.budget || gotChild > row.budget {
			t.Errorf("%s: +%v and +%v, at most %v", row.name, got, gotChild, row.budget)
		}
	}
}

// A refusal costs the exchange and its error.
func TestAllocationsOfARefusal(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	breaker := transport.NewBreaker("sber", complete(t, oneProbe))
	none := semaphore.New("sber", semaphore.Limits{})
	free := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1})
	req := newRequest(t, ctx, "GET", "http://sber.test/", nil)
	_, _ = read(breaker.Wrap(answer(500)).RoundTrip(req))
	for name, layers := range map[string][]transport.Layer{
		"full":       {transport.Bulkhead(none, 0, nil)},
		"peek":       {transport.Bulkhead(free, 0, breaker.Peek), breaker.Wrap},
		"open":       {breaker.Wrap},
		"open later": {transport.Bulkhead(free, 0, nil), breaker.Wrap},
	} {
		rt := transport.Chain(answer(200), layers...)
		got := testing.AllocsPerRun(2000, func() {
			if _, err := rt.RoundTrip(req); err == nil {
				t.Fatal("admitted")
			}
		})
		t.Logf("%s: %v", name, got)
		if got > 2 {
			t.Errorf("%s: %v allocations, at most 2", name, got)
		}
	}
}
