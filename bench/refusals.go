package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/sony/gobreaker/v2"

	"github.com/resilient-go/resilient"
)

var errAdmitted = errors.New("admitted")

// refused calls n times, and wants to be refused.
func (c caller) refused(n int) error {
	for range n {
		req, err := c.next()
		if err != nil {
			return err
		}
		if _, err := c.rt.RoundTrip(req); err == nil { //resilient:ignore a refusal is wanted, which has no body; the one that is admitted ends the run
			return errAdmitted
		}
	}
	return nil
}

// refusals measures calls that are refused at once.
func refusals(ctx context.Context, e effort) (*section, error) {
	s := newSection("A refusal")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.para("A call that is refused at once: by an open breaker, and by a full bulkhead with nobody to wait. It ends in a typed error " +
		"that says why, and is counted in the metrics; that of the others is the same one each time.")
	for _, kind := range []struct {
		name string
		make map[string]func(context.Context) (guarded, error)
	}{
		{"breaker open", map[string]func(context.Context) (guarded, error){ours: oursOpen, failsafe: failsafeOpen, byHand: byHandOpen}},
		{"bulkhead full", map[string]func(context.Context) (guarded, error){ours: oursFull, failsafe: failsafeFull, byHand: byHandFull}},
	} {
		rows := [][]string{{kind.name, "allocations", "bytes", "CPU", "resilient ÷ it"}}
		var contenders []contender
		allocated := map[string]counts{}
		names := []string{ours, byHand, failsafe}
		for _, name := range names {
			g, err := kind.make[name](ctx)
			if err != nil {
				return nil, err
			}
			defer g.close()
			c, err := get(ctx, g, "http://sber.test/")
			if err != nil {
				return nil, err
			}
			if allocated[name], err = count(e, c.refused); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", kind.name, name, err)
			}
			contenders = append(contenders, contender{name, c.refused})
		}
		t, err := compare(e, cpu, contenders...)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			rows = append(rows, []string{name, number(allocated[name].allocs), number(allocated[name].bytes),
				nanos(t.perOp(name).median), t.ratio(ours, name).String()})
		}
		s.table(rows...)
		s.atMost("allocations of a refusal, "+kind.name, allocated[ours].allocs, 2, "", "")
		s.ratioAtMost("a refusal, "+kind.name, t.ratio(ours, failsafe), 0.15, failsafe, refusalRemedy)
	}
	return s, nil
}

const refusalRemedy = "A refusal is an exchange like any other: it is begun, timed, counted with its wait and its duration, and ended. " +
	"Its two allocations are that exchange and the error; most of the time goes to clocks and to the metrics' lock. A short cut past the exchange would need a second way to count, and to close the request's body. To use refused exchanges again " +
	"would save the larger allocation, but a Shutdown that runs meanwhile may still hold one, and would then interrupt another's."

func oursOpen(ctx context.Context) (guarded, error) {
	g, err := overOurs(plenty, newNoNetwork(500, "no"))
	if err != nil {
		return g, err
	}
	c := g.RoundTripper.(*resilient.Client)
	failing, err := get(ctx, c, "http://sber.test/")
	if err != nil {
		return g, err
	}
	for range 1000 {
		if c.State().Breaker.State == "open" {
			return g, nil
		}
		_ = failing.call()
	}
	return g, errors.New("the breaker does not open")
}

func oursFull(ctx context.Context) (guarded, error) {
	l := plenty
	l.permits, l.waiting, l.wait = 1, resilient.NoQueue, resilient.NoWait
	g, err := overOurs(l, newNoNetwork(200, "ok"))
	if err != nil {
		return g, err
	}
	_, err = openBody(ctx, g) // holds the only permit
	return g, err
}

// openBody makes a call that lasts until its body is closed.
func openBody(ctx context.Context, rt http.RoundTripper) (io.Closer, error) {
	ctx = resilient.WithBounds(ctx, resilient.Bounds{Total: resilient.Unbounded, Read: resilient.Unbounded})
	req, err := http.NewRequestWithContext(ctx, "GET", "http://sber.test/", nil)
	if err != nil {
		return nil, err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func failsafeOpen(context.Context) (guarded, error) {
	breaker := circuitbreaker.NewBuilder[*http.Response]().WithDelay(time.Hour).Build()
	breaker.Open()
	full := bulkhead.NewBuilder[*http.Response](1).Build()
	return guarded{failsafehttp.NewRoundTripper(newNoNetwork(200, "ok"), full, breaker, timeout.New[*http.Response](plenty.total)), nothingToClose}, nil
}

func failsafeFull(ctx context.Context) (guarded, error) {
	breaker := circuitbreaker.NewBuilder[*http.Response]().Build()
	full := bulkhead.NewBuilder[*http.Response](1).Build()
	full.TryAcquirePermit()
	return guarded{failsafehttp.NewRoundTripper(newNoNetwork(200, "ok"), full, breaker, timeout.New[*http.Response](plenty.total)), nothingToClose}, nil
}

func byHandOpen(context.Context) (guarded, error) {
	h := newHandwritten(plenty, newNoNetwork(200, "ok"))
	for h.breaker.State() != gobreaker.StateOpen {
		done, err := h.breaker.Allow()
		if err != nil {
			return guarded{}, err
		}
		done(errServer)
	}
	return guarded{h, nothingToClose}, nil
}

func byHandFull(ctx context.Context) (guarded, error) {
	l := plenty
	l.permits, l.wait = 1, 0
	h := newHandwritten(l, newNoNetwork(200, "ok"))
	h.permits.TryAcquire(1)
	return guarded{h, nothingToClose}, nil
}
