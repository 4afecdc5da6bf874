package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// A visit is a call of the model: what the system does and when, and what the caller does.
type visit struct {
	Pause  time.Duration // after the one before
	Head   time.Duration // to the headers, or the error
	Answer string        // ok, status, error, panic, refused
	Body   time.Duration
	Ends   string        // eof, cut: how the body does
	Caller string        // reads, closes, forgets; of a stream: streams
	Within time.Duration // the caller's own end, after the start; 0: none
	Late   bool          // which is a deadline
}

// A settlement is what a visit says of the system, and when.
type settlement struct {
	at      time.Duration
	verdict string
	caller  bool // it ended by the caller: then the verdict depends on how long the system was silent
}

// A span is a time in which somebody waits for the system.
type span struct {
	from, to time.Duration
	heard    bool // at its end
	stream   bool
}

// A town is the breaker's model: it knows each visit, and judges it by the rules as they are written.
type town struct {
	cfg    config.Config
	spans  []span
	state  string
	until  time.Duration
	period int
	good   int
	bad    int
	row    int
	taken  int
	story  []string
	later  []report
}

type report struct {
	settlement
	period int
}

// settle says when a visit that begins at start ends, and what it says; and when it waits.
func (m *town) settle(v visit, start time.Duration) settlement {
	read, total := m.cfg.ReadTimeout, m.cfg.TotalTimeout
	own := time.Duration(math.MaxInt64) // the caller's end
	if v.Within > 0 {
		own = v.Within
		if v.Late && v.Caller != "streams" { // our error comes first, if it is not a stream's
			if left := v.Within - min(v.Within/10, 100*time.Millisecond); left < total {
				own = left
			}
		}
	}
	if v.Caller == "streams" {
		total = math.MaxInt64
	}
	end := min(own, read, total)
	stream := v.Caller == "streams"
	if end < v.Head { // no headers
		m.spans = append(m.spans, span{start, start + end, false, stream})
		if stream && own == end { // which was not waited for as an answer is
			return settlement{start + end, "neutral", false}
		}
		return settlement{start + end, "failure", own == end}
	}
	m.spans = append(m.spans, span{start, start + v.Head, v.Answer == "ok" || v.Answer == "status", stream})
	headers := "success"
	switch {
	case v.Answer == "refused":
		return settlement{start + v.Head, "neutral", false}
	case v.Answer == "error", v.Answer == "panic":
		return settlement{start + v.Head, "failure", false}
	case v.Answer == "status", m.cfg.Breaker.SlowCall > 0 && v.Head > m.cfg.Breaker.SlowCall:
		headers = "failure"
	}
	// The body.
	end = min(own, total)
	switch v.Caller {
	case "closes":
		if v.Head+v.Body < end {
			return settlement{start + v.Head + v.Body, headers, false}
		}
	case "reads", "streams":
		silent := min(end, v.Head+read)
		m.spans = append(m.spans, span{start + v.Head, start + min(silent, v.Head+v.Body), v.Head+v.Body < silent && v.Ends == "eof", stream})
		switch {
		case stream:
			return settlement{start + v.Head, headers, false}
		case v.Head+v.Body < silent && v.Ends == "eof":
			return settlement{start + v.Head + v.Body, headers, false}
		case v.Head+v.Body < silent, headers == "failure":
			return settlement{start + min(silent, v.Head+v.Body), "failure", false}
		}
		return settlement{start + silent, "failure", silent == own}
	}
	if headers == "success" { // nobody read when it was over
		headers = "neutral"
	}
	return settlement{start + end, headers, false}
}

// silence is for how long the system has been silent towards everybody at a moment.
func (m *town) silence(at time.Duration) time.Duration {
	var heard time.Duration
	for _, s := range m.spans {
		if s.heard && s.to <= at {
			heard = max(heard, s.to)
		}
	}
	since := at
	for again := true; again; { // the beginning of the time in which always somebody waited
		again = false
		for _, s := range m.spans {
			if !s.stream && s.from < since && s.to >= since {
				since, again = s.from, true
			}
		}
	}
	return at - max(since, heard)
}

