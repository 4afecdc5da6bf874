package exchange_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
)

// How a Read of an arena's body ends is told by the length of its buffer.
const (
	toEOF = 1 + iota
	toError
	toPanic
	toClose // or to the end of the race
)

// An arena is an exchange that several act on at once, or two with a foreign layer between.
type arena struct {
	*rig
	inner  *rig // nil if there is one exchange only
	body   io.ReadCloser
	cancel context.CancelFunc

	mu   sync.Mutex
	told []error // by Reads
}

func newArena(t *testing.T, nested bool, over chan struct{}) *arena {
	b := newFake(nil)
	b.read = func(p []byte) (int, error) {
		select {
		case <-b.closed:
			return 0, http.ErrBodyReadAfterClose
		default:
		}
		switch len(p) {
		case toEOF:
			return 0, io.EOF
		case toPanic:
			panic(errBoom)
		case toClose:
			select {
			case <-b.closed:
				return 0, http.ErrBodyReadAfterClose
			case <-over:
			}
		}
		return 0, errBoom
	}
	a := &arena{}
	if nested {
		a.inner = newRig(t, answer(b))
		a.rig = newRig(t, trip(a.inner.RoundTrip))
	} else {
		a.rig = newRig(t, answer(b))
	}
	ctx, cancel := context.WithCancel(t.Context())
	a.cancel = cancel
	resp, err := a.RoundTrip(request(ctx))
	if err != nil {
		t.Fatal(err)
	}
	a.body = resp.Body
	return a
}

func (a *arena) read(how int) {
	var err error
	defer func() {
		if recover() != nil {
			err = errAny
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.told = append(a.told, err)
	}()
	_, err = a.body.Read(make([]byte, how))
}

var racers = []struct {
	name string
	act  func(a *arena)
}{
	{"EOF", func(a *arena) { a.read(toEOF) }},
	{"error", func(a *arena) { a.read(toError) }},
	{"panic", func(a *arena) { a.read(toPanic) }},
	{"stuck", func(a *arena) { a.read(toClose) }},
	{"Close", func(a *arena) { a.body.Close() }},
	{"Close again", func(a *arena) { a.body.Close(); a.body.Close() }},
	{"cancel", func(a *arena) { a.cancel() }},
	{"Bound", func(a *arena) { a.interrupt(Bound) }},
	{"Owner", func(a *arena) { a.interrupt(Owner) }},
	{"inner", func(a *arena) { // the end of the inner exchange, which the outer one has adopted
		if a.inner != nil {
			a.inner.interrupt(Bound)
		}
	}},
}

// race lets the racers named act at once, and judges.
func race(t *testing.T, nested bool, who ...int) {
	over, start := make(chan struct{}), make(chan struct{})
	a := newArena(t, nested, over)
	var names []string
	var quick, all sync.WaitGroup
	for _, i := range who {
		names = append(names, racers[i].name)
		delay := rand.IntN(8)
		wg := &quick
		if racers[i].name == "stuck" {
			wg = &all
		}
		wg.Go(func() {
			<-start
			for range delay {
				runtime.Gosched()
			}
			racers[i].act(a)
		})
	}
	close(start)
	quick.Wait()
	close(over)
	all.Wait()
	a.cancel()
	a.body.Close() // "inner" alone has done nothing
	a.judge(strings.Join(names, ", "))
}

func (a *arena) judge(names string) {
	a.Helper()
	for range 1000 { // a watch on the caller's context may be under way
		if len(a.ends()) == len(all) && (a.inner == nil || len(a.inner.ends()) == len(all)) {
			break
		}
		time.Sleep(10 * time.Microsecond)
	}
	a.settled()
	if a.inner != nil {
		a.inner.settled()
	}
	ends := a.ends()
	for _, how := range ends {
		if how != ends[0] {
			a.Fatalf("%s: the layers saw %+v", names, ends)
		}
	}
	how := ends[0]
	cause := map[By]error{Caller: context.Canceled, Bound: errBound, Owner: errOwner}[how.By]
	closed := strings.Contains(names, "Close")
	switch has := func(err error) bool { return slices.Contains(a.told, err) }; {
	case how.By != Nobody && how.Fault != cause:
		a.Errorf("%s: interrupted by %v, with %v", names, how.By, how.Fault)
	case how.By == Nobody && how.Fault == nil && !closed && !has(io.EOF) && !has(nil):
		if names != "inner" { // or the Close that comes after all
			a.Errorf("%s: a good end, of %v", names, a.told)
		}
	case how.By == Nobody && how.Fault == errBoom && !has(errBoom), how.Panicked && !has(errAny):
		a.Errorf("%s: ended with %+v, of %v", names, how, a.told)
	}
	for _, err := range a.told {
		switch {
		case err == errBound, err == errOwner, err == context.Canceled:
			// Of two Reads at once, which a body need not bear, one may hear of the inner exchange's
			// interruption while the other's panic is the end of the outer one.
			if how.Fault != err && !closed && !(how.Panicked && a.inner != nil) {
				a.Errorf("%s: a Read said %v of %+v", names, err, how)
			}
		case err == errAny:
		case how.By != Nobody:
			a.Errorf("%s: a Read said %v of %+v", names, err, how)
		}
	}
}

func (r *rig) ends() []Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[len(r.runs)-1].how
}

