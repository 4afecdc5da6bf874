package resilienttest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/resilient-go/resilient"
)

// NewRegistry returns a registry for a test: at its end every client must have
// got everything back, or the test fails, and all are closed.
//
// It is for a service that calls several partners; a Partner has one of its own
// for its Client.
func NewRegistry(t testing.TB, opts ...resilient.RegistryOption) *resilient.Registry {
	t.Helper()
	reg := resilient.NewRegistry(opts...)
	t.Cleanup(func() {
		for _, s := range settled(reg) {
			t.Errorf("resilienttest: at the end of the test %s has %d exchanges under way (the oldest since %v), %d executions, "+
				"%d permits out, %d callers that wait; a response body that nobody has closed, a goroutine that nobody waits for?",
				s.Name, s.InFlight, s.Oldest, s.Executions, s.Bulkhead.Active, s.Bulkhead.Waiting)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = reg.Shutdown(ended) // its error says that it has cancelled what was under way, of which the test knows
	})
	return reg
}

// settled returns the clients that have something under way, after a moment in
// which goroutines that the test has cancelled can end. The moment is a number of
// sleeps rather than a time: they take up to a second, on a busy machine more, but
// in a bubble a tenth of one, exactly, or the total would free what was forgotten.
func settled(reg *resilient.Registry) (busy []resilient.State) {
	for range 1_000 {
		busy = nil
		for _, s := range reg.States() {
			if s.InFlight+s.Executions+s.Bulkhead.Active+s.Bulkhead.Waiting > 0 {
				busy = append(busy, s)
			}
		}
		if busy == nil {
			return nil
		}
		time.Sleep(100 * time.Microsecond)
	}
	return busy
}

// Fill takes all free permits of a client in reg, as calls that hang would, so
// that its next call is refused with [resilient.ErrBulkheadFull]: after
// Bulkhead.AcquireTimeout, 100 ms by default. No request is made for that. The
// release func, which may be called more than once, gives them back; so does the
// end of the test.
func Fill(t testing.TB, reg *resilient.Registry, system string) (release func()) {
	t.Helper()
	bulkhead, err := reg.Bulkheads().Get(system)
	if err != nil {
		t.Fatal("resilienttest: Fill:", err)
	}
	var permits []interface{ Release() }
	for {
		// The context is not the test's: the permits are given back after that has ended.
		permit, err := bulkhead.Acquire(context.Background(), 0)
		if err != nil {
			break // full, or closed
		}
		permits = append(permits, permit)
	}
	release = sync.OnceFunc(func() {
		for _, p := range permits {
			p.Release()
		}
	})
	t.Cleanup(release)
	return release
}

// Outcomes returns how the exchanges of a client in reg have ended so far, by the
// words of requests_total: success, timeout, refused_open and so on, which
// [resilient.Registry.Collector] explains. A word that none has ended with is there as 0.
// It ends the test if there is no such client.
func Outcomes(t testing.TB, reg *resilient.Registry, system string) map[string]int {
	t.Helper()
	if _, err := reg.Client(system); err != nil {
		t.Fatal("resilienttest: Outcomes:", err)
	}
	gatherer := prometheus.NewPedanticRegistry()
	if err := gatherer.Register(reg.Collector()); err != nil {
		t.Fatal("resilienttest: Outcomes:", err)
	}
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal("resilienttest: Outcomes:", err)
	}
	outcomes := map[string]int{}
	for _, f := range families {
		if !strings.HasSuffix(f.GetName(), "requests_total") { // what is before that is the registry's choice
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["system"] == system {
				outcomes[labels["outcome"]] = int(m.GetCounter().GetValue())
			}
		}
	}
	return outcomes
}
