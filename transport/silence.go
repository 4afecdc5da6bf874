package transport

import (
	"sync/atomic"
	"time"

	"github.com/resilient-go/resilient/internal/exchange"
)

// A silence tells how long a system has sent nothing to anybody who waited for
// it. It is the system's, not one exchange's: impatient callers of a slow
// partner that answers others are no sign that it hangs. That a request body is
// being taken counts for nothing: a hung system's kernel takes some of each.
type silence struct {
	epoch   time.Time
	waiting atomic.Int64
	since   atomic.Int64 // when somebody began to wait after nobody had, in ns since epoch
	heard   atomic.Int64 // when something was last heard
}

func (s *silence) now() int64 { return int64(time.Since(s.epoch)) }

// wait says that somebody starts to wait, or stops, having heard something or
// not. Who waits for events does not count: there may be none. Nor does who reports to nobody.
func (s *silence) wait(x *exchange.Exchange, h *exchange.Hold, at time.Duration, start, heard bool) {
	if h.Token == nil {
		return
	}
	now := int64(x.Start.Sub(s.epoch) + at)
	if heard {
		s.heard.Store(now)
	}
	if p, ok := h.Token.(*probe); ok && p.stream {
		return
	}
	if !start {
		s.waiting.Add(-1)
		return
	}
	if s.waiting.Load() == 0 {
		s.since.Store(now) // before it can count, so that nobody sees the count with an old time
	}
	s.waiting.Add(1)
}

// lasts returns for how long it has, for one who waits.
func (s *silence) lasts() time.Duration {
	return time.Duration(s.now() - max(s.since.Load(), s.heard.Load()))
}
