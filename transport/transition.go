package transport

import (
	"sync"
	"sync/atomic"
)

// A Transition is a change of a Breaker's state.
type Transition struct {
	System, From, To string
	Reason           string  // why it opened, or Forced; "" otherwise
	FailureRate      float64 // of the window, when it opened from closed
}

// The reasons of a Transition.
const (
	FailureRatio        = "failure_ratio"        // of at least MinRequests in the window, so many had failed
	ConsecutiveFailures = "consecutive_failures" // so many had failed in a row
	FailedProbe         = "failed_probe"         // a half-open breaker's, which opened it again
	Forced              = "forced"               // by hand
)

// OnTransition sets a func that is called after each transition, in order and
// outside of every lock: it may use the Breaker. A panic in it is dropped. To be
// called before the first request.
func (b *Breaker) OnTransition(f func(Transition)) { b.transitions.hook = f }

// transitions knows the states of a Breaker and tells of their changes.
// gobreaker says so under its mutex, where nothing may be asked of it.
type transitions struct {
	hook func(Transition)

	mu         sync.Mutex
	automatic  Transition // gobreaker's last; its To is what gobreaker says
	why        Transition // gobreaker's last to open; zero once it has closed
	visible    string     // the state: what gobreaker says, or a forced one
	queue      []Transition
	delivering bool
	pending    atomic.Bool // there may be some in the queue: saves the lock
}

// move notes a change of what is to be seen, if there is one: while a state is
// forced, what gobreaker does below is none. It needs the lock.
func (b *Breaker) move() {
	t := &b.transitions
	made := t.automatic
	if f := b.forced.Load(); f != nil {
		made = Transition{To: f.state, Reason: Forced}
	}
	if made.To == t.visible {
		return
	}
	made.System, made.From = b.system, t.visible
	t.visible = made.To
	if t.hook != nil {
		t.queue = append(t.queue, made)
		t.pending.Store(true)
	}
}

// deliver calls the hook for what is in the queue, unless somebody is doing it.
func (t *transitions) deliver() {
	if !t.pending.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.delivering {
		return
	}
	t.delivering = true
	for len(t.queue) > 0 {
		next := t.queue[0]
		t.queue = t.queue[1:]
		t.call(next)
	}
	t.delivering = false
	t.pending.Store(false)
}

// call calls the hook without the lock, in a goroutine that it may end or let
// panic without harm to an exchange.
func (t *transitions) call(one Transition) {
	t.mu.Unlock()
	defer t.mu.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		t.hook(one)
	}()
	<-done
}