// pass tells of all that has been settled by now.
func (m *town) pass(now time.Duration) {
	slices.SortStableFunc(m.later, func(a, b report) int { return int(a.at - b.at) })
	for len(m.later) > 0 && m.later[0].at <= now {
		r := m.later[0]
		m.later = m.later[1:]
		if slow := m.cfg.Breaker.SlowCall; r.caller && (slow > 0 && m.silence(r.at) < slow || slow == 0 && m.silence(r.at) < m.cfg.ReadTimeout/2) {
			r.verdict = "neutral"
		}
		m.age(r.at)
		if r.period == m.period {
			m.count(r)
		}
	}
}

func (m *town) count(r report) {
	b := m.cfg.Breaker
	switch r.verdict {
	case "neutral":
		m.taken--
	case "success":
		m.good, m.row = m.good+1, 0
		if m.state == "half_open" && m.good >= b.HalfOpenProbes {
			m.change("closed", r.at)
		}
	case "failure":
		m.bad, m.row = m.bad+1, m.row+1
		n := m.good + m.bad
		if m.state == "half_open" || n >= b.MinRequests && float64(m.bad) >= b.FailureRatio*float64(n) || b.ConsecutiveFailures > 0 && m.row >= b.ConsecutiveFailures {
			m.change("open", r.at)
			m.until = r.at + b.OpenFor
		}
	}
}

func (m *town) age(now time.Duration) {
	if m.state == "open" && now > m.until {
		m.change("half_open", now)
	}
}

func (m *town) change(to string, at time.Duration) {
	m.story = append(m.story, fmt.Sprintf("%v %s", at, to))
	m.state, m.period, m.good, m.bad, m.row, m.taken = to, m.period+1, 0, 0, 0, 0
}

// admit reports whether a visit goes through, and what becomes of it is told later.
func (m *town) admit(v visit, now time.Duration) bool {
	m.pass(now)
	m.age(now)
	if m.state == "open" || m.state == "half_open" && m.taken >= m.cfg.Breaker.HalfOpenProbes {
		return false
	}
	m.taken++
	m.later = append(m.later, report{m.settle(v, now), m.period})
	return true
}

