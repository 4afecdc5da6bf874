package resilient

import (
	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// Observe makes the bulkhead and the breaker count what they would refuse, in
// would_refuse_total, and refuse nothing: to see what they would do before they
// do it. They decide as with AcquireTimeout = NoWait. A request that would be refused
// takes no permit and reports nothing. The timeouts stay, as does MaxConnsPerHost,
// beyond which requests wait for a connection; and a closed client refuses. NewClient
// warns of it in the log, for a client that observes is not protected.
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
			permit, done, err := c.observe(x.Scope)
			lender := &exchange.Scope{}
			if done != nil {
				lender.Judge = func(v int) { done(Verdict(v)) }
			}
			x.Lender, h.Token = lender, permit
			return err
		},
		End:     func(_ *exchange.Exchange, h *exchange.Hold, _ exchange.Outcome) { h.Token.(semaphore.Permit).Release() },
		Streams: true,
	}
	return l.Wrap
}

// observe asks as admission does, without waiting. Of the errors it returns only the client's end. For what would
// have been refused done is nil; that is so, and nobody is asked, for all that is made within an execution of which it is true.
func (c *Client) observe(within *exchange.Scope) (permit semaphore.Permit, done func(Verdict), err error) {
	reason := ""
	switch {
	case within != nil && within.Judge == nil:
	case c.breaker.Peek() != nil:
		reason = "open"
	case !c.sem.TryAcquire():
		reason = "full"
	default:
		if done, err := c.breaker.Allow(); err == nil {
			return c.sem, done, nil
		}
		c.sem.Release()
		reason = "open"
	}
	if c.closing.Load() {
		return nil, nil, &ClosedError{System: c.name}
	}
	if reason != "" {
		c.stats.wouldHaveRefused(reason)
	}
	return nobodys{}, nil, nil
}

// nobodys is the permit of one that would have been refused.
type nobodys struct{}

func (nobodys) Release() {}
