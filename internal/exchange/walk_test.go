package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	. "github.com/resilient-go/resilient/internal/exchange"
)

// A model is an exchange too slow and too simple to be wrong: it knows one Read
// at a time, and what comes one after the other.
type model struct {
	deaf     bool // the body's Read does not heed its Close
	returned bool // RoundTrip
	upgraded bool
	reading  bool
	over     bool
	shut     bool // the inner body
	drained  bool // to its end, and closed for that, but not by the caller
	none     bool // there is no body for the caller
	outside  bool // interrupted where the inner of two exchanges may take it for its caller's doing
	since    time.Duration
	lastRead time.Duration // -1: never
	outcome  Outcome
	told     []error // by RoundTrip and the Reads that have returned
	ends     int
}

func (m *model) end(fault error) {
	if m.outcome.By != Nobody {
		fault = m.outcome.Fault // it comes first
	}
	m.over, m.ends, m.outcome.Fault, m.outcome.Upgraded = true, 4, fault, m.upgraded
}

func (m *model) tell(err error) {
	if m.outcome.By != Nobody {
		err = m.outcome.Fault
	}
	m.told = append(m.told, err)
}

func (m *model) interrupt(by By, now time.Duration) {
	if m.over || m.outcome.By != Nobody || m.upgraded && by != Owner {
		return
	}
	m.outcome.By, m.outcome.Fault = by, causes[by]
	switch {
	case !m.returned || m.reading:
	case m.lastRead < 0:
		m.outcome.Idle = math.MaxInt64
	default:
		m.outcome.Idle = max(1, now-m.lastRead)
	}
	if !m.returned {
		return
	}
	m.close(now)
	if !m.reading {
		m.end(nil)
	}
}

// close closes the inner body, which ends a Read that heeds it.
func (m *model) close(now time.Duration) {
	m.shut = true
	if m.reading && !m.deaf {
		m.readReturns(http.ErrBodyReadAfterClose, now)
	}
}

func (m *model) readReturns(err error, now time.Duration) {
	m.reading, m.lastRead = false, now
	m.tell(err)
	switch {
	case m.over:
	case m.outcome.By == Nobody && (err == nil || err == io.EOF && m.upgraded):
	default:
		m.outcome.Panicked = err == errAny
		if err == io.EOF && m.outcome.By == Nobody {
			m.shut, m.drained = true, true
		}
		if err == io.EOF {
			err = nil
		}
		m.end(err)
	}
}

func (m *model) roundTripReturns(how string) {
	m.returned = true
	m.none = how == "error" || how == "panic" || how == "no body" || m.outcome.By != Nobody
	switch {
	case how == "panic": // which goes on, whoever interrupted it
		m.told = append(m.told, errAny)
		m.outcome.Panicked = true
		m.end(errAny)
	case how == "error":
		m.tell(errBoom)
		m.end(errBoom)
	case m.outcome.By != Nobody || how == "no body":
		m.tell(nil)
		m.end(nil)
	case how == "upgrade":
		m.tell(nil)
		m.upgraded, m.ends = true, 2
	default:
		m.tell(nil)
	}
}

var causes = map[By]error{Caller: context.Canceled, Bound: errBound, Owner: errOwner}

// do is what each step of a walk does to the model; false if it can't be done.
func (m *model) do(step string, now time.Duration) bool {
	what, arg, _ := strings.Cut(step, ": ")
	switch {
	case what == "return" && !m.returned:
		m.roundTripReturns(arg)
	case what == "interrupt":
		m.outside = m.outside || arg != "inner"
		m.interrupt(map[string]By{"caller": Caller, "bound": Bound, "owner": Owner, "inner": Bound}[arg], now)
		return arg != "inner" || m.returned && !(m.deaf && m.reading) // which nobody outside would know of
	case !m.returned || m.none:
		return what == "sleep"
	case what == "begin a Read" && !m.reading:
		m.reading, m.since = true, now
		if m.outcome.By != Nobody {
			m.reading = false
			m.tell(nil)
		} else if m.drained {
			m.reading = false
			m.tell(io.EOF)
		} else if m.shut && !m.deaf {
			m.readReturns(http.ErrBodyReadAfterClose, now)
		}
	case what == "end the Read" && m.reading:
		m.readReturns(reads[arg], now)
	case what == "close":
		m.drained = false
		over := m.over
		if !over {
			m.over = true // whatever the Read says, it was closed
		}
		m.close(now)
		if !over {
			m.end(nil)
		}
	case what != "sleep":
		return false
	}
	return true
}

var reads = map[string]error{"data": nil, "EOF": io.EOF, "error": errBoom, "panic": errAny}

var steps = []string{
	"return: body", "return: no body", "return: error", "return: upgrade", "return: panic",
	"begin a Read", "begin a Read", "end the Read: data", "end the Read: data", "end the Read: EOF", "end the Read: error",
	"end the Read: panic", "close", "interrupt: caller", "interrupt: bound", "interrupt: owner", "interrupt: inner", "sleep",
}

