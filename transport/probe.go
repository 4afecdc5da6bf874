package transport

import (
	"net/http"
	"sync"
	"time"

	"github.com/resilient-go/resilient/internal/exchange"
)

// begin asks gobreaker, which gives the func to report to. An exchange that uses
// the permit of an execution reports to that, which has asked.
func (b *Breaker) begin(x *exchange.Exchange, h *exchange.Hold) error {
	own := b.rules.Load().total
	total := pick(own, boundsOf(x).Total)
	stream := total < 0 || total > own
	lender := x.Lender
	if lender != nil && lender.Judge == nil {
		return nil // what it says counts for nothing
	}
	if lender != nil && !stream {
		h.Token = lender
		return nil
	}
	var done func(error)
	if lender != nil {
		done = func(err error) { lender.Say(int(verdictOf(err))) }
	} else {
		var err error
		if done, err = b.allow(); err != nil {
			return err
		}
	}
	h.Token = done
	if stream {
		h.Token = b.newProbe(done, true, own)
	} else if b.probing.Load() {
		h.Token = b.newProbe(done, false, 2*own)
	}
	return nil
}

// answered notes the verdict on the headers. A stream is judged by them alone.
func (b *Breaker) answered(x *exchange.Exchange, h *exchange.Hold, resp *http.Response) {
	h.Note = int(Neutral) // if a classifier panics
	v := b.rules.Load().answer(x, resp)
	h.Note = int(v)
	if p, ok := h.Token.(*probe); ok && p.stream {
		p.report(b, v)
	}
}

// end reports once, even if a classifier panics, which is not the system's fault.
func (b *Breaker) end(x *exchange.Exchange, h *exchange.Hold, how exchange.Outcome) {
	v, silent := Neutral, time.Duration(0)
	defer func() {
		switch t := h.Token.(type) {
		case *exchange.Scope:
			t.Say(int(v))
		case *probe:
			t.report(b, v)
		case func(error):
			b.report(t, v)
		}
	}()
	if p, ok := h.Token.(*probe); how.Fault != nil && !(ok && p.stream) { // a stream did not count as waiting
		silent = b.silence.lasts()
	}
	v = b.rules.Load().end(x, how, Verdict(h.Note), silent)
}

// report tells gobreaker a verdict.
func (b *Breaker) report(done func(error), v Verdict) {
	done(errorOf(v))
	b.transitions.deliver()
}

// A probe reports for an exchange that could keep a half-open breaker from
// deciding: for a stream, which may last for ever, at its headers, or neutral if
// none came within TotalTimeout; for any other, neutral if it has not ended by
// twice that, as may be where no [Timeouts] bound it.
type probe struct {
	stream bool
	once   sync.Once
	done   func(error)
	timer  *time.Timer
}

func (b *Breaker) newProbe(done func(error), stream bool, patience time.Duration) *probe {
	p := &probe{stream: stream, done: done}
	p.timer = time.AfterFunc(patience, func() { p.once.Do(func() { b.report(done, Neutral) }) })
	return p
}

func (p *probe) report(b *Breaker, v Verdict) {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.once.Do(func() { b.report(p.done, v) })
}
