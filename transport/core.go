package transport

import (
	"errors"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/resilient-go/resilient/config"
)

// settings are those that a gobreaker can't change.
type settings struct {
	window, openFor time.Duration
	probes          int
}

func settingsOf(cfg config.Config) settings {
	return settings{cfg.Breaker.Window, cfg.Breaker.OpenFor, cfg.Breaker.HalfOpenProbes}
}

// A core is a gobreaker and what it does not count for us. Its fields are
// guarded by gobreaker's own mutex, under which its callbacks run.
type core struct {
	settings
	b  *Breaker
	cb *gobreaker.TwoStepCircuitBreaker[struct{}]

	consecutive int
	rate        float64
	reason      string
}

func newCore(b *Breaker, s settings) *core {
	const buckets = 10
	k := &core{settings: s, b: b}
	k.cb = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:          b.system,
		MaxRequests:   uint32(s.probes),
		Interval:      s.window,
		BucketPeriod:  s.window / buckets,
		Timeout:       s.openFor,
		IsExcluded:    func(err error) bool { return err == errNeutral },
		IsSuccessful:  k.count,
		ReadyToTrip:   k.trips,
		OnStateChange: k.changed,
	})
	return k
}

// How gobreaker is told a verdict.
var (
	errNeutral = errors.New("says nothing about the system")
	errFailure = errors.New("says that the system fails")
)

func errorOf(v Verdict) error {
	switch v {
	case Success:
		return nil
	case Neutral:
		return errNeutral
	}
	return errFailure
}

func verdictOf(err error) Verdict {
	switch {
	case err == nil:
		return Success
	case err == errNeutral:
		return Neutral
	}
	return Failure
}

// count notes successes and failures in a row, as gobreaker's own count loses
// them when its buckets roll. gobreaker calls it for each result that counts.
func (k *core) count(err error) bool {
	k.consecutive++
	if err == nil {
		k.consecutive = 0
	}
	return err == nil
}

// trips is asked at each failure. Requests would count those in flight and the neutral too.
func (k *core) trips(c gobreaker.Counts) bool {
	r := k.b.rules.Load()
	n := c.TotalSuccesses + c.TotalFailures
	k.rate, k.reason = float64(c.TotalFailures)/float64(max(1, n)), FailureRatio
	if int64(n) >= int64(r.minRequests) && k.rate >= r.ratio {
		return true
	}
	k.reason = ConsecutiveFailures
	return r.consecutive > 0 && k.consecutive >= r.consecutive
}

// changed tells b of a change of state, unless another core has taken k's place.
func (k *core) changed(_ string, from, to gobreaker.State) {
	k.consecutive = 0
	t := Transition{From: stateName(from), To: stateName(to)}
	switch {
	case from == gobreaker.StateClosed:
		t.FailureRate, t.Reason = k.rate, k.reason
	case to == gobreaker.StateOpen:
		t.Reason = FailedProbe
	}
	k.b.changed(k, t)
}

func stateName(s gobreaker.State) string { return strings.ReplaceAll(s.String(), "-", "_") }