// A walker is the exchange that takes the same steps, or two with a foreign layer between.
type walker struct {
	*rig
	inner   *rig
	cancel  context.CancelFunc
	returns chan string
	reads   chan string
	body    io.ReadCloser
	told    []error
	busy    bool // a Read is under way
}

func newWalker(t *testing.T, nested, deaf bool) *walker {
	w := &walker{returns: make(chan string), reads: make(chan string)}
	b := newFake(nil)
	b.read = func([]byte) (int, error) {
		closed := b.closed
		if deaf {
			closed = nil
		}
		select {
		case <-closed:
			return 0, http.ErrBodyReadAfterClose
		case how := <-w.reads:
			if how == "panic" {
				panic(errBoom)
			}
			return 1, reads[how]
		}
	}
	base := trip(func(req *http.Request) (*http.Response, error) {
		switch <-w.returns {
		case "error":
			return nil, errBoom
		case "panic":
			panic(errBoom)
		case "no body":
			return reply(req, 200, nil), nil
		case "upgrade":
			return upgradeTo(conn{b})(req)
		}
		return reply(req, 200, b), nil
	})
	w.rig = newRig(t, base)
	if w.inner = w.rig; nested {
		w.rig = newRig(t, trip(w.inner.RoundTrip))
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.cancel = cancel
	go func() {
		returned := false
		defer func() {
			if !returned {
				recover()
				w.told = append(w.told, errAny)
			}
		}()
		resp, err := w.RoundTrip(request(ctx))
		returned = true
		w.told = append(w.told, err)
		if err == nil {
			w.body = resp.Body
		}
	}()
	return w
}

func (w *walker) do(step string) {
	switch what, arg, _ := strings.Cut(step, ": "); what {
	case "return":
		w.returns <- arg
	case "begin a Read":
		go func() {
			err := errAny
			defer func() {
				recover()
				w.told, w.busy = append(w.told, err), false
			}()
			w.busy = true
			_, err = w.body.Read(make([]byte, 1))
		}()
	case "end the Read":
		w.reads <- arg
	case "close":
		w.body.Close()
	case "sleep":
		time.Sleep(time.Second)
	case "interrupt":
		switch arg {
		case "caller":
			w.cancel()
		case "owner":
			w.interrupt(Owner)
		case "inner":
			w.inner.interrupt(Bound)
		default:
			w.interrupt(Bound)
		}
	}
}

// walk takes the steps that can be taken, and says where the exchange and its model part.
func walk(t *testing.T, nested, deaf bool, script []string, steps *int) string {
	w, m := newWalker(t, nested, deaf), &model{deaf: deaf, lastRead: -1}
	synctest.Wait()
	compare := func() string {
		type state struct {
			Told        []error
			Ends, Inner int
			How         []Outcome
			Silence     time.Duration
			Waiting     int
		}
		want := state{Told: m.told, Ends: m.ends, Inner: m.ends, Silence: nobodyWaits}
		if !m.returned || m.reading {
			if !m.upgraded {
				want.Waiting = 1
			}
			if !m.over {
				want.Silence = w.last().Elapsed() - m.since
			}
		}
		got := state{Told: w.told, Ends: len(w.ends()), Inner: len(w.inner.ends()), Silence: w.last().Silence(), Waiting: w.waiting}
		for _, r := range []*rig{w.rig, w.inner} {
			if ends := r.ends(); m.over && len(ends) > 0 && (r == w.rig || !m.outside) {
				want.How, got.How = append(want.How, m.outcome), append(got.How, ends[len(ends)-1])
			}
		}
		return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b error) bool {
			return a == b || (a == errAny || b == errAny) && a != nil && b != nil || a != nil && errors.Is(b, a)
		}))
	}
	var taken []string
	fault := ""
	for _, step := range script {
		trial := *m
		if trial.told = append([]error(nil), m.told...); !trial.do(step, w.last().Elapsed()) {
			continue
		}
		*m = trial
		*steps++
		w.do(step)
		synctest.Wait()
		taken = append(taken, step)
		if fault = compare(); fault != "" {
			break
		}
	}
	close(w.returns)
	w.cancel()
	w.interrupt(Owner)
	synctest.Wait()
	if w.busy {
		close(w.reads)
	}
	synctest.Wait()
	if w.body != nil {
		w.body.Close()
	}
	if fault == "" {
		w.settled()
		w.inner.settled()
		return ""
	}
	return fmt.Sprintf("%s:\n%s", strings.Join(taken, ", "), fault)
}

func TestWalk(t *testing.T) {
	for _, nested := range []bool{false, true} {
		for _, deaf := range []bool{false, true} {
			t.Run(fmt.Sprintf("nested %v, deaf %v", nested, deaf), func(t *testing.T) {
				taken := 0
				defer func() { t.Logf("%d steps", taken) }()
				rapid.Check(t, func(rt *rapid.T) {
					script := rapid.SliceOfN(rapid.SampledFrom(steps), 1, 30).Draw(rt, "script")
					fault := ""
					synctest.Test(t, func(t *testing.T) { fault = walk(t, nested, deaf, script, &taken) })
					if fault != "" {
						rt.Fatal(fault)
					}
				})
			})
		}
	}
}
