package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/resilient-go/resilient/semaphore"
)

// The benchmarks compare the Semaphore with the two obvious ones: a buffered channel with a timer, and a mutex with a count
// (which has no queue, so it appears only where nobody waits). Compare ratios of one run, not times of two.

type channel chan struct{}

func (c channel) Acquire(ctx context.Context, wait time.Duration) (semaphore.Permit, error) {
	select {
	case c <- struct{}{}:
		return c, nil
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case c <- struct{}{}:
		return c, nil
	case <-timer.C:
		return nil, semaphore.ErrBulkheadFull
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c channel) Release() { <-c }

type mutex struct {
	mu        sync.Mutex
	max, held int
}

func (m *mutex) Acquire(ctx context.Context, _ time.Duration) (semaphore.Permit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held >= m.max {
		return nil, semaphore.ErrBulkheadFull
	}
	m.held++
	return m, nil
}

func (m *mutex) Release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held--
}

var bulkheads = []struct {
	name  string
	waits bool
	make  func(permits int) semaphore.Bulkhead
}{
	{"semaphore", true, func(n int) semaphore.Bulkhead {
		return semaphore.New("bench", semaphore.Limits{MaxConcurrent: n, MaxWaiting: 1 << 20})
	}},
	{"mutex", false, func(n int) semaphore.Bulkhead { return &mutex{max: n} }},
	{"channel", true, func(n int) semaphore.Bulkhead { return make(channel, n) }},
}

// A request's context can nearly always be cancelled, so the benchmarks' can.
func requestContext(b *testing.B) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	return ctx
}

func BenchmarkUncontended(b *testing.B) {
	for _, bh := range bulkheads {
		b.Run(bh.name, func(b *testing.B) {
			ctx, s := requestContext(b), bh.make(16)
			b.ReportAllocs()
			for b.Loop() {
				p, err := s.Acquire(ctx, time.Second)
				if err != nil {
					b.Fatal(err)
				}
				p.Release()
			}
		})
	}
}

func BenchmarkParallel(b *testing.B) {
	for _, bh := range bulkheads {
		b.Run(bh.name, func(b *testing.B) {
			ctx, s := requestContext(b), bh.make(1<<10)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					p, err := s.Acquire(ctx, time.Second)
					if err != nil {
						b.Error(err)
						return
					}
					p.Release()
				}
			})
		})
	}
}

func BenchmarkRefusal(b *testing.B) {
	s := semaphore.New("bench", semaphore.Limits{MaxConcurrent: 0})
	ctx := requestContext(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Acquire(ctx, 0); err == nil {
			b.Fatal("admitted")
		}
	}
}

// BenchmarkHandOff is the time from one holder to the next, with that many in the queue at first. Each of them passes once:
// a channel that has just been released could be had again past the queue.
func BenchmarkHandOff(b *testing.B) {
	for _, waiters := range []int{100, 10_000} {
		for _, bh := range bulkheads {
			if !bh.waits {
				continue
			}
			b.Run(fmt.Sprintf("%d/%s", waiters, bh.name), func(b *testing.B) {
				ctx, s := requestContext(b), bh.make(1)
				rounds, took := 0, time.Duration(0)
				for b.Loop() {
					hold, err := s.Acquire(ctx, 0)
					if err != nil {
						b.Fatal(err)
					}
					var all sync.WaitGroup
					for range waiters {
						all.Go(func() {
							p, err := s.Acquire(ctx, time.Hour)
							if err != nil {
								b.Error(err)
								return
							}
							p.Release()
						})
					}
					time.Sleep(time.Duration(waiters) * 4 * time.Microsecond) // for nearly all to be in the queue
					start := time.Now()
					hold.Release()
					all.Wait()
					took += time.Since(start)
					rounds++
				}
				b.ReportMetric(0, "ns/op") // a round, with its sleep
				b.ReportMetric(float64(took.Nanoseconds())/float64(rounds*waiters), "ns/handoff")
			})
		}
	}
}

// BenchmarkTimeout is the time it takes each of 10,000 callers, who waited in vain, to give up together.
func BenchmarkTimeout(b *testing.B) {
	const waiters, wait = 10_000, 50 * time.Millisecond
	for _, bh := range bulkheads {
		if !bh.waits {
			continue
		}
		b.Run(bh.name, func(b *testing.B) {
			ctx, s := requestContext(b), bh.make(1)
			if _, err := s.Acquire(ctx, 0); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var took time.Duration
			for b.Loop() {
				var all sync.WaitGroup
				until := time.Now().Add(wait)
				for range waiters {
					all.Go(func() {
						if _, err := s.Acquire(ctx, time.Until(until)); !errors.Is(err, semaphore.ErrBulkheadFull) {
							b.Error(err)
						}
					})
				}
				all.Wait()
				took += time.Since(until)
			}
			b.ReportMetric(0, "ns/op") // mostly the wait
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/waiters, "ns/waiter")
		})
	}
}
