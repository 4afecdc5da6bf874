package transport

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/exchange"
)

// A Breaker stops calling a system that keeps failing. It is sony/gobreaker's
// two-step breaker with a rolling window, told of each exchange when it ends.
//
// It opens when, of at least MinRequests results in the window, FailureRatio
// are failures, or after ConsecutiveFailures without a success between them.
// The second is what a hang needs: a bulkhead lets so few calls through that
// against a window full of earlier successes the ratio alone would take half a
// minute. After OpenFor it is half-open: HalfOpenProbes may go through, and the
// first failure opens it again, that many successes close it.
//
// It changes from open to half-open when it is next looked at, by a request or by State.
type Breaker struct {
	system  string
	openFor time.Duration
	cb      *gobreaker.TwoStepCircuitBreaker[struct{}]
	rules   atomic.Pointer[rules]
	silence silence
	opened  atomic.Int64 // until when it is open, in ns of silence's clock; 0 if it is not
	probing atomic.Bool  // it is half-open
	layer   exchange.Layer

	// Guarded by gobreaker's own mutex, under which its callbacks run.
	consecutive int
	rate        float64
	reason      string

	transitions transitions
}

// NewBreaker returns a closed Breaker with the settings of cfg, which must be
// complete: [config.Config.Complete] says what is wrong with it; NewBreaker panics.
func NewBreaker(system string, cfg config.Config) *Breaker {
	r, err := newRules(cfg)
	if err != nil {
		panic(err)
	}
	b := &Breaker{system: system, openFor: cfg.Breaker.OpenFor, silence: silence{epoch: time.Now()}}
	b.rules.Store(r)
	const buckets = 10
	b.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:          system,
		MaxRequests:   uint32(cfg.Breaker.HalfOpenProbes),
		Interval:      cfg.Breaker.Window,
		BucketPeriod:  cfg.Breaker.Window / buckets,
		Timeout:       cfg.Breaker.OpenFor,
		IsExcluded:    func(err error) bool { return err == errNeutral },
		IsSuccessful:  b.count,
		ReadyToTrip:   b.trips,
		OnStateChange: b.changed,
	})
	b.layer = exchange.Layer{Begin: b.begin, Answered: b.answered, End: b.end, Failed: maybeSent, Waiting: b.silence.wait, Uploads: true}
	return b
}

// Classify sets what judges the system's answers in place of FailureStatus. To be called before the first request.
func (b *Breaker) Classify(c Classifier) {
	r := *b.rules.Load()
	r.classify = c
	b.rules.Store(&r)
}

// Wrap is a [Layer].
func (b *Breaker) Wrap(next http.RoundTripper) http.RoundTripper { return b.layer.Wrap(next) }

// BreakerState is what [Breaker.State] returns.
type BreakerState struct {
	State     string    // closed, open or half_open
	OpenUntil time.Time // when probes are let through; zero unless open
}

// State returns the state as of now: a Breaker whose OpenFor has passed is half-open.
func (b *Breaker) State() BreakerState {
	s := BreakerState{State: stateName(b.cb.State())}
	if b.transitions.pending.Load() {
		go b.transitions.deliver() // a hook must not hold up who looks, for metrics, say
	}
	if until := b.opened.Load(); until != 0 && s.State == "open" {
		s.OpenUntil = b.silence.epoch.Add(time.Duration(until))
	}
	return s
}

// Peek returns an OpenError if a request would be refused because b is open. It
// changes nothing, asks nobody, and does not count probes.
func (b *Breaker) Peek() error {
	until := b.opened.Load()
	if until == 0 || until <= b.silence.now() {
		return nil
	}
	return b.refusal()
}

func (b *Breaker) refusal() error {
	e := &OpenError{System: b.system, Probing: b.probing.Load()}
	if until := b.opened.Load(); until != 0 {
		e.RetryAfter = max(0, time.Duration(until-b.silence.now()))
	}
	return e
}

var (
	errNeutral = errors.New("says nothing about the system")
	errFailure = errors.New("says that the system fails")
)

// report tells gobreaker a verdict.
func (b *Breaker) report(done func(error), v Verdict) {
	switch v {
	case Success:
		done(nil)
	case Neutral:
		done(errNeutral)
	default:
		done(errFailure)
	}
	b.transitions.deliver()
}

// count notes successes and failures in a row, as gobreaker's own count loses
// them when its buckets roll. gobreaker calls it for each result that counts.
func (b *Breaker) count(err error) bool {
	b.consecutive++
	if err == nil {
		b.consecutive = 0
	}
	return err == nil
}

// trips is asked at each failure. Requests would count those in flight and the neutral too.
func (b *Breaker) trips(c gobreaker.Counts) bool {
	r := b.rules.Load()
	n := c.TotalSuccesses + c.TotalFailures
	b.rate, b.reason = float64(c.TotalFailures)/float64(max(1, n)), FailureRatio
	if int64(n) >= int64(r.minRequests) && b.rate >= r.ratio {
		return true
	}
	b.reason = ConsecutiveFailures
	return r.consecutive > 0 && b.consecutive >= r.consecutive
}

func (b *Breaker) changed(_ string, from, to gobreaker.State) {
	until := int64(0)
	if to == gobreaker.StateOpen {
		until = b.silence.now() + int64(b.openFor)
	}
	b.opened.Store(until)
	b.probing.Store(to == gobreaker.StateHalfOpen)
	b.consecutive = 0
	t := Transition{System: b.system, From: stateName(from), To: stateName(to)}
	switch {
	case from == gobreaker.StateClosed:
		t.FailureRate, t.Reason = b.rate, b.reason
	case to == gobreaker.StateOpen:
		t.Reason = FailedProbe
	}
	b.transitions.add(t)
}

func stateName(s gobreaker.State) string { return strings.ReplaceAll(s.String(), "-", "_") }

// A Transition is a change of a Breaker's state.
type Transition struct {
	System, From, To string
	Reason           string  // why it opened; "" when it did not
	FailureRate      float64 // of the window, when it opened from closed
}

// The reasons of a Transition.
const (
	FailureRatio        = "failure_ratio"
	ConsecutiveFailures = "consecutive_failures"
	FailedProbe         = "failed_probe"
)

// OnTransition sets a func that is called after each transition, in order and
// outside of every lock: it may use the Breaker. A panic in it is dropped. To be
// called before the first request.
func (b *Breaker) OnTransition(f func(Transition)) { b.transitions.hook = f }

// transitions delivers them. gobreaker tells of one under its mutex, where nothing may be asked of it.
type transitions struct {
	hook func(Transition)

	mu         sync.Mutex
	queue      []Transition
	delivering bool
	pending    atomic.Bool // there may be some in the queue: saves the lock
}

func (t *transitions) add(one Transition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hook != nil {
		t.queue = append(t.queue, one)
		t.pending.Store(true)
	}
}

// deliver calls the hook for what is in the queue, unless somebody is doing it.
func (t *transitions) deliver() {
	if !t.pending.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.delivering {
		return
	}
	t.delivering = true
	for len(t.queue) > 0 {
		next := t.queue[0]
		t.queue = t.queue[1:]
		t.call(next)
	}
	t.delivering = false
	t.pending.Store(false)
}

// call calls the hook without the lock, in a goroutine that it may end or let
// panic without harm to an exchange.
func (t *transitions) call(one Transition) {
	t.mu.Unlock()
	defer t.mu.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		t.hook(one)
	}()
	<-done
}
