package transport

import (
	"net/http"
	"sync"
	"time"

	"github.com/resilient-go/resilient/internal/exchange"
)

// begin asks gobreaker, which gives the func to report to.
func (b *Breaker) begin(x *exchange.Exchange, h *exchange.Hold) error {
	done, err := b.cb.Allow()
	b.transitions.deliver()
	if err != nil {
		return b.refusal()
	}
	h.Token = done
	own := b.rules.Load().total
	if total := pick(own, boundsOf(x).Total); total < 0 || total > own {
		s := &streamProbe{b: b, done: done}
		s.timer = time.AfterFunc(own, func() { s.report(Neutral) })
		h.Token = s
	}
	return nil
}

// answered notes the verdict on the headers. A stream is judged by them alone.
func (b *Breaker) answered(x *exchange.Exchange, h *exchange.Hold, resp *http.Response) {
	v := b.rules.Load().answer(x, resp)
	h.Note = int(v)
	if s, ok := h.Token.(*streamProbe); ok {
		s.answered(v)
	}
}

// end reports once, even if a classifier panics.
func (b *Breaker) end(x *exchange.Exchange, h *exchange.Hold, how exchange.Outcome) {
	v := Failure
	defer func() {
		if s, ok := h.Token.(*streamProbe); ok {
			s.answered(v)
			return
		}
		b.report(h.Token.(func(error)), v)
	}()
	v = b.rules.Load().end(x, how, Verdict(h.Note), b.silence.lasts())
}

// A streamProbe reports for an exchange that may last longer than any other: at
// its headers, or neutral if none came within TotalTimeout. Otherwise it could
// keep a half-open breaker from ever deciding, and be forgotten when it does end.
type streamProbe struct {
	b     *Breaker
	done  func(error)
	once  sync.Once
	timer *time.Timer
}

func (s *streamProbe) answered(v Verdict) {
	s.timer.Stop()
	s.report(v)
}

func (s *streamProbe) report(v Verdict) { s.once.Do(func() { s.b.report(s.done, v) }) }
