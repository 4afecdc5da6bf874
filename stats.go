package resilient

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
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

// The words of the metrics' labels.
var (
	outcomeNames = [...]string{"success", "error_status", "transport_error", "timeout", "cancelled", "abandoned",
		"upgraded", "refused_full", "refused_open", "refused_closed", "invalid", "panic"}
	executionNames = [...]string{"success", "error", "timeout", "cancelled", "refused_full", "refused_open", "refused_closed", "panic"}
	attemptNames   = [...]string{transport.RetrySuccess, transport.RetryFailure, transport.RetryRefused, transport.RetryCancelled, transport.RetryPanic}
	notCalledNames = [...]string{transport.RetryPaused, transport.RetryLate}
	refusalReasons = [...]string{"full", "open"}
	phases         = [...]transport.Phase{transport.PhaseConnect, transport.PhaseTLS, transport.PhaseRead, transport.PhaseTotal, transport.PhaseDeadline}
	stateNames     = [...]string{transport.Closed, transport.Open, transport.HalfOpen, transport.ForcedOpen, transport.ForcedClosed}

	// Those of gobreaker, and all that begin or end with a forced state.
	transitionNames = [...][2]string{
		{"closed", "open"}, {"open", "half_open"}, {"half_open", "closed"}, {"half_open", "open"},
		{"closed", "forced_open"}, {"open", "forced_open"}, {"half_open", "forced_open"}, {"forced_closed", "forced_open"},
		{"closed", "forced_closed"}, {"open", "forced_closed"}, {"half_open", "forced_closed"}, {"forced_open", "forced_closed"},
		{"forced_open", "closed"}, {"forced_open", "open"}, {"forced_open", "half_open"},
		{"forced_closed", "closed"}, {"forced_closed", "open"}, {"forced_closed", "half_open"},
	}
)

// stats is the outermost layer: it knows all exchanges under way, and counts
// how they end. One lock, held for a few words at both ends of an exchange,
// makes every snapshot add up: started - in flight = the sum of the outcomes.
type stats struct {
	layer    exchange.Layer // over a base that is not ours
	pooled   exchange.Layer // over the pool
	streams  func(*http.Request) bool
	idle     func() // called when nothing is under way and stats is closed
	settings atomic.Pointer[judgement]

	mu         sync.Mutex
	closed     bool
	live       map[*exchange.Exchange]struct{}
	executions map[*execution]struct{}
	pool       *pool // nil over another base
	past       []PastTransition
	counts
}

// A judgement is what the outcomes depend on.
type judgement struct {
	failures config.Statuses
	read     time.Duration
}

// counts are what a scrape takes, by value. A histogram that was never used is nil.
type counts struct {
	started        uint64
	ended          [len(outcomeNames)]uint64
	executed       [len(executionNames)]uint64
	wouldRefuse    [len(refusalReasons)]uint64
	attempts       [len(attemptNames)]uint64
	exhausted      uint64
	notCalled      [len(notCalledNames)]uint64
	timeouts       [len(phases)]uint64
	transitions    [len(transitionNames)]uint64
	durations      [len(outcomeNames)]*histogram
	headers, waits *histogram
	pauses         *histogram
}

func newStats(c *Client) *stats {
	s := &stats{streams: c.opts.streams, idle: c.finish, live: map[*exchange.Exchange]struct{}{}}
	s.reconfigure(*c.cfg.Load())
	s.layer = exchange.Layer{Begin: s.begin, End: s.end, Client: c, Always: true, Streams: true}
	s.pooled = s.layer
	s.pooled.Base = s.lease
	return s
}

func (s *stats) reconfigure(cfg Config) {
	j := &judgement{read: cfg.ReadTimeout}
	j.failures, _ = config.ParseStatuses(cfg.Breaker.FailureStatus) // Complete has looked at it
	s.settings.Store(j)
}

func (s *stats) begin(x *exchange.Exchange, _ *exchange.Hold) error {
	x.Stream = s.streams != nil && x.Request.URL != nil && s.streams(x.Request)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	s.live[x] = struct{}{}
	return nil
}

func (s *stats) end(x *exchange.Exchange, h *exchange.Hold, how exchange.Outcome) {
	p, _ := h.Token.(*pool)
	last, spent := s.count(x, p, how, s.outcome(x, how), x.Elapsed())
	if spent {
		closeIdle(p, p.protocol)
	}
	if last {
		s.idle()
	}
}

// count reports whether x was the last of a closed client, and of a pool that was replaced.
func (s *stats) count(x *exchange.Exchange, p *pool, how exchange.Outcome, outcome int, took time.Duration) (last, spent bool) {
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
	if p != nil {
		p.users--
		spent = p.retired && p.users == 0
	}
	return s.over(), spent
}

// over reports whether s is closed and nothing is under way. It needs the lock.
func (s *stats) over() bool { return s.closed && len(s.live)+len(s.executions) == 0 }

func (s *stats) outcome(x *exchange.Exchange, how exchange.Outcome) int {
	settings := s.settings.Load()
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
	case how.Idle >= settings.read:
		return abandoned
	case timeout != nil:
		return timedOut
	case how.Fault != nil:
		return transportError
	case settings.failures.Contains(x.Status):
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
	if len(s.past) == keptTransitions {
		s.past = append(s.past[:0], s.past[1:]...)
	}
	s.past = append(s.past, PastTransition{time.Now(), t})
}

// snapshot returns a copy of the counts, and how many exchanges are under way.
func (s *stats) snapshot() (c counts, inFlight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.counts
	c.headers, c.waits, c.pauses = c.headers.clone(), c.waits.clone(), c.pauses.clone()
	for i, h := range c.durations {
		c.durations[i] = h.clone()
	}
	return c, len(s.live)
}

// all returns what is under way.
func (s *stats) all() ([]*exchange.Exchange, []*execution) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.live)), slices.Collect(maps.Keys(s.executions))
}

// close reports whether nothing is under way. The last to end calls idle.
func (s *stats) close() (over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.over()
}

// load fills in what s knows of a client's state.
func (s *stats) load(state *State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.live {
		state.Oldest = max(state.Oldest, x.Elapsed())
	}
	state.InFlight, state.Executions = len(s.live), len(s.executions)
	state.Transitions = slices.Clone(s.past)
}

// enter and leave count the executions that are under way.
func (s *stats) enter(e *execution) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.executions == nil {
		s.executions = map[*execution]struct{}{}
	}
	s.executions[e] = struct{}{}
}

func (s *stats) leave(e *execution) {
	s.mu.Lock()
	delete(s.executions, e)
	over := s.over()
	s.mu.Unlock()
	if over {
		s.idle()
	}
}

// executed counts how an execution ended, by the words of executionNames.
func (s *stats) executionEnded(outcome string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executed[slices.Index(executionNames[:], outcome)]++
}

// retried counts what the Retry did, or left.
func (s *stats) retried(e transport.RetryEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(attemptNames[:], e.Outcome); i >= 0 {
		s.attempts[i]++
		observe(&s.pauses, e.Wait)
	} else if i := slices.Index(notCalledNames[:], e.Outcome); i >= 0 {
		s.notCalled[i]++
	} else {
		s.exhausted++
	}
}

// wouldHaveRefused counts a refusal in observe mode, by the words of refusalReasons.
func (s *stats) wouldHaveRefused(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wouldRefuse[slices.Index(refusalReasons[:], reason)]++
}
