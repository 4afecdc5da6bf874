package transport

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/exchange"
)

// Timeouts bounds exchanges by a total, by the system's silence, and by the size of the body.
//
// The total runs from admission to the end of the body, and is at most what
// remains of the caller's deadline less a margin (a tenth of it, at most 100 ms),
// so that our error, which says more, comes first. A total that is shorter for
// that reason is still the caller's: its phase is [PhaseDeadline].
//
// Silence runs from the start of the round trip to the headers, anew with each
// piece of the request body that is taken, and then inside each Read of the
// body: a slow consumer is not a slow system.
//
// A body that is larger than MaxResponseBytes ends with a [TooLargeError]. It is
// counted, not kept.
//
// An exchange that is cut while its request is sent closes the request's body, as
// net/http's contract allows, also while that is being read: net/http would wait
// for the Read to return.
type Timeouts struct {
	system string
	own    bool        // the base is ours; of the connecting of a foreign one nothing is known
	http2  atomic.Bool // the base speaks it, or did once
	bounds atomic.Pointer[bounds]
	idle   sync.Pool // of *alarm
	layer  exchange.Layer
}

type bounds struct {
	Bounds
	connect time.Duration
	body    *exchange.Limit
}

// Timeout returns a layer that bounds exchanges by b, over any base.
func Timeout(system string, b Bounds) Layer {
	t := newTimeouts(system, false)
	t.bounds.Store(&bounds{Bounds: b, body: t.limit(b.MaxBytes)})
	return t.Wrap
}

// NewTimeouts returns the bounds of cfg, to be used over the [Base] of cfg.
func NewTimeouts(system string, cfg config.Config) *Timeouts {
	t := newTimeouts(system, true)
	t.Reconfigure(cfg)
	return t
}

// NewForeignTimeouts returns the bounds of cfg, to be used over any other base, of whose connecting they know nothing.
func NewForeignTimeouts(system string, cfg config.Config) *Timeouts {
	t := newTimeouts(system, false)
	t.Reconfigure(cfg)
	return t
}

// Reconfigure makes cfg, which must be complete, the bounds of exchanges that begin from now on.
func (t *Timeouts) Reconfigure(cfg config.Config) {
	if cfg.Protocol == config.HTTP2 {
		t.http2.Store(true) // for good: what NotSent says errs on the safe side
	}
	b := Bounds{Total: cfg.TotalTimeout, Read: cfg.ReadTimeout, MaxBytes: cfg.MaxResponseBytes}
	t.bounds.Store(&bounds{b, cfg.ConnectTimeout, t.limit(b.MaxBytes)})
}

// limit returns nil where a body has none.
func (t *Timeouts) limit(most int64) *exchange.Limit {
	if most <= 0 {
		return nil
	}
	return &exchange.Limit{Max: most, Err: &TooLargeError{System: t.system, Limit: most}}
}

func newTimeouts(system string, own bool) *Timeouts {
	t := &Timeouts{system: system, own: own}
	t.layer = exchange.Layer{Begin: t.begin, Failed: t.failed, Limit: bodyLimit, End: t.end, Interrupts: true, Uploads: true}
	return t
}

// Wrap returns next behind this layer: it is a [Layer], to be given to [Chain].
func (t *Timeouts) Wrap(next http.RoundTripper) http.RoundTripper { return t.layer.Wrap(next) }

func (t *Timeouts) begin(x *exchange.Exchange, h *exchange.Hold) error {
	own, asked := t.bounds.Load(), boundsOf(x)
	total, read := pick(own.Total, asked.Total), pick(own.Read, asked.Read)
	body := own.body
	if asked.MaxBytes != 0 {
		body = t.limit(asked.MaxBytes)
	} else if asked.Total < 0 { // a stream
		body = nil
	}
	phase, now := PhaseTotal, x.Elapsed()
	if total > 0 {
		if deadline, ok := x.CallerDeadline(); ok {
			left := deadline.Sub(x.Start.Add(now))
			if left = max(1, left-min(left/10, 100*time.Millisecond)); left < total {
				total, phase = left, PhaseDeadline
			}
		}
		x.SetDeadline(now + total)
	}
	if total <= 0 && read <= 0 {
		h.Token = body
		return nil
	}
	a, _ := t.idle.Get().(*alarm)
	if a == nil {
		a = &alarm{t: t}
	}
	a.body = body
	a.set(x, now, total, read, phase)
	h.Token = a
	return nil
}

// bodyLimit returns what begin has noted.
func bodyLimit(h *exchange.Hold) *exchange.Limit {
	if a, ok := h.Token.(*alarm); ok {
		return a.body
	}
	return h.Token.(*exchange.Limit)
}

func (t *Timeouts) end(_ *exchange.Exchange, h *exchange.Hold, _ exchange.Outcome) {
	if a, ok := h.Token.(*alarm); ok && a.stop() {
		t.idle.Put(a)
	}
}

