package main

import (
	"context"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	xsync "golang.org/x/sync/semaphore"

	"github.com/resilient-go/resilient/semaphore"
)

const (
	xSync   = "x/sync"
	channel = "channel and timer"
)

// A gate lets a number of callers in at a time; others wait, first come first served.
type gate interface {
	acquire(ctx context.Context, wait time.Duration) error
	release()
}

// A gateMaker is a kind of gate that is compared.
type gateMaker struct {
	name string
	make func(permits int) gate
}

var gates = []gateMaker{
	{ours, func(n int) gate {
		return ourGate{semaphore.New("sber", semaphore.Limits{MaxConcurrent: n, MaxWaiting: 1 << 20})}
	}},
	{xSync, func(n int) gate { return xGate{xsync.NewWeighted(int64(n))} }},
	{channel, func(n int) gate { return make(channelGate, n) }},
	{failsafe, func(n int) gate { return failsafeGate{bulkhead.New[any](uint(n))} }},
}

type ourGate struct{ *semaphore.Semaphore }

func (g ourGate) acquire(ctx context.Context, wait time.Duration) error {
	_, err := g.Acquire(ctx, wait)
	return err
}

func (g ourGate) release() { g.Release() }

// An xGate is bounded by a context with a timeout, which is made only where one has to wait.
type xGate struct{ *xsync.Weighted }

func (g xGate) acquire(ctx context.Context, wait time.Duration) error {
	if g.TryAcquire(1) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return g.Acquire(ctx, 1)
}

func (g xGate) release() { g.Release(1) }

type channelGate chan struct{}

func (g channelGate) acquire(ctx context.Context, wait time.Duration) error {
	select {
	case g <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case g <- struct{}{}:
		return nil
	case <-timer.C:
		return errFull
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g channelGate) release() { <-g }

type failsafeGate struct{ bulkhead.Bulkhead[any] }

func (g failsafeGate) acquire(ctx context.Context, wait time.Duration) error {
	return g.AcquirePermitWithMaxWait(ctx, wait)
}

func (g failsafeGate) release() { g.ReleasePermit() }

// freeGate measures a permit that is free.
func freeGate(ctx context.Context, e effort) (*section, error) {
	s := newSection("A free permit")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var contenders []contender
	allocated := map[string]counts{}
	for _, m := range gates {
		g := m.make(16)
		run := func(n int) error {
			for range n {
				if err := g.acquire(ctx, time.Second); err != nil {
					return err
				}
				g.release()
			}
			return nil
		}
		var err error
		if allocated[m.name], err = count(e, run); err != nil {
			return nil, err
		}
		contenders = append(contenders, contender{m.name, run})
	}
	t, err := compare(e, cpu, contenders...)
	if err != nil {
		return nil, err
	}
	s.para("Taking one of 16 free permits and giving it back. That of x/sync is its TryAcquire, which looks at no context.")
	rows := [][]string{{"semaphore", "allocations", "CPU", "resilient ÷ it"}}
	for _, m := range gates {
		rows = append(rows, []string{m.name, number(allocated[m.name].allocs), nanos(t.perOp(m.name).median), t.ratio(ours, m.name).String()})
	}
	s.table(rows...)
	s.atMost("allocations of a free permit, taken and given back", allocated[ours].allocs, 0, "", "")
	s.ratioAtMost("a free permit, taken and given back", t.ratio(ours, xSync), 1, xSync,
		"Within a fiftieth: two compare-and-swaps and a look at the caller's context here, a mutex twice there. With callers on two processors it is ahead: see the packages' own benchmarks.")
	s.ratioAtMost("the same", t.ratio(ours, channel), 0.4, channel,
		"Two compare-and-swaps on one word and a look at the caller's context are all that is done; sharing the word out among processors would lose the order of those who wait.")
	return s, nil
}
