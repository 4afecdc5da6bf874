package transport_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/transport"
)

// Allow is for what is no exchange: done counts once, however late, and a half-open breaker waits for it no longer than for an exchange.
func TestAllow(t *testing.T) {
	allow := func(j *judge) func(transport.Verdict) {
		j.Helper()
		done, err := j.Allow()
		if err != nil {
			j.Fatal(err)
		}
		return done
	}
	in := func(name string, cfg config.Breaker, f func(j *judge)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(newJudge(t, cfg)) }) })
	}
	in("counts once", config.Breaker{MinRequests: 2, ConsecutiveFailures: 2}, func(j *judge) {
		done := allow(j)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { done(transport.Failure) })
		}
		all.Wait()
		j.is("closed")
		done = allow(j)
		done(transport.Success)
		done(transport.Failure)
		j.is("closed")
		_ = j.do("f")
		j.is("open")
	})
	in("late", config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 1}, func(j *judge) {
		early := allow(j)
		_ = j.do("f")
		early(transport.Success) // of the time before
		j.is("open")
		time.Sleep(30*sec + 1)
		early(transport.Failure)
		j.is("half_open")
	})
	in("half-open", config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 2}, func(j *judge) {
		_ = j.do("f")
		time.Sleep(30*sec + 1)
		first, second := allow(j), allow(j)
		if _, err := j.Allow(); fmt.Sprint(err) != "transport: sber: circuit half open, and all its probes are taken" {
			j.Error(err)
		}
		first(transport.Success)
		time.Sleep(14*sec - 1)
		if _, err := j.Allow(); err == nil {
			j.Error("the second one's slot is free")
		}
		time.Sleep(1) // twice TotalTimeout
		synctest.Wait()
		third := allow(j)
		second(transport.Failure) // too late to say anything
		j.is("half_open")
		third(transport.Success)
		j.is("closed")
	})
	in("half-open, by the TotalTimeout in force", config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 1}, func(j *judge) {
		_ = j.do("f")
		time.Sleep(30*sec + 1)
		j.Reconfigure(complete(j.T, config.Config{ReadTimeout: 2 * sec, TotalTimeout: 4 * sec,
			Breaker: config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 1}}))
		lost := allow(j)
		time.Sleep(8 * sec)
		synctest.Wait()
		allow(j)(transport.Success)
		j.is("closed")
		lost(transport.Failure)
		j.is("closed")
	})
	in("refused", oneFailure, func(j *judge) {
		_ = j.do("f")
		done, err := j.Allow()
		if done != nil || !errors.Is(err, transport.ErrCircuitOpen) {
			j.Error(err)
		}
		j.ForceOpen(0)
		done, err = j.Allow()
		if done != nil || !errors.Is(err, transport.ErrCircuitOpen) {
			j.Error(err)
		}
	})
	in("forced closed", oneFailure, func(j *judge) {
		j.ForceClosed(0)
		done := allow(j)
		j.Automatic()
		done(transport.Failure)
		j.is("closed")
	})
}
