package transport

import "time"

// The states of a Breaker.
const (
	Closed       = "closed"        // calls go through, and are counted
	Open         = "open"          // calls are refused, for OpenFor
	HalfOpen     = "half_open"     // HalfOpenProbes calls go through, others are refused
	ForcedOpen   = "forced_open"   // calls are refused, by hand
	ForcedClosed = "forced_closed" // calls go through whatever fails, by hand
)

// BreakerState is what [Breaker.State] returns.
type BreakerState struct {
	State     string    // Closed, Open, HalfOpen, ForcedOpen or ForcedClosed
	OpenUntil time.Time // when probes are let through, or a forced state ends; zero if it is neither or has no end

	// Why the breaker opened last: one of the reasons of Transition, and the share
	// of failures if it was closed then. Zero if it is closed. In a forced state it
	// is what is below that, to which Automatic goes back.
	Reason      string
	FailureRate float64
}

// State returns the state as of now: a Breaker whose OpenFor has passed is half-open.
func (b *Breaker) State() BreakerState {
	b.force()
	b.core.Load().cb.State() // which makes it half-open when it is time
	if b.transitions.pending.Load() {
		go b.transitions.deliver() // a hook must not hold up who looks, for metrics, say
	}
	t := &b.transitions
	t.mu.Lock()
	defer t.mu.Unlock()
	s := BreakerState{State: t.visible, Reason: t.why.Reason, FailureRate: t.why.FailureRate}
	if until := b.opened.Load(); s.State == Open && until != 0 {
		s.OpenUntil = b.silence.epoch.Add(time.Duration(until))
	}
	if f := b.forced.Load(); f != nil { // not the one from before: another may be in its place
		s.OpenUntil = f.until
	}
	return s
}

// changed notes a change that k made. It runs under gobreaker's mutex, where nothing may be asked of it.
func (b *Breaker) changed(k *core, made Transition) {
	t := &b.transitions
	t.mu.Lock()
	defer t.mu.Unlock()
	if b.core.Load() != k {
		return // replaced: who was admitted by it may still report
	}
	until := int64(0)
	if made.To == Open {
		until = b.silence.now() + int64(k.openFor)
	}
	b.opened.Store(until)
	b.probing.Store(made.To == HalfOpen)
	t.automatic = made
	switch made.To {
	case Open:
		t.why = made
	case Closed:
		t.why = Transition{}
	}
	b.move()
	b.renew(b.wanted)
}

// renew replaces the core by one with the settings wanted, now or when b has closed. It needs the transitions' lock.
func (b *Breaker) renew(wanted settings) (pending bool) {
	b.wanted = wanted
	switch k := b.core.Load(); {
	case k.settings == wanted:
		return false
	case b.transitions.automatic.To != Closed:
		return true
	}
	b.core.Store(newCore(b, wanted))
	return false
}
