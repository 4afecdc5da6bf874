package main

import (
	"strings"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
)

// small is what a busy machine can do in some seconds, with bounds that let the fault show at once.
var small = plan{
	Systems: 5, Rate: 20, Times: 10, Takes: time.Millisecond, Workers: 200, Patience: 5 * time.Second,
	Well: 300 * time.Millisecond, Dead: 2500 * time.Millisecond, After: 3500 * time.Millisecond,
	Config: resilient.Config{
		ConnectTimeout: 500 * time.Millisecond, ReadTimeout: time.Second, TotalTimeout: 2 * time.Second,
		Breaker: resilient.BreakerConfig{OpenFor: 500 * time.Millisecond},
	},
}

// No call of the other systems fails while one is gone; it costs no more than its permits and its queue; and it is refused at once
// when it has been silent for long enough, and called as before when it is back.
func TestIsolation(t *testing.T) {
	r, err := measure(t.Context(), small, true, true)
	if err != nil {
		t.Fatal(err)
	}
	end := small.Well + small.Dead + small.After
	others := r.others(small.Patience, 0, end)
	if expected := (small.Systems - 1) * small.Rate * int(end/time.Second); others.failed > 0 || others.asked < expected/2 {
		t.Errorf("the others: %+v", others)
	}
	if most := 16 + 160; r.held == 0 || r.held > most {
		t.Errorf("%d callers within the client, at most %d", r.held, most)
	}
	if d, _, ok := r.firstRefusal(); !ok || d < small.Config.ConnectTimeout/2 {
		t.Errorf("refused after %v: %v", d, ok)
	}
	recovered := false
	for _, c := range r.calls {
		recovered = recovered || c.system == 0 && c.at > r.well && c.err == nil
	}
	if !recovered {
		t.Error("it was never called again")
	}
	page, err := report(small, []result{r})
	if err != nil || !strings.Contains(page, "a client for each system, one vanishes") {
		t.Errorf("%v\n%s", err, page)
	}
}

// What the page says is computed as it says.
func TestTally(t *testing.T) {
	const ms, sec = time.Millisecond, time.Second
	open := &resilient.OpenError{System: "partner-0"}
	r := result{dead: 1 * sec, well: 2 * sec, calls: []call{
		{system: 1, at: 0, took: 10 * ms},
		{system: 1, at: 10 * ms, took: 3 * sec},
		{system: 2, at: 20 * ms, took: 20 * ms, err: errStatus},
		{system: 2, at: 5 * sec, took: 20 * ms},
		{system: 0, at: 1100 * ms, took: 700 * ms, err: open},
		{system: 0, at: 1200 * ms, took: 1 * ms, err: open},
		{system: 0, at: 1300 * ms, took: 2 * ms},
		{system: 0, at: 2100 * ms, took: 2 * ms},
		{system: 0, at: 2300 * ms, took: 2 * ms, err: open},
		{system: 0, at: 2600 * ms, took: 2 * ms},
		{system: 0, at: 2800 * ms, took: 2 * ms},
	}}
	if got, want := r.others(sec, 0, sec), (tally{3, 1, 1, 20 * ms, 3 * sec, 3 * sec}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if d, percent, ok := r.firstRefusal(); d != 200*ms || percent != 50 || !ok {
		t.Error(d, percent, ok)
	}
	if d, ok := r.fullTraffic(sec, 3*sec); d != 500*ms || !ok {
		t.Error(d, ok)
	}
	if d, ok := r.fullTraffic(sec, 4*sec); ok {
		t.Error(d)
	}
}
