package transport

import (
	"errors"
	"net/http"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/semaphore"
)

// A Verdict is what an exchange says about the system, for the breaker.
type Verdict int

// The verdicts.
const (
	Success Verdict = iota
	Failure
	Neutral // says nothing; a probe of a half-open breaker gives its slot back
)

// A Classifier judges what the system itself answered: a response, when its
// headers have come (it must not touch the body), or an error of the transport
// or of the body, with a nil response. Timeouts, bodies above a bound of ours, the
// caller's end and refusals are not for it to judge.
type Classifier func(resp *http.Response, err error) Verdict

// rules are the settings of a breaker that can change while it runs.
type rules struct {
	minRequests, consecutive int
	ratio                    float64
	slow                     time.Duration // headers later than that are a failure; 0 = off
	silence                  time.Duration // of the system that makes a caller's end its failure
	total                    time.Duration // how long a stream may take to its headers before it says nothing
	failures                 config.Statuses
	classify                 Classifier
}

// newRules panics if cfg's statuses are none: it is not complete.
func newRules(cfg config.Config, classify Classifier) *rules {
	failures, err := config.ParseStatuses(cfg.Breaker.FailureStatus)
	if err != nil {
		panic(err)
	}
	r := &rules{
		classify:    classify,
		minRequests: cfg.Breaker.MinRequests,
		consecutive: cfg.Breaker.ConsecutiveFailures,
		ratio:       cfg.Breaker.FailureRatio,
		slow:        cfg.Breaker.SlowCall,
		silence:     cfg.Breaker.SlowCall,
		total:       cfg.TotalTimeout,
		failures:    failures,
	}
	if r.silence == 0 {
		r.silence = cfg.ReadTimeout / 2
	}
	return r
}

// answer judges the headers.
func (r *rules) answer(x *exchange.Exchange, resp *http.Response) Verdict {
	switch {
	case r.slow > 0 && x.Answered-x.Admitted > r.slow:
		return Failure
	case r.classify != nil:
		return r.classify(resp, nil)
	case r.failures.Contains(resp.StatusCode):
		return Failure
	}
	return Success
}

// end judges an exchange that is over, given what was said of its headers, if
// they came. A failure there is one however the body ended. Otherwise it comes
// first who ended the exchange: the caller's end says nothing, unless the
// system had been silent towards everybody for so long that it looks hung, or
// callers with short deadlines would hide that for ever.
func (r *rules) end(x *exchange.Exchange, how exchange.Outcome, headers Verdict, silent time.Duration) Verdict {
	by := how.By
	if t, ok := errors.AsType[*TimeoutError](how.Fault); ok && t.Phase == PhaseDeadline {
		by = exchange.Caller // also if it comes from layers inside of a foreign one
	}
	_, isInvalid := errors.AsType[*exchange.InvalidError](how.Fault)
	switch {
	case !x.Sent, how.Panicked && headers == Neutral:
		return Neutral
	case how.Panicked, headers == Failure:
		return Failure
	case by == exchange.Owner, how.Idle > 0:
		return Neutral
	case by == exchange.Caller && silent < r.silence:
		return Neutral
	case by != exchange.Nobody:
		return Failure
	case how.Fault == nil, errors.Is(how.Fault, ErrTooLarge):
		return headers
	case how.BadBody, isInvalid, errors.Is(how.Fault, semaphore.ErrUnavailable):
		return Neutral // the caller's fault, or a refusal further inside
	case r.classify != nil:
		return r.classify(nil, how.Fault)
	}
	return Failure
}
