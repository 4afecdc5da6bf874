package resilient

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/transport"
)

// How an exchange ended, as an index of outcomeNames.
const (
	success = iota
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
)

// The words of the metrics' labels. The forced states are not gobreaker's.
var (
	outcomeNames = [...]string{"success", "error_status", "transport_error", "timeout", "cancelled", "abandoned",
		"upgraded", "refused_full", "refused_open", "refused_closed", "invalid", "panic"}
	phases          = [...]transport.Phase{transport.PhaseConnect, transport.PhaseTLS, transport.PhaseRead, transport.PhaseTotal, transport.PhaseDeadline}
	stateNames      = [...]string{"closed", "open", "half_open", "forced_open", "forced_closed"}
	transitionNames = [...][2]string{{"closed", "open"}, {"open", "half_open"}, {"half_open", "closed"}, {"half_open", "open"}}
)

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
	live   map[*exchange.Exchange]struct{}
	counts
}

// counts are what a scrape takes, by value. A histogram that was never used is nil.
type counts struct {
	started        uint64
	ended          [len(outcomeNames)]uint64
	timeouts       [len(phases)]uint64
	transitions    [len(transitionNames)]uint64
	durations      [len(outcomeNames)]*histogram
	headers, waits *histogram
}

func newStats(cfg Config, streams func(*http.Request) bool, idle func()) *stats {
	s := &stats{streams: streams, read: cfg.ReadTimeout, idle: idle, live: map[*exchange.Exchange]struct{}{}}
	s.failures, _ = config.ParseStatuses(cfg.Breaker.FailureStatus) // Complete has looked at it
	s.layer = exchange.Layer{Begin: s.begin, End: s.end, Always: true, Streams: true}
	return s
}

func (s *stats) begin(x *exchange.Exchange, _ *exchange.Hold) error {
	x.Stream = s.streams != nil && x.Request.URL != nil && s.streams(x.Request)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	s.live[x] = struct{}{}
	return nil
}

func (s *stats) end(x *exchange.Exchange, _ *exchange.Hold, how exchange.Outcome) {
	if s.count(x, how, s.outcome(x, how), x.Elapsed()) {
		s.idle()
	}
}

// count reports whether x was the last of a closed client.
func (s *stats) count(x *exchange.Exchange, how exchange.Outcome, outcome int, took time.Duration) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, x)
	s.ended[outcome]++
	observe(&s.durations[outcome], took)
	if x.Status != 0 {
		observe(&s.headers, x.Answered-x.Admitted)
	}
	if outcome != invalid {
		observe(&s.waits, x.Admitted)
	}
	if t := timeoutOf(how); t != nil {
		s.timeouts[slices.Index(phases[:], t.Phase)]++
	}
	return s.closed && len(s.live) == 0
}

func (s *stats) outcome(x *exchange.Exchange, how exchange.Outcome) int {
	timeout := timeoutOf(how)
	_, isInvalid := errors.AsType[*exchange.InvalidError](how.Fault)
	switch {
	case how.Panicked:
		return panicked
	case how.Upgraded:
		return upgraded
	case how.By == exchange.Caller, how.By == exchange.Owner, timeout != nil && timeout.Phase == transport.PhaseDeadline:
		return cancelled
	case !x.Sent && errors.Is(how.Fault, ErrBulkheadFull):
		return refusedFull
	case !x.Sent && errors.Is(how.Fault, ErrCircuitOpen):
		return refusedOpen
	case !x.Sent && errors.Is(how.Fault, ErrClosed):
		return refusedClosed
	case how.BadBody, isInvalid:
		return invalid
	case how.Idle >= s.read:
		return abandoned
	case timeout != nil:
		return timedOut
	case how.Fault != nil:
		return transportError
	case s.failures.Contains(x.Status):
		return errorStatus
	}
	return success
}

// timeoutOf returns the bound that ended an exchange, or nil. What is deeper
// inside the caller's end is its cause, and perhaps another system's.
func timeoutOf(how exchange.Outcome) *TimeoutError {
	t, ok := how.Fault.(*TimeoutError) //nolint:errorlint // see above
	if how.By == exchange.Nobody {
		t, ok = errors.AsType[*TimeoutError](how.Fault)
	}
	if !ok || !slices.Contains(phases[:], t.Phase) {
		return nil
	}
	return t
}

func (s *stats) transition(t Transition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transitions[slices.Index(transitionNames[:], [2]string{t.From, t.To})]++
}

// snapshot returns a copy of the counts, and how many exchanges are under way.
func (s *stats) snapshot() (c counts, inFlight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.counts
	c.headers, c.waits = c.headers.clone(), c.waits.clone()
	for i, h := range c.durations {
		c.durations[i] = h.clone()
	}
	return c, len(s.live)
}

// all returns the exchanges under way.
func (s *stats) all() []*exchange.Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.live))
}

// close returns how many are under way. The last of them to end calls idle.
func (s *stats) close() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return len(s.live)
}

// load returns how many exchanges are under way, and the age of the oldest.
func (s *stats) load() (n int, oldest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.live {
		oldest = max(oldest, x.Elapsed())
	}
	return len(s.live), oldest
}
