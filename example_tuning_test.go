package resilient_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
)

// From what is known of a bank to its settings: the worked example of docs/tuning.md.
func Example_tuning() {
	const (
		rate      = 30.0                    // calls a second at the peak, of this process
		quiet     = 0.5                     // and at night
		mean      = 300 * time.Millisecond  // of a call, to the end of the body
		p99       = 1200 * time.Millisecond // to the headers
		keepAlive = 60 * time.Second        // of the bank's servers
	)

	busy := rate * mean.Seconds()                       // Little's law
	permits := int(math.Ceil(busy + 3*math.Sqrt(busy))) // three standard deviations of room
	conns := int(math.Ceil(float64(permits) / 0.8))
	free := mean / time.Duration(permits) // a permit comes back, when all are in use
	wait := 100 * time.Millisecond

	cfg, err := resilient.Config{
		MaxConnsPerHost: conns,
		IdleConnTimeout: keepAlive - 10*time.Second,
		ReadTimeout:     (2*p99 + 600*time.Millisecond), // a quarter more than twice the slowest hundredth
		TotalTimeout:    5 * time.Second,
		Bulkhead:        resilient.BulkheadConfig{AcquireTimeout: wait, MaxWaiting: 2 * int(wait/free)},
		Breaker:         resilient.BreakerConfig{Window: time.Minute, SlowCall: 1500 * time.Millisecond},
	}.Complete()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.0f busy, %d permits, %d connections\n", busy, cfg.Bulkhead.MaxConcurrent, cfg.MaxConnsPerHost)
	fmt.Printf("a permit each %v, %d may wait\n", free.Round(time.Millisecond), cfg.Bulkhead.MaxWaiting)
	fmt.Printf("read %v, total %v, at most %v for a caller\n", cfg.ReadTimeout, cfg.TotalTimeout, cfg.Bulkhead.AcquireTimeout+cfg.TotalTimeout)
	fmt.Printf("%.0f results in the window at night, %d wanted\n", quiet*cfg.Breaker.Window.Seconds(), cfg.Breaker.MinRequests)
	fmt.Printf("a hang opens the breaker after %.1f s\n", cfg.ReadTimeout.Seconds()+float64(cfg.Breaker.ConsecutiveFailures-1)/rate)
	// Output:
	// 9 busy, 18 permits, 23 connections
	// a permit each 17ms, 12 may wait
	// read 3s, total 5s, at most 5.1s for a caller
	// 30 results in the window at night, 10 wanted
	// a hang opens the breaker after 3.6 s
}

// The file at the end of docs/tuning.md is what the example computes, nothing is unwise about it, and a hang opens the breaker when it says.
func TestTuningPage(t *testing.T) {
	page, err := os.ReadFile("docs/tuning.md")
	if err != nil {
		t.Fatal(err)
	}
	file := ""
	for _, b := range blocks(string(page)) {
		if b.language == "yaml" {
			file = clients(t, b.text)
		}
	}
	said, err := config.Explain(file)
	if err != nil || len(said.Systems) != 1 || len(said.Systems[0].Warnings) != 0 {
		t.Fatalf("%v %v", said, err)
	}
	cfg := said.Systems[0].Config
	want, err := resilient.Config{
		MaxConnsPerHost: 23, ReadTimeout: 3 * time.Second, TotalTimeout: 5 * time.Second,
		Bulkhead: resilient.BulkheadConfig{MaxWaiting: 12},
		Breaker:  resilient.BreakerConfig{Window: time.Minute, SlowCall: 1500 * time.Millisecond},
	}.Complete()
	if err != nil || cfg != want {
		t.Errorf("%v is otherwise in the file: %v", config.Changed(cfg, want), err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setting{cfg: cfg, server: testserver.Options{Memory: true}})
		call := func() { r.get(r.Context()) }
		for range 900 { // half a minute of health
			go call()
			time.Sleep(time.Second / 30)
		}
		r.server.Default(testserver.HangBeforeHeaders())
		start := time.Now()
		for r.State().Breaker.State == "closed" && time.Since(start) < time.Minute {
			go call()
			time.Sleep(time.Second / 30)
		}
		if took := time.Since(start).Round(100 * time.Millisecond); took != 3600*time.Millisecond || !strings.Contains(string(page), "3.6 s") {
			t.Errorf("it opened after %v", took)
		}
		time.Sleep(10 * time.Second)
	})
}
