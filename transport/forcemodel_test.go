package transport_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/transport"
)

// A deed of the model: calls that end at once or later, time that passes, a look, a forced state, other settings.
type deedOfModel struct {
	kind string
	cfg  config.Breaker
	n    int
	d    time.Duration
}

// Calls, forced states, other settings and time in any order, against a model of what DESIGN says of them: the state, until when,
// why, who is refused and how, and each transition, step by step.
func TestForceAndReconfigureModel(t *testing.T) {
	breaker := rapid.Custom(func(rt *rapid.T) config.Breaker {
		return config.Breaker{
			Window:              rapid.SampledFrom([]time.Duration{20 * time.Hour, 24 * time.Hour}).Draw(rt, "window"),
			MinRequests:         rapid.IntRange(1, 4).Draw(rt, "min"),
			FailureRatio:        rapid.SampledFrom([]float64{0.25, 0.5, 1}).Draw(rt, "ratio"),
			ConsecutiveFailures: rapid.SampledFrom([]int{config.Off, 1, 3}).Draw(rt, "row"),
			OpenFor:             rapid.SampledFrom([]time.Duration{10 * sec, 30 * sec}).Draw(rt, "open"),
			HalfOpenProbes:      rapid.IntRange(1, 3).Draw(rt, "probes"),
		}
	})
	step := rapid.Custom(func(rt *rapid.T) deedOfModel {
		return deedOfModel{
			kind: rapid.SampledFrom([]string{"s", "f", "f", "n", "begin", "begin", "end s", "end f", "end n", "end s", "end f",
				"sleep", "sleep", "look", "look", "peek", "open", "closed", "automatic", "reconfigure"}).Draw(rt, "kind"),
			cfg: breaker.Draw(rt, "cfg"),
			n:   rapid.IntRange(0, 9).Draw(rt, "n"),
			d:   rapid.SampledFrom([]time.Duration{0, 3*sec + 1, 11*sec + 1, 31*sec + 1}).Draw(rt, "d"),
		}
	})
	taken := 0
	defer func() { t.Logf("%d steps", taken) }()
	rapid.Check(t, func(rt *rapid.T) {
		cfg := breaker.Draw(rt, "cfg")
		steps := rapid.SliceOfN(step, 20, 60).Draw(rt, "steps")
		taken += len(steps)
		wrong := ""
		synctest.Test(t, func(t *testing.T) { wrong = newForceModel(t, cfg).run(steps) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// A modelCore is a gobreaker as the model has it.
type modelCore struct {
	settings       config.Breaker // of them Window, OpenFor and HalfOpenProbes
	state          string
	until          time.Time
	period         int // what was admitted in an earlier one says nothing any more
	good, bad, row int
	taken          int // probes
}

// A modelCall is under way.
type modelCall struct {
	done    func(transport.Verdict)
	core    *modelCore // nil if nobody asked it
	period  int
	expires time.Time // it was a probe, and decides nothing from then on
	over    bool
}

type forceModel struct {
	t       *testing.T
	breaker *transport.Breaker
	rules   config.Breaker
	core    *modelCore
	why     transport.Transition
	last    transport.Transition // of the core
	visible string
	forced  string
	until   time.Time
	calls   []*modelCall
	want    []transport.Transition
	wrong   string

	mu   sync.Mutex // guards told: the hook is also called when a probe has taken too long
	told []transport.Transition
}

func newForceModel(t *testing.T, cfg config.Breaker) *forceModel {
	m := &forceModel{t: t, rules: cfg, visible: "closed", last: transport.Transition{To: "closed"},
		core: &modelCore{settings: cfg, state: "closed"}}
	m.breaker = transport.NewBreaker("sber", complete(t, config.Config{Breaker: cfg}))
	m.breaker.OnTransition(func(tr transport.Transition) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.told = append(m.told, tr)
	})
	return m
}

func (m *forceModel) run(steps []deedOfModel) string {
	for i, s := range steps {
		m.do(s)
		synctest.Wait() // State does not wait for hooks
		m.mu.Lock()
		diff := cmp.Diff(m.want, m.told)
		m.mu.Unlock()
		if diff != "" {
			m.fault("transitions: %s", diff)
		}
		if m.wrong != "" {
			return fmt.Sprintf("step %d, %s %v: %s", i, s.kind, s.d, m.wrong)
		}
	}
	return ""
}

func (m *forceModel) do(s deedOfModel) {
	switch s.kind {
	case "s", "f", "n":
		if c := m.begin(); c != nil {
			m.end(c, s.kind)
		}
	case "begin":
		m.begin()
	case "end s", "end f", "end n":
		if len(m.calls) > 0 {
			m.end(m.calls[s.n%len(m.calls)], s.kind[4:])
		}
	case "sleep":
		m.sleep(s.d)
	case "look":
		m.look()
	case "peek":
		m.expireForce()
		m.refused(m.breaker.Peek(), m.visible == "open" && time.Now().Before(m.core.until))
	case "open":
		m.breaker.ForceOpen(s.d - 1) // negative: no end
		m.force("forced_open", s.d-1)
	case "closed":
		m.breaker.ForceClosed(s.d)
		m.force("forced_closed", s.d)
	case "automatic":
		m.breaker.Automatic()
		m.force("", 0)
	case "reconfigure":
		pending := m.breaker.Reconfigure(complete(m.t, config.Config{Breaker: s.cfg}))
		m.rules = s.cfg
		m.renew()
		if want := !sameCore(m.core.settings, m.rules); pending != want {
			m.fault("pending is %v, want %v", pending, want)
		}
	}
}

// begin asks for admission, and returns the call if it was admitted.
func (m *forceModel) begin() *modelCall {
	m.expireForce()
	c := &modelCall{}
	refuse := m.forced == "forced_open"
	if m.forced == "" {
		m.age(m.core)
		c.core, c.period = m.core, m.core.period
		refuse = c.core.state == "open" || c.core.state == "half_open" && c.core.taken >= c.core.settings.HalfOpenProbes
		if c.core.state == "half_open" && !refuse {
			c.core.taken++
			c.expires = time.Now().Add(14 * sec)
		}
	}
	done, err := m.breaker.Allow()
	m.refused(err, refuse)
	if refuse || err != nil {
		return nil
	}
	c.done = done
	m.calls = append(m.calls, c)
	return c
}

// refused checks what a caller is told.
func (m *forceModel) refused(err error, want bool) {
	e := &transport.OpenError{System: "sber"}
	switch {
	case m.forced == "forced_open":
		want, e.Forced = true, true
		if !m.until.IsZero() {
			e.RetryAfter = time.Until(m.until)
		}
	case m.forced == "forced_closed":
		want = false
	case m.core.state == "half_open":
		e.Probing = true
	case m.core.state == "open":
		e.RetryAfter = time.Until(m.core.until)
	}
	if !want {
		if err != nil {
			m.fault("refused: %v", err)
		}
		return
	}
	open, ok := errors.AsType[*transport.OpenError](err)
	if !ok {
		m.fault("got %v, want a refusal", err)
	} else if diff := cmp.Diff(e, open); diff != "" {
		m.fault("refusal: %s", diff)
	}
}

// end reports, perhaps again.
func (m *forceModel) end(c *modelCall, verdict string) {
	c.done(map[string]transport.Verdict{"s": transport.Success, "f": transport.Failure, "n": transport.Neutral}[verdict])
	m.report(c, verdict)
}

// report tells the core, which looks at the time first.
func (m *forceModel) report(c *modelCall, verdict string) {
	if c.over || c.core == nil {
		return
	}
	c.over = true
	k := c.core
	m.age(k)
	if c.period != k.period {
		return
	}
	switch verdict {
	case "n":
		k.taken--
	case "s":
		k.good, k.row = k.good+1, 0
		if k.state == "half_open" && k.good >= k.settings.HalfOpenProbes {
			m.change(k, transport.Transition{To: "closed"})
		}
	case "f":
		k.bad, k.row = k.bad+1, k.row+1
		rate := float64(k.bad) / float64(k.good+k.bad)
		switch {
		case k.state == "half_open":
			m.change(k, transport.Transition{To: "open", Reason: "failed_probe"})
		case k.good+k.bad >= m.rules.MinRequests && rate >= m.rules.FailureRatio:
			m.change(k, transport.Transition{To: "open", Reason: "failure_ratio", FailureRate: rate})
		case m.rules.ConsecutiveFailures > 0 && k.row >= m.rules.ConsecutiveFailures:
			m.change(k, transport.Transition{To: "open", Reason: "consecutive_failures", FailureRate: rate})
		}
	}
}

// sleep lets time pass, with the moments in it at which a probe has taken too long, and reports that it says nothing.
func (m *forceModel) sleep(d time.Duration) {
	for until := time.Now().Add(d); ; {
		next := until
		for _, c := range m.calls {
			if !c.over && !c.expires.IsZero() && c.expires.Before(next) {
				next = c.expires
			}
		}
		time.Sleep(time.Until(next))
		synctest.Wait()
		for _, c := range m.calls {
			if c.expires.Equal(next) {
				m.report(c, "n")
			}
		}
		if next.Equal(until) {
			return
		}
	}
}

// age lets a core become half-open.
func (m *forceModel) age(k *modelCore) {
	if k.state == "open" && time.Now().After(k.until) {
		m.change(k, transport.Transition{To: "half_open"})
	}
}

// change is a transition of a core.
func (m *forceModel) change(k *modelCore, tr transport.Transition) {
	*k = modelCore{settings: k.settings, state: tr.To, period: k.period + 1}
	if k != m.core {
		return
	}
	if tr.To == "open" {
		k.until = time.Now().Add(k.settings.OpenFor)
	}
	m.last = tr
	switch tr.To {
	case "open":
		m.why = tr
	case "closed":
		m.why = transport.Transition{}
	}
	m.move()
	m.renew()
}

// renew gives a closed breaker a core with the settings in force.
func (m *forceModel) renew() {
	if m.core.state == "closed" && !sameCore(m.core.settings, m.rules) {
		m.core = &modelCore{settings: m.rules, state: "closed"}
	}
}

func sameCore(a, b config.Breaker) bool {
	return a.Window == b.Window && a.OpenFor == b.OpenFor && a.HalfOpenProbes == b.HalfOpenProbes
}

func (m *forceModel) force(state string, d time.Duration) {
	m.forced, m.until = state, time.Time{}
	if state != "" && d > 0 {
		m.until = time.Now().Add(d)
	}
	m.move()
}

func (m *forceModel) expireForce() {
	if m.forced != "" && !m.until.IsZero() && !time.Now().Before(m.until) {
		m.force("", 0)
	}
}

// move expects a transition if there is another state to be seen.
func (m *forceModel) move() {
	tr := m.last
	if m.forced != "" {
		tr = transport.Transition{To: m.forced, Reason: "forced"}
	}
	if tr.To == m.visible {
		return
	}
	tr.System, tr.From = "sber", m.visible
	m.visible = tr.To
	m.want = append(m.want, tr)
}

func (m *forceModel) look() {
	m.expireForce()
	m.age(m.core)
	want := transport.BreakerState{State: m.visible, OpenUntil: m.until, Reason: m.why.Reason, FailureRate: m.why.FailureRate}
	if m.visible == "open" {
		want.OpenUntil = m.core.until
	}
	if diff := cmp.Diff(want, m.breaker.State()); diff != "" {
		m.fault("state: %s", diff)
	}
}

func (m *forceModel) fault(format string, args ...any) {
	if m.wrong == "" {
		m.wrong = fmt.Sprintf(format, args...)
	}
}
