package semaphore

import "time"

// A State is what a [Semaphore] looked like at one moment. It is a copy: changing it changes nothing.
type State struct {
	Name string

	MaxConcurrent int // as by New or the last Resize; 0 once closed
	MaxWaiting    int // likewise
	Active        int // permits out; more than MaxConcurrent after a shrink, until enough have come back
	Waiting       int // callers in the queue; more than MaxWaiting after a shrink

	Rejected       uint64 // refusals so far: RejectedFull + RejectedWaited
	RejectedFull   uint64 // refused at once, see ReasonFull
	RejectedWaited uint64 // refused after a wait, see ReasonWaited
	LastRejection  time.Time
}

// Available is how many permits are free; never negative.
func (s State) Available() int {
	return max(0, s.MaxConcurrent-s.Active)
}

// Utilization is Active / MaxConcurrent: 0 idle, 1 full, more than 1 after a shrink. Where MaxConcurrent is 0, it is 1:
// there is no room.
func (s State) Utilization() float64 {
	if s.MaxConcurrent == 0 {
		return 1
	}
	return float64(s.Active) / float64(s.MaxConcurrent)
}
