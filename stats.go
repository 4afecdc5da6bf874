package resilient

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/transport"
)

// An outcome is how an exchange ended, in the words of the metrics.
type outcome int

const (
	success outcome = iota
	errorStatus
	transportError
	timedOut
	cancelled
	abandoned
	upgraded
	refusedFull
	refusedOpen
	refusedClosed
	invalid
	panicked
	outcomes
)

var outcomeNames = [outcomes]string{"success", "error_status", "transport_error", "timeout", "cancelled", "abandoned",
	"upgraded", "refused_full", "refused_open", "refused_closed", "invalid", "panic"}

var phases = [...]transport.Phase{transport.PhaseConnect, transport.PhaseTLS, transport.PhaseRead, transport.PhaseTotal, transport.PhaseDeadline}

// stateNames are the states of the metrics. The forced ones are not gobreaker's.
var stateNames = [...]string{"closed", "open", "half_open", "forced_open", "forced_closed"}

// transitionNames are those a breaker can make.
var transitionNames = [...][2]string{{"closed", "open"}, {"open", "half_open"}, {"half_open", "closed"}, {"half_open", "open"}}

// stats is the outermost layer: it knows all exchanges under way, and counts
// how they end. One lock, held for a few words at both ends of an exchange,
// makes every snapshot add up: started - in flight = the sum of the outcomes.
type stats struct {
	layer    exchange.Layer
	streams  func(*http.Request) bool
	failures config.Statuses
	read     time.Duration
	idle     func() // called when nothing is under way and stats is closed

	mu     sync.Mutex
	closed bool
	live   exchange.List
	counts
}

// counts are what a scrape takes, by value. A histogram that was never used is nil.
type counts struct {
	started     uint64
	ended       [outcomes]uint64
	timeouts    [len(phases)]uint64
	transitions [len(transitionNames)]uint64
	durations   [outcomes]*histogram
	headers     *histogram
	waits       *histogram
}

func newStats(cfg Config, streams func(*http.Request) bool) *stats {
	s := &stats{streams: streams, read: cfg.ReadTimeout}
	s.failures, _ = config.ParseStatuses(cfg.Breaker.FailureStatus) // Complete has looked at it
	s.layer = exchange.Layer{Begin: s.begin, End: s.end, Always: true, Streams: true}
	return s
}

func (s *stats) begin(x *exchange.Exchange, _ *exchange.Hold) error {
	x.Stream = s.streams != nil && x.Request.URL != nil && s.streams(x.Request)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	s.live.Add(x)
	return nil
}

func (s *stats) end(x *exchange.Exchange, _ *exchange.Hold) {
	if s.note(x) {
		s.idle()
	}
}

// note reports whether x was the last of a closed client.
func (s *stats) note(x *exchange.Exchange) (last bool) {
	how := s.outcome(x)
	took := x.Elapsed()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live.Remove(x)
	s.ended[how]++
	observe(&s.durations[how], took)
	if x.Status != 0 {
		observe(&s.headers, x.Answered-x.Admitted)
	}
	if how != invalid {
		observe(&s.waits, x.Admitted)
	}
	if t, ok := errors.AsType[*TimeoutError](x.Fault); ok {
		s.timeouts[slices.Index(phases[:], t.Phase)]++
	}
	return s.closed && s.live.Len() == 0
}

func (s *stats) outcome(x *exchange.Exchange) outcome {
	timeout, timeoutOK := errors.AsType[*TimeoutError](x.Fault)
	_, invalidOK := errors.AsType[*exchange.InvalidError](x.Fault)
	switch {
	case x.Panicked:
		return panicked
	case x.Upgraded:
		return upgraded
	case x.By == exchange.Caller, x.By == exchange.Owner:
		return cancelled
	case x.Refused && errors.Is(x.Fault, ErrBulkheadFull):
		return refusedFull
	case x.Refused && errors.Is(x.Fault, ErrCircuitOpen):
		return refusedOpen
	case x.Refused && errors.Is(x.Fault, ErrClosed):
		return refusedClosed
	case x.BadBody, invalidOK:
		return invalid
	case x.Unattended && (x.NeverRead || x.Idle >= s.read):
		return abandoned
	case timeoutOK && timeout.Phase == transport.PhaseDeadline:
		return cancelled
	case timeoutOK:
		return timedOut
	case x.Fault != nil:
		return transportError
	case s.failures.Contains(x.Status):
		return errorStatus
	}
	return success
}

// close reports whether nothing is under way.
func (s *stats) close() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.live.Len() == 0
}

// all returns the exchanges under way.
func (s *stats) all() []*exchange.Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(s.live.All())
}

// load returns how many exchanges are under way, and the age of the oldest.
func (s *stats) load() (n int, oldest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.live.All() {
		return s.live.Len(), x.Elapsed()
	}
	return 0, 0
}

func (s *stats) transition(t Transition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transitions[slices.Index(transitionNames[:], [2]string{t.From, t.To})]++
}

// snapshot returns a copy of the counts, and how many exchanges are under way.
func (s *stats) snapshot() (counts, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	for i, h := range c.durations {
		c.durations[i] = h.clone()
	}
	c.headers, c.waits = c.headers.clone(), c.waits.clone()
	return c, s.live.Len()
}