// Whatever the system and its callers do, at the same time or one after the other: the breaker opens, and closes, and refuses when
// the rules say so, and at no other moment.
func TestClassificationModel(t *testing.T) {
	millis := func(ms ...int) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.SampledFrom(ms), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
	}
	visits := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) visit {
		return visit{
			Pause:  millis(0, 0, 0, 10, 100, 700, 3000, 8000).Draw(t, "pause"),
			Head:   millis(1, 1, 300, 900, 1700, 4000).Draw(t, "head"),
			Answer: rapid.SampledFrom([]string{"ok", "ok", "ok", "ok", "ok", "status", "error", "panic", "refused"}).Draw(t, "answer"),
			Body:   millis(2, 2, 203, 1203, 2503, 7003).Draw(t, "body"),
			Ends:   rapid.SampledFrom([]string{"eof", "eof", "cut"}).Draw(t, "ends"),
			Caller: rapid.SampledFrom([]string{"reads", "reads", "reads", "closes", "forgets", "streams"}).Draw(t, "caller"),
			Within: millis(0, 0, 0, 0, 7, 407, 1107, 1907, 3007).Draw(t, "within"),
			Late:   rapid.Bool().Draw(t, "late"),
		}
	}), 5, 60)
	steps := 0
	rapid.Check(t, func(rt *rapid.T) {
		cfg := config.Config{ConnectTimeout: 100 * ms, ReadTimeout: 2 * sec, TotalTimeout: 5 * sec}
		cfg.Breaker = config.Breaker{
			Window:              24 * time.Hour, // what it forgets is TestBreakerModel's
			MinRequests:         rapid.IntRange(1, 6).Draw(rt, "min"),
			FailureRatio:        rapid.SampledFrom([]float64{0.25, 0.5, 1}).Draw(rt, "ratio"),
			ConsecutiveFailures: rapid.SampledFrom([]int{config.Off, 1, 2, 4}).Draw(rt, "row"),
			OpenFor:             rapid.SampledFrom([]time.Duration{sec + 5*ms, 6*sec + 5*ms}).Draw(rt, "open"),
			HalfOpenProbes:      rapid.IntRange(1, 3).Draw(rt, "probes"),
			SlowCall:            rapid.SampledFrom([]time.Duration{0, 0, 600 * ms}).Draw(rt, "slow"),
		}
		all := visits.Draw(rt, "visits")
		steps += len(all)
		wrong := ""
		synctest.Test(t, func(t *testing.T) { wrong = visitAll(t, complete(t, cfg), all) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
	t.Logf("%d steps", steps)
}

func visitAll(t *testing.T, cfg config.Config, all []visit) string {
	m := &town{cfg: cfg, state: "closed"}
	b := transport.NewBreaker("sber", cfg)
	epoch := time.Now()
	var mu sync.Mutex
	var told []string
	b.OnTransition(func(tr transport.Transition) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprintf("%v %s", time.Since(epoch), tr.To))
	})
	rt := transport.Chain(fake(receive), b.Wrap, transport.NewTimeouts("sber", cfg).Wrap)
	var under sync.WaitGroup
	for i, v := range all {
		time.Sleep(v.Pause + time.Microsecond) // so that nothing of two visits is at the same moment
		synctest.Wait()
		var refusal atomic.Bool
		under.Go(func() {
			if errors.Is(v.pay(rt), transport.ErrCircuitOpen) {
				refusal.Store(true)
			}
		})
		synctest.Wait()
		if refused, want := refusal.Load(), !m.admit(v, time.Since(epoch)); refused != want {
			return fmt.Sprintf("visit %d %+v at %v: refused %v, want %v", i, v, time.Since(epoch), refused, want)
		}
		mu.Lock()
		diff := cmp.Diff(m.story, told)
		mu.Unlock()
		if diff != "" {
			return fmt.Sprintf("after visit %d at %v: model (-), breaker (+): %s", i, time.Since(epoch), diff)
		}
	}
	under.Wait()
	time.Sleep(10 * time.Second)
	synctest.Wait()
	m.pass(time.Since(epoch))
	m.age(time.Since(epoch))
	state := b.State().State
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(m.story, told); diff != "" || state != m.state {
		return fmt.Sprintf("in the end %s: model (-), breaker (+): %s", state, diff)
	}
	return ""
}

type visitKey struct{}

// receive is the system: it does what the visit says.
func receive(req *http.Request) (*http.Response, error) {
	v := req.Context().Value(visitKey{}).(visit)
	if err := sleep(req.Context(), v.Head); err != nil {
		return nil, err
	}
	switch v.Answer {
	case "error":
		return nil, errDown
	case "panic":
		panic(errDown)
	case "refused":
		return nil, &semaphore.FullError{System: "inside"}
	}
	ctx, cancel := context.WithCancel(req.Context())
	code := map[string]int{"ok": 200, "status": 500}[v.Answer]
	return response(req, code, &pouring{ctx, cancel, time.Now(), v}), nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A pouring body ends when its visit says.
type pouring struct {
	ctx    context.Context
	cancel func()
	begun  time.Time
	v      visit
}

func (p *pouring) Read([]byte) (int, error) {
	if err := sleep(p.ctx, p.v.Body-time.Since(p.begun)); err != nil {
		return 0, err
	}
	if p.v.Ends == "cut" {
		return 0, io.ErrUnexpectedEOF
	}
	return 0, io.EOF
}

func (p *pouring) Close() error { p.cancel(); return nil }

// pay does what the visit's caller does.
func (v visit) pay(rt http.RoundTripper) error {
	defer func() { _ = recover() }()
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), visitKey{}, v))
	defer cancel()
	if v.Within > 0 && v.Late {
		var stop func()
		ctx, stop = context.WithTimeout(ctx, v.Within)
		defer stop()
	} else if v.Within > 0 {
		time.AfterFunc(v.Within, cancel)
	}
	if v.Caller == "streams" {
		ctx = transport.WithBounds(ctx, transport.Bounds{Total: transport.Unbounded})
	}
	req, err := http.NewRequestWithContext(ctx, "GET", "http://sber.test/", nil)
	if err != nil {
		return err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	switch v.Caller {
	case "closes":
		time.Sleep(v.Body)
	case "forgets":
		time.Sleep(20 * time.Second)
	default:
		_, err = io.Copy(io.Discard, resp.Body)
	}
	resp.Body.Close()
	return err
}
