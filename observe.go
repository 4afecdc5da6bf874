package resilient

import (
	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// Observe makes the bulkhead and the breaker count what they would refuse, in
// would_refuse_total, and refuse nothing: to see what they would do before they
// do it. They decide as with AcquireTimeout = NoWait. A request that would be refused
// takes no permit and reports nothing. The timeouts stay, and a closed client
// refuses. NewClient warns of it in the log, for a client that observes is not protected.
func Observe() Option {
	return option("Observe", false, func(o *options) { o.observe = true })
}

// observer is a layer in place of the bulkhead. It asks the breaker too, since what that
// would refuse must not keep a permit; so the exchange reports to it.
func (c *Client) observer() transport.Layer {
	l := exchange.Layer{
		Begin: func(x *exchange.Exchange, h *exchange.Hold) error {
			if s := x.Scope; s != nil && s.Borrow() {
				x.Lender, h.Token = s, s
				return nil
			}
			permit, done, err := c.observe()
			x.Lender, h.Token = &exchange.Scope{Judge: func(v int) { done(Verdict(v)) }}, permit
			return err
		},
		End:     func(_ *exchange.Exchange, h *exchange.Hold, _ exchange.Outcome) { h.Token.(semaphore.Permit).Release() },
		Streams: true,
	}
	return l.Wrap
}

// observe asks as admission does, without waiting. Of the errors it returns only the client's end.
func (c *Client) observe() (semaphore.Permit, func(Verdict), error) {
	reason := "open"
	if c.breaker.Peek() == nil {
		reason = "full"
		if c.sem.TryAcquire() {
			done, err := c.breaker.Allow()
			if err == nil {
				return c.sem, done, nil
			}
			c.sem.Release()
			reason = "open"
		}
	}
	if c.closing.Load() {
		return nil, nil, &ClosedError{System: c.name}
	}
	c.stats.wouldHaveRefused(reason)
	return nobodys{}, func(Verdict) {}, nil
}

// nobodys is the permit of one that would have been refused.
type nobodys struct{}

func (nobodys) Release() {}
