package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/semaphore"
)

// One timer tells all who wait for the same time, each at its own moment: also those who joined while it was set for somebody
// else, when it has told some and others have yet to be told, and when those it was set for have left.
func TestEachIsToldAtItsOwnMoment(t *testing.T) {
	tests := map[string]struct {
		wait, joins []int // in ms
		gone        []int // who give up 1 ms after they joined
		want        []int // when each has its refusal
	}{
		"all alike":              {wait: []int{10, 10, 10, 10, 10}, joins: []int{0, 3, 3, 5, 12}, want: []int{10, 13, 13, 15, 22}},
		"one after the other":    {wait: []int{10, 10, 10}, joins: []int{0, 15, 30}, want: []int{10, 25, 40}},
		"a shorter one":          {wait: []int{20, 5, 20, 5}, joins: []int{0, 1, 2, 3}, want: []int{20, 6, 22, 8}},
		"a longer one":           {wait: []int{5, 20, 5, 20}, joins: []int{0, 1, 2, 18}, want: []int{5, 21, 7, 38}},
		"the first leaves":       {wait: []int{10, 10, 10}, joins: []int{0, 4, 20}, gone: []int{0}, want: []int{1, 14, 30}},
		"all leave, and another": {wait: []int{10, 10, 10}, joins: []int{0, 2, 6}, gone: []int{0, 1}, want: []int{1, 3, 16}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 9})
				hold(t, s, 1)
				began := time.Now()
				ends := make([]int, len(test.joins))
				for i := range test.joins {
					go func() {
						time.Sleep(time.Duration(test.joins[i]) * ms)
						ctx := t.Context()
						for _, gone := range test.gone {
							if gone == i {
								var cancel context.CancelFunc
								ctx, cancel = context.WithTimeout(ctx, ms)
								defer cancel()
							}
						}
						if _, err := s.Acquire(ctx, time.Duration(test.wait[i])*ms); err == nil {
							t.Error("a permit")
						}
						ends[i] = int(time.Since(began) / ms)
					}()
				}
				time.Sleep(time.Second)
				synctest.Wait()
				for i, want := range test.want {
					if ends[i] != want {
						t.Errorf("the waiters were told at %d ms, want %d", ends, test.want)
						break
					}
				}
				s.Release()
				conserved(t, s, 1)
			})
		})
	}
}
