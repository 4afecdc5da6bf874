package transport

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/exchange"
)

// A RetryPolicy says what a [Retry] does. The zero value does nothing.
type RetryPolicy struct {
	// MaxAttempts is how often a request is made, the first time included; 1 or less
	// means that none is repeated.
	MaxAttempts int

	// PutDelete is that PUT and DELETE are repeated as GET is: the system has to
	// treat them as RFC 9110 demands, so that a second one changes nothing.
	PutDelete bool

	// Statuses are those of the answers that are repeated, as far as they are 400 or
	// above: a redirect and an upgrade are none.
	Statuses config.Statuses

	// BaseDelay and MaxDelay bound the pauses. The longest pause before the second
	// attempt is BaseDelay, before each further one it doubles, up to MaxDelay (0 or
	// less: without end); the pause is a random part of the longest (full jitter),
	// above 0, in addition to what the system asks for by Retry-After.
	BaseDelay, MaxDelay time.Duration

	// MaxElapsed is how long after the first attempt began the last may begin; 0 or
	// less means no such bound. The whole call takes at most that and one attempt.
	MaxElapsed time.Duration

	// MaxRetryAfter is the longest Retry-After that is waited for. An answer that asks
	// for more is returned at once: it is not repeated earlier than the system wants.
	MaxRetryAfter time.Duration

	// BudgetRatio and BudgetFloor bound the attempts after the first: within each
	// BudgetWindow there are at most BudgetRatio times as many as calls that were not
	// refused, and BudgetFloor. An answer that would be repeated beyond that is
	// returned. A BudgetWindow of 0 or less means no budget.
	BudgetRatio  float64
	BudgetFloor  int
	BudgetWindow time.Duration

	// Gate is that a 429 or 503 with a Retry-After, whatever was asked, pauses the
	// whole client: until that has passed, at most MaxRetryAfter, and a random part
	// of up to a tenth more, calls are refused with a [PausedError].
	Gate bool

	// DeadlineHeader, if not "", is the header in which the system is told how much is
	// left of the caller's deadline when the attempt begins, in whole milliseconds,
	// at least 1. It replaces a header of that name. Without a deadline it is left out,
	// and so it is where a redirect leads to another host.
	DeadlineHeader string

	// DeadlineFloor is how much has to be left of the caller's deadline for an attempt
	// to be made. A call with less is refused with a [LateError].
	DeadlineFloor time.Duration
}

// RetryPolicyOf returns the policy that cfg describes, which must be complete:
// [config.Config.Complete] says what is wrong with it; RetryPolicyOf panics. The
// window of its budget is 10 s.
func RetryPolicyOf(cfg config.Config) RetryPolicy {
	c := cfg.Retry
	statuses, err := config.ParseStatuses(c.Status)
	if err != nil {
		panic(err)
	}
	return RetryPolicy{
		MaxAttempts: c.MaxAttempts, PutDelete: c.PutDelete, Statuses: statuses,
		BaseDelay: c.BaseDelay, MaxDelay: c.MaxDelay, MaxElapsed: c.MaxElapsed, MaxRetryAfter: c.MaxRetryAfter,
		BudgetRatio: c.BudgetRatio, BudgetFloor: c.BudgetFloor, BudgetWindow: 10 * time.Second,
		Gate: c.Gate, DeadlineHeader: c.DeadlineHeader, DeadlineFloor: c.DeadlineFloor,
	}
}

// failed reports whether an attempt failed in a way that may pass.
func (p *RetryPolicy) failed(resp *http.Response, err error) bool {
	if err == nil {
		return resp != nil && resp.StatusCode >= 400 && p.Statuses.Contains(resp.StatusCode)
	}
	_, invalid := errors.AsType[*exchange.InvalidError](err)
	t, ok := errors.AsType[*TimeoutError](err)
	return !invalid && !(ok && t.Phase == PhaseDeadline)
}

// ceiling returns the longest pause before attempt n.
func (p *RetryPolicy) ceiling(n int) time.Duration {
	most := longest
	if p.MaxDelay > 0 {
		most = min(most, p.MaxDelay)
	}
	d := min(max(0, p.BaseDelay), most)
	for i := 2; i < n && 0 < d && d < most; i++ {
		d = min(2*d, most)
	}
	return d
}

func jitter(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return 1 + rand.N(most)
}

// repeatable reports whether the caller's request may be made again after an
// attempt that ended with err, and nothing of it is a stream.
func (c *call) repeatable(err error) bool {
	req, ctx := c.req, c.req.Context()
	if ctx.Err() != nil || req.Response != nil || req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return false
	}
	if b, _ := ctx.Value(boundsKey{}).(Bounds); b.Total < 0 || c.streams != nil && c.streams(req) {
		return false
	}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	case http.MethodPut, http.MethodDelete:
		if c.PutDelete {
			return true
		}
	}
	_, key := req.Header["Idempotency-Key"]
	_, xkey := req.Header["X-Idempotency-Key"]
	return key || xkey || NotSent(err)
}

// inTime reports whether an attempt after pause is within the bounds.
func (c *call) inTime(pause time.Duration) bool {
	if c.MaxElapsed > 0 && time.Since(c.start)+pause > c.MaxElapsed {
		return false
	}
	deadline, ok := c.req.Context().Deadline()
	left := time.Until(deadline) - pause
	return !ok || left > 0 && left >= c.DeadlineFloor
}
