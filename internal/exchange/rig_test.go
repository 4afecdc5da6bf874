package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
)

// TestMain fails when goroutines outlive the tests.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s", stacks[:runtime.Stack(stacks, true)])
			os.Exit(1)
		}
	}
	os.Exit(code)
}

var (
	errBoom  = errors.New("boom")
	errBound = errors.New("too slow")
	errOwner = errors.New("client closed")
	errAny   = errors.New("any error") // in what a test wants
)

// A rig is a chain of layers that note what begins and ends:
//
//	watch   Always, Streams, Waiting: an observer
//	permit  Streams: a bulkhead
//	slot    none of them: a breaker; it ends with a 101's handshake
//	bound   Interrupts, Uploads: a timeout; with total set, a timer
//
// Its hooks run inside the layers' functions and are set before the first request.
type rig struct {
	testing.TB
	http.RoundTripper

	total    time.Duration
	begin    func(layer string, x *Exchange) error
	answered func(layer string, x *Exchange, resp *http.Response)
	failed   func(layer string, x *Exchange, err error) error
	end      func(layer string, x *Exchange, how Outcome)

	mu      sync.Mutex
	runs    []*run
	of      map[*Exchange]*run
	waiting int
	starts  int
	heard   int
}

// A run is what the layers noted of one exchange.
type run struct {
	*Exchange
	begun, ended     []string
	answered, failed []string
	how              []Outcome       // as each End saw it
	at               []time.Duration // of each End
}

var (
	all     = []string{"watch", "permit", "slot", "bound"}
	reverse = []string{"bound", "slot", "permit", "watch"}
)

// newRig puts the named layers around base, first outermost: all of them if none is named.
func newRig(t testing.TB, base http.RoundTripper, names ...string) *rig {
	r := &rig{TB: t, RoundTripper: base, of: map[*Exchange]*run{}}
	if len(names) == 0 {
		names = all
	}
	r.around(names...)
	return r
}

// around puts more layers around those that r has.
func (r *rig) around(names ...string) {
	for _, name := range slices.Backward(names) {
		r.RoundTripper = r.layer(name).Wrap(r.RoundTripper)
	}
}

func (r *rig) layer(name string) *Layer {
	l := &Layer{
		Begin:    func(x *Exchange, h *Hold) error { return r.onBegin(name, x, h) },
		End:      func(x *Exchange, h *Hold, how Outcome) { r.onEnd(name, x, h, how) },
		Answered: func(x *Exchange, h *Hold, resp *http.Response) { r.onAnswered(name, x, h, resp) },
		Failed:   func(x *Exchange, err error, raw bool) error { return r.onFailed(name, x, err, raw) },
	}
	switch strings.TrimRight(name, "0123456789") {
	case "watch":
		l.Always, l.Streams = true, true
		l.Waiting = func(_ *Exchange, h *Hold, _ time.Duration, start, heard bool) { r.onWaiting(name, h, start, heard) }
	case "permit":
		l.Streams = true
	case "bound":
		l.Interrupts, l.Uploads = true, true
	case "uploads":
		l.Uploads = true
	case "limit": // which no body here reaches
		l.Limit = func(*Hold) *Limit { return &Limit{Max: 1 << 30, Err: errors.New("too large")} }
	}
	return l
}

func (r *rig) onBegin(name string, x *Exchange, h *Hold) error {
	if *h != (Hold{}) {
		r.Errorf("%s begins with a hold that is not empty: %v", name, *h)
	}
	if r.begin != nil {
		if err := r.begin(name, x); err != nil {
			return err
		}
	}
	h.Token, h.Note = &name, len(name)
	if name == "bound" && r.total > 0 {
		x.SetDeadline(x.Elapsed() + r.total)
		h.Token = time.AfterFunc(r.total, func() { x.Interrupt(Bound, errBound, context.DeadlineExceeded) })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of[x]
	if of == nil {
		of = &run{Exchange: x}
		r.of[x], r.runs = of, append(r.runs, of)
	}
	of.begun = append(of.begun, name)
	return nil
}

func (r *rig) onAnswered(name string, x *Exchange, h *Hold, resp *http.Response) {
	r.mu.Lock()
	of := r.of[x]
	of.answered = append(of.answered, name)
	r.mu.Unlock()
	if h.Note != len(name) {
		r.Errorf("%s was given another layer's hold", name)
	}
	if r.answered != nil {
		r.answered(name, x, resp)
	}
}

func (r *rig) onFailed(name string, x *Exchange, err error, raw bool) error {
	r.mu.Lock()
	of := r.of[x]
	if raw != (len(of.failed) == 0) {
		r.Errorf("%s fails after %v, raw: %v", name, of.failed, raw)
	}
	of.failed = append(of.failed, name)
	r.mu.Unlock()
	if r.failed != nil {
		return r.failed(name, x, err)
	}
	return err
}

func (r *rig) onEnd(name string, x *Exchange, h *Hold, how Outcome) {
	if h.Note != len(name) {
		r.Errorf("%s was given another layer's hold", name)
	}
	if timer, ok := h.Token.(*time.Timer); ok {
		timer.Stop()
	}
	r.mu.Lock()
	of := r.of[x]
	of.ended, of.how, of.at = append(of.ended, name), append(of.how, how), append(of.at, x.Elapsed())
	r.mu.Unlock()
	if r.end != nil {
		r.end(name, x, how)
	}
}

func (r *rig) onWaiting(name string, h *Hold, start, heard bool) {
	if h.Note != len(name) {
		r.Errorf("%s was given another layer's hold", name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if start {
		r.waiting++
		r.starts++
	} else {
		r.waiting--
	}
	if heard {
		r.heard++
	}
	if r.waiting < 0 || start && heard {
		r.Errorf("waiting: %d, start %v, heard %v", r.waiting, start, heard)
	}
}

// last returns what was noted of the exchange that began last.
func (r *rig) last() *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.runs) == 0 {
		r.Helper()
		r.Fatal("no exchange has begun")
	}
	return r.runs[len(r.runs)-1]
}

// held checks how many holds have begun and not ended.
func (r *rig) held(want int) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := 0
	for _, of := range r.runs {
		got += len(of.begun) - len(of.ended)
	}
	if got != want {
		r.Errorf("%d holds, want %d", got, want)
	}
}

// settled checks that each hold ended once, inside out, and that nobody waits.
func (r *rig) settled() {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range r.runs {
		want := slices.Clone(of.begun)
		slices.Reverse(want)
		if !slices.Equal(of.ended, want) {
			r.Errorf("begun %v, ended %v", of.begun, of.ended)
		}
	}
	if r.waiting != 0 {
		r.Errorf("%d waiting", r.waiting)
	}
}

// ended checks that the last exchange is over, and how its layers saw that. An
// upgrade's end in the handshake is not looked at.
func (r *rig) ended(want Outcome) {
	r.Helper()
	r.settled()
	for i, got := range r.last().how {
		if got == (Outcome{Upgraded: true}) && want.Upgraded {
			continue
		}
		if want.Fault == errAny && got.Fault != nil || want.Fault != nil && errors.Is(got.Fault, want.Fault) {
			got.Fault = want.Fault
		}
		if got != want {
			r.Errorf("%s saw the outcome\n     %+v\nwant %+v", r.last().ended[i], got, want)
		}
	}
}

// interrupt interrupts the exchange that began last.
func (r *rig) interrupt(by By) {
	switch x := r.last(); by {
	case Owner:
		x.Interrupt(Owner, errOwner, context.Canceled)
	case Bound:
		x.Interrupt(Bound, errBound, context.DeadlineExceeded)
	}
}
