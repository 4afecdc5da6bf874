package resilient

import (
	"log/slog"
	"time"

	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// A State is what a client looked like at one moment.
type State struct {
	Name       string
	Bulkhead   semaphore.State
	Breaker    transport.BreakerState
	InFlight   int           // exchanges begun and not ended, waiting for a permit included
	Oldest     time.Duration // since the oldest of them began; a forgotten stream shows here
	Executions int           // of Execute, begun and not ended, waiting for a permit included
	Observing  bool          // see Observe
	Health     HealthState   // what the last probe found: see WithHealth
	Config     Config        // in force, with its defaults

	Transitions []PastTransition // the last 10 of the breaker, oldest first
}

// A PastTransition is a change of a breaker's state and when it was told of.
type PastTransition struct {
	At time.Time
	Transition
}

// keptTransitions is how many of the last transitions a State tells.
const keptTransitions = 10

// State returns what c looks like now.
func (c *Client) State() State {
	s := State{Name: c.name, Bulkhead: c.sem.State(), Breaker: c.breaker.State(), Config: *c.cfg.Load(), Observing: c.opts.observe, Health: c.health.state()}
	c.stats.load(&s)
	return s
}

// transition counts and logs a change of the breaker's state before anybody's hook can go wrong.
func (c *Client) transition(t Transition) {
	c.stats.transition(t)
	attrs := []any{slog.String("system", t.System), slog.String("prev_state", t.From), slog.String("new_state", t.To)}
	switch t.Reason {
	case transport.FailedProbe:
		attrs = append(attrs, slog.Bool("failed_probe", true))
	case transport.Forced:
		attrs = append(attrs, slog.String("reason", t.Reason))
	case transport.FailureRatio, transport.ConsecutiveFailures:
		attrs = append(attrs, slog.String("reason", t.Reason), slog.Float64("failure_rate", t.FailureRate))
	}
	c.logger().Warn("circuit breaker "+t.To, attrs...)
	for _, f := range c.opts.transition {
		tell(f, t)
	}
}

// tell keeps a panic of one hook from the others.
func tell(f func(Transition), t Transition) {
	defer func() { _ = recover() }()
	f(t)
}

// retried counts what the retry layer did, and logs it at level Debug.
func (c *Client) retried(e transport.RetryEvent) {
	c.stats.retried(e)
	c.logger().Debug("retry "+e.Outcome, slog.String("system", e.System), slog.Int("attempt", e.Attempt), slog.Duration("wait", e.Wait))
}

// ForceOpen refuses all requests from now on, for d, or until it is changed by
// another call of ForceOpen, ForceClosed or Automatic if d is 0 or less: during a
// partner's maintenance, say. What is under way goes on. A client that observes
// (see [Observe]) counts what that would refuse, and refuses nothing.
func (c *Client) ForceOpen(d time.Duration) { c.breaker.ForceOpen(d) }

// ForceClosed admits requests whatever the breaker says, for d, or until it is
// changed if d is 0 or less. The bulkhead and the timeouts stay.
func (c *Client) ForceClosed(d time.Duration) { c.breaker.ForceClosed(d) }

// Automatic ends a forced state: the breaker goes on with what it had.
func (c *Client) Automatic() { c.breaker.Automatic() }
