package transport

import (
	"time"

	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/semaphore"
)

// Bulkhead holds a permit of b for each exchange, waiting for it at most wait
// (0 or less: not at all). Before it waits it asks peek, if not nil, whether
// the request would be refused anyway, and if so refuses it with that error.
//
// The permit of an upgraded connection (101) is held until that is closed. A
// caller that waits is heeded by its context; Request.Cancel, which is deprecated,
// is heeded once the request is sent.
func Bulkhead(b semaphore.Bulkhead, wait time.Duration, peek func() error) Layer {
	l := exchange.Layer{
		Begin: func(x *exchange.Exchange, h *exchange.Hold) error {
			if s := x.Scope; s != nil && s.Borrow() {
				x.Lender, h.Token = s, s // admitted when the execution was
				return nil
			}
			if peek != nil {
				if err := peek(); err != nil {
					return err
				}
			}
			permit, err := b.Acquire(x.Context(), wait)
			h.Token = permit
			return err
		},
		End:     func(_ *exchange.Exchange, h *exchange.Hold, _ exchange.Outcome) { h.Token.(semaphore.Permit).Release() },
		Failed:  maybeSent,
		Streams: true,
	}
	return l.Wrap
}