// watchdog ends a test that hangs long before the go command does.
func watchdog(t *testing.T) {
	timer := time.AfterFunc(time.Minute, func() { panic(t.Name() + " hangs") })
	t.Cleanup(func() { timer.Stop() })
}

func TestRaceOfTwo(t *testing.T) {
	watchdog(t)
	for i := range racers {
		for j := i; j < len(racers); j++ {
			for range 60 {
				race(t, false, i, j)
				race(t, true, i, j)
			}
		}
	}
}

func TestRaceOfThree(t *testing.T) {
	watchdog(t)
	for range 2000 {
		who := rand.Perm(len(racers))[:3]
		race(t, rand.IntN(2) == 0, who...)
	}
}

// RoundTrip returns while somebody interrupts.
func TestRaceWithRoundTrip(t *testing.T) {
	watchdog(t)
	returns := map[string]trip{
		"response": func(req *http.Request) (*http.Response, error) { return reply(req, 200, text("")), nil },
		"no body":  func(req *http.Request) (*http.Response, error) { return reply(req, 200, http.NoBody), nil },
		"error":    func(req *http.Request) (*http.Response, error) { return nil, errBoom },
		"both":     func(req *http.Request) (*http.Response, error) { return reply(req, 200, text("")), errBoom },
		"upgrade":  upgradeTo(conn{text("")}),
	}
	type act struct {
		name string
		do   func(r *rig, cancel context.CancelFunc)
	}
	acts := []act{
		{"cancel", func(_ *rig, cancel context.CancelFunc) { cancel() }},
		{"Bound", func(r *rig, _ context.CancelFunc) { r.interrupt(Bound) }},
		{"Owner", func(r *rig, _ context.CancelFunc) { r.interrupt(Owner) }},
	}
	for name, base := range returns {
		for i, one := range acts {
			for _, two := range acts[i:] {
				for range 100 {
					var wg sync.WaitGroup
					ctx, cancel := context.WithCancel(t.Context())
					r := newRig(t, nil)
					r.RoundTripper = trip(func(req *http.Request) (*http.Response, error) {
						for _, act := range []act{one, two} {
							wg.Go(func() {
								for range rand.IntN(8) {
									runtime.Gosched()
								}
								act.do(r, cancel)
							})
						}
						return base(req)
					})
					r.around(all...)
					resp, err := r.RoundTrip(request(ctx))
					at := len(r.ends())
					wg.Wait()
					if err == nil {
						resp.Body.Close()
					} else if at != len(all) {
						t.Fatalf("%s, %s, %s: RoundTrip returned before the ends: %d", name, one.name, two.name, at)
					}
					cancel()
					for range 1000 {
						if len(r.ends()) == len(all) {
							break
						}
						time.Sleep(10 * time.Microsecond)
					}
					r.settled()
					how := r.ends()[len(all)-1]
					if err != nil && !errors.Is(err, how.Fault) {
						t.Errorf("%s, %s, %s: %v of %+v", name, one.name, two.name, err, how)
					}
				}
			}
		}
	}
}

// The owner interrupts an exchange while its caller's context ends in Begin.
func TestRaceInBegin(t *testing.T) {
	for _, layers := range [][]string{{"watch", "bound", "permit"}, {"watch", "permit", "bound"}} {
		for range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			r := newRig(t, answer(text("")), layers...)
			r.begin = func(layer string, x *Exchange) error {
				if layer == "permit" {
					wg.Go(func() { r.interrupt(Owner) })
					cancel()
					return ctx.Err()
				}
				return nil
			}
			_, err := r.RoundTrip(request(ctx))
			r.settled()
			if how := r.ends()[0]; err != how.Fault || err != errOwner && err != context.Canceled {
				t.Errorf("%v of %+v", err, how)
			}
			wg.Wait()
		}
	}
}

// An upgrade is given back in two parts: the handshake's by RoundTrip, and by then its owner may already be at the
// whole. Each End runs once, and the handshake's do not see an outcome that is being written.
func TestRaceInHandshake(t *testing.T) {
	for range 500 {
		var wg sync.WaitGroup
		r := newRig(t, upgradeTo(conn{text("")}))
		r.answered = func(layer string, x *Exchange, _ *http.Response) {
			if layer == "watch" { // the last one
				wg.Go(func() {
					for range rand.IntN(200) {
						runtime.Gosched()
					}
					x.Interrupt(Owner, errOwner, context.Canceled)
				})
			}
		}
		resp, err := r.RoundTrip(request(t.Context()))
		wg.Wait()
		if err == nil {
			resp.Body.Close()
		}
		r.settled()
	}
}
