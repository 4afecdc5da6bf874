package transport

import (
	"net/http"
	"sync/atomic"
	"time"

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
// It changes from open to half-open, and back from a forced state that expires,
// when it is next looked at, by a request or by State.
type Breaker struct {
	system  string
	rules   atomic.Pointer[rules]
	core    atomic.Pointer[core]
	forced  atomic.Pointer[forced] // nil: automatic
	silence silence
	opened  atomic.Int64 // until when it is open, in ns of silence's clock; 0 if it is not
	probing atomic.Bool  // it is half-open
	layer   exchange.Layer

	transitions transitions
	wanted      settings // of the core, once b is closed; guarded by the transitions' lock
}

// NewBreaker returns a closed Breaker with the settings of cfg, which must be
// complete: [config.Config.Complete] says what is wrong with it; NewBreaker panics.
func NewBreaker(system string, cfg config.Config) *Breaker {
	b := &Breaker{system: system, silence: silence{epoch: time.Now()}}
	b.transitions.automatic.To, b.transitions.visible = Closed, Closed
	b.rules.Store(newRules(cfg, nil))
	b.wanted = settingsOf(cfg)
	b.core.Store(newCore(b, b.wanted))
	b.layer = exchange.Layer{Begin: b.begin, Answered: b.answered, End: b.end, Failed: maybeSent, Waiting: b.silence.wait, Uploads: true}
	return b
}

// Classify sets what judges the system's answers in place of FailureStatus. To be called before the first request.
func (b *Breaker) Classify(c Classifier) {
	r := *b.rules.Load()
	r.classify = c
	b.rules.Store(&r)
}

// Reconfigure makes cfg, which must be complete, the settings from now on.
// Window, OpenFor and HalfOpenProbes are fixed in a gobreaker: if one of them
// changes, a closed Breaker begins a new window, and one that is not goes on with
// the old ones until it has closed, which pending tells. That is no transition.
// Exchanges under way report to the window that admitted them.
func (b *Breaker) Reconfigure(cfg config.Config) (pending bool) {
	r := newRules(cfg, b.rules.Load().classify)
	t := &b.transitions
	t.mu.Lock()
	defer t.mu.Unlock()
	b.rules.Store(r)
	return b.renew(settingsOf(cfg))
}

// Wrap returns next behind this layer: it is a [Layer], to be given to [Chain].
func (b *Breaker) Wrap(next http.RoundTripper) http.RoundTripper { return b.layer.Wrap(next) }

// Allow admits a call that is no HTTP exchange, or refuses it with an
// [*OpenError]. done must be called with the verdict on the call; what it is told
// a second time it ignores. A call that a half-open breaker admitted and that is
// not done within twice TotalTimeout counts as Neutral, so that it can't keep
// others from trying.
func (b *Breaker) Allow() (done func(Verdict), err error) {
	tell, err := b.allow()
	if err != nil {
		return nil, err
	}
	p := &probe{done: tell}
	if b.probing.Load() {
		p = b.newProbe(tell, false, 2*b.rules.Load().total)
	}
	return func(v Verdict) { p.report(b, v) }, nil
}

// Peek returns an OpenError if a request would be refused because b is open. It
// changes nothing, asks nobody, and does not count probes; but a forced state
// whose time is over ends, since who is refused by Peek asks nothing else.
func (b *Breaker) Peek() error {
	if f := b.force(); f != nil {
		return f.refusal(b)
	}
	b.transitions.deliver()
	until := b.opened.Load()
	if until == 0 || until <= b.silence.now() {
		return nil
	}
	return b.refusal()
}

// allow asks gobreaker, unless b is forced, and returns what to report to.
func (b *Breaker) allow() (done func(error), err error) {
	if f := b.force(); f != nil {
		return func(error) {}, f.refusal(b)
	}
	k := b.core.Load()
	done, err = k.cb.Allow()
	b.transitions.deliver()
	switch {
	case err == nil:
		return done, nil
	case b.core.Load() != k:
		return b.allow() // k was replaced meanwhile: it refuses nobody
	}
	return nil, b.refusal()
}

func (b *Breaker) refusal() error {
	e := &OpenError{System: b.system, Probing: b.probing.Load()}
	if until := b.opened.Load(); until != 0 {
		e.RetryAfter = max(0, time.Duration(until-b.silence.now()))
	}
	return e
}