// failed turns the timeouts of a dial and of a TLS handshake into TimeoutErrors,
// and notes what a failed dial proves, never in an error that others may have.
func (t *Timeouts) failed(x *exchange.Exchange, err error, raw bool) error {
	err = maybeSent(x, err, raw)
	if reason := t.invalid(x.Request, err); reason != "" {
		return &exchange.InvalidError{Reason: reason}
	}
	own, ok := errors.AsType[*dialError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	n, isNet := errors.AsType[net.Error](err)
	unsent := t.own && x.Request.Response == nil && !t.replayable(x.Request) && !errors.Is(err, exchange.ErrMaybeSent)
	limit := time.Duration(0)
	if t.own {
		limit = t.bounds.Load().connect
	}
	switch timeout := isNet && n.Timeout(); {
	case ok && timeout:
		return &TimeoutError{System: t.system, Phase: PhaseConnect, Limit: own.limit, unsent: unsent}
	case ok && unsent:
		return &dialError{err: err, unsent: true}
	case timeout && isOp && (op.Op == "dial" || op.Op == "proxyconnect"):
		return &TimeoutError{System: t.system, Phase: PhaseConnect}
	case timeout && strings.HasSuffix(err.Error(), "TLS handshake timeout"): // net/http's error has nothing else to know it by
		return &TimeoutError{System: t.system, Phase: PhaseTLS, Limit: limit, unsent: unsent}
	}
	return err
}

// invalid returns what our own base finds wrong with a request when it has begun with it, or
// net/http's below another one with a relative URL, which that might have completed.
func (t *Timeouts) invalid(req *http.Request, err error) string {
	_, isAddr := errors.AsType[*net.AddrError](err)
	text := err.Error()
	switch {
	case req.URL.Scheme == "" && strings.Contains(text, `unsupported protocol scheme ""`),
		req.URL.Host == "" && strings.Contains(text, "no Host in request URL"):
		return text
	case !t.own:
		return ""
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return "unsupported protocol scheme, neither http nor https" // and may be a user's name, of a URL without one
	case isAddr, strings.HasPrefix(text, "http2: invalid "), strings.HasPrefix(text, "http2: request header list larger"):
		return text
	}
	return ""
}

// replayable reports whether net/http may have sent req once already when it
// fails to make a connection for it.
func (t *Timeouts) replayable(req *http.Request) bool {
	if req.Method == http.MethodConnect { // the dialler takes it for a word to a proxy
		return true
	}
	if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return false
	}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	_, key := req.Header["Idempotency-Key"]
	_, xkey := req.Header["X-Idempotency-Key"]
	return key || xkey || t.http2.Load() // which repeats what a server says it has not processed
}

// An alarm bounds one exchange at a time. One timer serves both bounds: a
// Read costs it nothing, since it looks at the silence when it rings and then
// sleeps for what is left. Reused, it costs no allocation; a timer for each
// exchange would be two.
type alarm struct {
	t *Timeouts

	mu    sync.Mutex
	x     *exchange.Exchange // nil once it has ended
	timer *time.Timer
	limit time.Duration // the total; 0 or less for none
	due   time.Duration // when it is over, since x.Start
	read  time.Duration // 0 or less for none
	phase Phase

	body *exchange.Limit // of the same exchange
}

func (a *alarm) set(x *exchange.Exchange, now, total, read time.Duration, phase Phase) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.x, a.limit, a.due, a.read, a.phase = x, total, now+total, read, phase
	first := total
	if total <= 0 || 0 < read && read < total {
		first = read
	}
	if a.timer == nil {
		a.timer = time.AfterFunc(first, a.ring)
	} else {
		a.timer.Reset(first)
	}
}

// stop reports whether a can be used again: not if it may be ringing.
func (a *alarm) stop() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.x = nil
	return a.timer.Stop()
}

func (a *alarm) ring() {
	x, by, timeout := a.check()
	if x != nil {
		x.Interrupt(by, timeout, context.DeadlineExceeded)
	}
}

// check returns the exchange to interrupt, or sets the timer to when there may
// be one. A silence that has yet to begin can't be over before read has passed.
func (a *alarm) check() (*exchange.Exchange, exchange.By, *TimeoutError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.x == nil {
		return nil, 0, nil
	}
	next := time.Duration(1<<63 - 1)
	if a.limit > 0 {
		if next = a.due - a.x.Elapsed(); next <= 0 {
			by := exchange.Bound
			if a.phase == PhaseDeadline {
				by = exchange.Caller
			}
			return a.x, by, &TimeoutError{System: a.t.system, Phase: a.phase, Limit: a.limit}
		}
	}
	if a.read > 0 {
		left := a.read - max(0, a.x.Silence())
		if left <= 0 {
			return a.x, exchange.Bound, &TimeoutError{System: a.t.system, Phase: PhaseRead, Limit: a.read}
		}
		next = min(next, left)
	}
	a.timer.Reset(next)
	return nil, 0, nil
}
