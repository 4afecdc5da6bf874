package transport

import (
	"sync"
	"time"
)

// A budget bounds the attempts after the first to a share of the calls within a
// rolling window. It counts in slots. Calls count for one slot less than attempts
// do, so that over the window itself the bound is exact, wherever its ends are.
type budget struct {
	epoch time.Time

	mu       sync.Mutex
	width    time.Duration // of a slot
	now      int64         // the present slot, counted from epoch
	calls    [budgetSlots + 1]int
	attempts [budgetSlots + 1]int
}

const budgetSlots = 10 // to a window

// earn counts a call that was not refused. It adds to the budget when its first
// attempt is back, so that it does not pay for others while it hangs.
func (r *Retry) earn() {
	if p := r.policy.Load(); p.BudgetWindow > 0 {
		r.budget.mu.Lock()
		defer r.budget.mu.Unlock()
		r.budget.calls[r.budget.slot(p.BudgetWindow)]++
	}
}

// spend counts a further attempt, or reports that there is no room for it. What is
// spent for one that is then not made, since its caller goes in the pause, is not given back.
func (r *Retry) spend() bool {
	p := r.policy.Load()
	if p.BudgetWindow <= 0 {
		return true
	}
	b := &r.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	slot := b.slot(p.BudgetWindow)
	calls, attempts := -b.calls[(slot+1)%len(b.calls)], 1 // the oldest slot is in part before the window
	for i := range b.calls {
		calls += b.calls[i]
		attempts += b.attempts[i]
	}
	if float64(attempts) > p.BudgetRatio*float64(calls)+float64(p.BudgetFloor) {
		return false
	}
	b.attempts[slot]++
	return true
}

// slot returns the present one, having cleared those that came since the last time. It needs b.mu.
func (b *budget) slot(window time.Duration) int {
	width := max(1, window/budgetSlots)
	now := int64(time.Since(b.epoch) / width)
	if b.width != width {
		b.width, b.now = width, now
		clear(b.calls[:])
		clear(b.attempts[:])
	}
	for b.now = max(b.now, now-int64(len(b.calls))); b.now < now; {
		b.now++
		i := b.now % int64(len(b.calls))
		b.calls[i], b.attempts[i] = 0, 0
	}
	return int(b.now % int64(len(b.calls)))
}
