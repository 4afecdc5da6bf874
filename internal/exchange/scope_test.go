package exchange_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	. "github.com/resilient-go/resilient/internal/exchange"
)

// An execution is a Scope of a client with a context of its own, as the root package makes one.
type execution struct {
	Scope
	ctx    context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc

	reported, freed atomic.Int32

	mu   sync.Mutex
	said []int
}

// execute begins an execution of the client's with a total, or none if that is 0.
func execute(ctx context.Context, client string, total time.Duration) *execution {
	e := &execution{stop: func() {}}
	e.Client, e.Parent, e.Around = client, ctx, ScopeIn(ctx)
	e.Judge = func(verdict int) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.said = append(e.said, verdict)
	}
	e.Report = func() { e.reported.Add(1) }
	e.Free = func() { e.freed.Add(1) }
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	if total > 0 {
		e.Deadline, e.Expired = time.Now().Add(total), map[bool]error{true: errBound, false: errBoom}[client == "sber"]
		e.ctx, e.stop = context.WithDeadlineCause(e.ctx, e.Deadline, e.Expired)
	}
	e.ctx = e.In(e.ctx)
	return e
}

// leave ends e: its func has returned.
func (e *execution) leave() {
	e.Close()
	e.cancel(&e.Scope) // before stop, which would be a plain cancel
	e.stop()
}

// newClient is a rig of the layers watch, permit and bound whose exchanges are
// part of the client's executions: permit borrows, or waits until it may go on.
func newClient(t *testing.T, client string, base trip) *rig {
	r := newRig(t, base, "watch", "permit", "bound")
	r.RoundTripper = (&Layer{
		Client: client,
		Begin:  func(*Exchange, *Hold) error { return nil },
		End:    func(*Exchange, *Hold, Outcome) {},
		Always: true,
	}).Wrap(r.RoundTripper)
	r.begin = func(layer string, x *Exchange) error {
		if layer == "permit" {
			if x.Scope != nil && x.Scope.Borrow() {
				x.Lender = x.Scope
			}
		}
		return nil
	}
	r.end = func(layer string, x *Exchange, _ Outcome) {
		if layer == "permit" && x.Lender != nil {
			x.Lender.Release()
		}
	}
	return r
}

// A Scope lends its permit to one at a time, and to nobody when it is over. It reports once, when it is over and the one
// who has the permit has been judged, and is freed once, when nobody has it.
func TestScopeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var reported, freed int
		var said, want []int
		s := &Scope{Judge: func(verdict int) { said = append(said, verdict) }}
		s.Report = func() { reported++ }
		s.Free = func() {
			if freed++; reported != 1 {
				t.Fatal("freed before it reported")
			}
		}
		lent, unsaid, over := false, false, false
		for i, step := range rapid.SliceOfN(rapid.SampledFrom([]string{"borrow", "borrow", "say", "release", "close"}), 1, 14).Draw(t, "steps") {
			switch {
			case step == "borrow":
				if got := s.Borrow(); got != (!lent && !over) {
					t.Fatalf("Borrow returned %v, lent %v, over %v", got, lent, over)
				}
				lent, unsaid = lent || !over, unsaid || !over && !lent
			case step == "say" && unsaid:
				s.Say(i)
				unsaid, want = false, append(want, i)
			case step == "release" && lent:
				s.Release()
				lent, unsaid = false, false
			case step == "close" && !over:
				s.Close()
				over = true
			}
			count := map[bool]int{true: 1}
			if reported != count[over && !unsaid] || freed != count[over && !lent] || !slices.Equal(said, want) {
				t.Fatalf("reported %d times, freed %d times, said %v; lent %v, unsaid %v, over %v", reported, freed, said, lent, unsaid, over)
			}
		}
	})
}

func TestScopeRace(t *testing.T) {
	for range 2000 {
		var lent, unsaid, over, reported, freed atomic.Int32
		s := &Scope{Judge: func(int) { unsaid.Add(-1) }}
		s.Report = func() {
			if reported.Add(1) != 1 || unsaid.Load() != 0 || over.Load() != 1 || freed.Load() != 0 {
				t.Errorf("reported %d times, unsaid %d, over %d, freed %d", reported.Load(), unsaid.Load(), over.Load(), freed.Load())
			}
			runtime.Gosched()
			reported.Add(10)
		}
		s.Free = func() {
			if freed.Add(1) != 1 || lent.Load() != 0 || reported.Load() != 11 {
				t.Errorf("freed %d times, lent %d, reported %d", freed.Load(), lent.Load(), reported.Load())
			}
		}
		start := make(chan struct{})
		var wg sync.WaitGroup
		act := func(f func()) {
			delay := rand.IntN(8)
			wg.Go(func() {
				<-start
				for range delay {
					runtime.Gosched()
				}
				f()
			})
		}
		for range 3 {
			act(func() {
				for range 3 {
					if !s.Borrow() {
						continue
					}
					unsaid.Add(1)
					if lent.Add(1) != 1 {
						t.Error("lent twice")
					}
					runtime.Gosched()
					s.Say(0)
					runtime.Gosched()
					lent.Add(-1)
					s.Release()
				}
			})
		}
		act(func() { over.Store(1); s.Close() })
		close(start)
		wg.Wait()
		if freed.Load() != 1 || reported.Load() != 11 {
			t.Fatalf("freed %d times, reported %d", freed.Load(), reported.Load())
		}
	}
}

// A Scope's own expiry, and that of one of its client's around it, is its bound; nothing else is.
func TestIsExpiry(t *testing.T) {
	outer := &Scope{Client: "sber", Expired: errBound}
	another := &Scope{Client: "insurer", Around: outer, Expired: errBoom}
	inner := &Scope{Client: "sber", Around: &Scope{Client: "sber", Around: another}, Expired: errOwner} // no total between
	for _, c := range []struct {
		s     *Scope
		cause error
		want  bool
	}{
		{nil, errBound, false}, {nil, nil, false}, {inner, nil, false}, {inner, errBoom, false},
		{inner, errOwner, true}, {inner, errBound, true}, {outer, errOwner, false}, {outer, errBound, true}, {outer, outer, false},
	} {
		if got := c.s.IsExpiry(c.cause); got != c.want {
			t.Errorf("%+v of %v: %v", c.s, c.cause, got)
		}
	}
}
