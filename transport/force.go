package transport

import "time"

// A forced state is in place of what gobreaker says.
type forced struct {
	state string
	until time.Time // zero: until it is changed
}

// ForceOpen refuses all requests from now on, without asking whether the system
// works, for d, or until another call of the three if d is 0 or less. Exchanges
// under way go on, and report.
func (b *Breaker) ForceOpen(d time.Duration) { b.setForce(ForcedOpen, d) }

// ForceClosed admits all requests from now on, whatever fails, for d, or until
// another call of the three if d is 0 or less. They report nothing.
func (b *Breaker) ForceClosed(d time.Duration) { b.setForce(ForcedClosed, d) }

// Automatic ends a forced state: b goes on with what it had, and with what
// exchanges admitted before have reported since.
func (b *Breaker) Automatic() { b.setForce("", 0) }

func (b *Breaker) setForce(state string, d time.Duration) {
	var f *forced
	if state != "" {
		f = &forced{state: state}
		if d > 0 {
			f.until = time.Now().Add(d)
		}
	}
	b.replaceForce(f, nil)
	b.transitions.deliver()
}

// force returns the forced state, or nil if there is none, or none any more. That it ended is a transition to be delivered.
func (b *Breaker) force() *forced {
	f := b.forced.Load()
	if f == nil || f.until.IsZero() || time.Now().Before(f.until) {
		return f
	}
	b.replaceForce(nil, f)
	return b.forced.Load()
}

// replaceForce makes f the forced state, if it was old or old is nil.
func (b *Breaker) replaceForce(f, old *forced) {
	t := &b.transitions
	t.mu.Lock()
	defer t.mu.Unlock()
	if old == nil || b.forced.Load() == old {
		b.forced.Store(f)
		b.move()
	}
}

// refusal is what a forced breaker answers: nil if it is forced closed.
func (f *forced) refusal(b *Breaker) error {
	if f.state == ForcedClosed {
		return nil
	}
	e := &OpenError{System: b.system, Forced: true}
	if !f.until.IsZero() {
		e.RetryAfter = max(0, time.Until(f.until))
	}
	return e
}
