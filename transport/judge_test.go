package transport_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// A judge is a breaker over a base that does as it is told: s succeeds, f
// fails, n is neutral.
type judge struct {
	*testing.T
	*transport.Breaker
	rt    http.RoundTripper
	next  error
	sent  int
	after time.Duration // it takes that long to answer
}

func newJudge(t *testing.T, b config.Breaker) *judge {
	t.Helper()
	j := &judge{T: t, Breaker: transport.NewBreaker("sber", complete(t, config.Config{Breaker: b}))}
	j.rt = j.Wrap(fake(func(req *http.Request) (*http.Response, error) {
		j.sent++
		err := j.next
		time.Sleep(j.after)
		if err != nil {
			return nil, err
		}
		return response(req, 200, strings.NewReader("ok")), nil
	}))
	return j
}

// do does exchanges, one for each letter, and returns the last one's error.
func (j *judge) do(letters string) (err error) {
	j.Helper()
	for _, l := range letters {
		j.next = map[rune]error{'s': nil, 'f': errDown, 'n': &semaphore.FullError{System: "inside"}}[l]
		_, err = read(j.rt.RoundTrip(newRequest(j.T, j.Context(), "GET", "http://sber.test/", nil)))
	}
	return err
}

func (j *judge) is(want string) {
	j.Helper()
	if got := j.State().State; got != want {
		j.Errorf("%s, want %s", got, want)
	}
}

func (j *judge) refused() *transport.OpenError {
	j.Helper()
	before := j.sent
	err := j.do("s")
	open, ok := errors.AsType[*transport.OpenError](err)
	if !ok || j.sent != before {
		j.Fatalf("not refused: %v, %d sent", err, j.sent-before)
	}
	return open
}

// A model of the rules against what the breaker does, step by step.
func TestBreakerModel(t *testing.T) {
	taken := 0
	defer func() { t.Logf("%d steps", taken) }()
	rapid.Check(t, func(rt *rapid.T) {
		cfg := config.Breaker{
			MinRequests: rapid.IntRange(1, 6).Draw(rt, "min"), FailureRatio: rapid.SampledFrom([]float64{0.25, 0.5, 1}).Draw(rt, "ratio"),
			ConsecutiveFailures: rapid.SampledFrom([]int{config.Off, 1, 3, 5}).Draw(rt, "row"), HalfOpenProbes: rapid.IntRange(1, 3).Draw(rt, "probes"),
		}
		steps := rapid.StringMatching(`[sssfffnw]{1,40}`).Draw(rt, "steps")
		taken += len(steps)
		wrong := ""
		synctest.Test(t, func(t *testing.T) { wrong = model(t, cfg, steps) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

func model(t *testing.T, cfg config.Breaker, steps string) string {
	j := newJudge(t, cfg)
	state, good, bad, row := "closed", 0, 0, 0
	for i, step := range steps {
		switch {
		case step == 'w': // the window passes, and OpenFor
			time.Sleep(30*time.Second + 1)
			switch state {
			case "open":
				state = "half_open"
			case "closed":
				good, bad = 0, 0
			}
		default:
			if err := j.do(string(step)); (state == "open") != errors.Is(err, transport.ErrCircuitOpen) {
				return fmt.Sprintf("step %d of %s: %s, but %v", i, steps, state, err)
			}
		}
		switch {
		case state == "open", step == 'n', step == 'w':
		case step == 's':
			good, row = good+1, 0
			if state == "half_open" && good == cfg.HalfOpenProbes {
				state, good, bad = "closed", 0, 0
			}
		default:
			bad, row = bad+1, row+1
			if state == "half_open" || good+bad >= cfg.MinRequests && float64(bad) >= cfg.FailureRatio*float64(good+bad) ||
				cfg.ConsecutiveFailures > 0 && row >= cfg.ConsecutiveFailures {
				state, good, bad, row = "open", 0, 0, 0
			}
		}
		if got := j.State().State; got != state {
			return fmt.Sprintf("step %d of %s: %s, want %s", i, steps, got, state)
		}
	}
	return ""
}
