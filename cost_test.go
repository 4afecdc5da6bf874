package resilient_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// What a whole client, with its metrics, adds to bare net/http over loopback, both ends in this process.
func TestCostOverLoopback(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := newRig(t, setting{server: testserver.Options{}})
	bare := r.server.Transport()
	defer bare.CloseIdleConnections()
	payload := bytes.Repeat([]byte("x"), 1<<10)
	for _, row := range []struct {
		name   string
		body   func() io.Reader
		allocs float64
	}{
		{"no body", func() io.Reader { return nil }, 8},
		{"1 KiB in memory", func() io.Reader { return bytes.NewReader(payload) }, 8},
		{"1 KiB streamed", func() io.Reader { return io.MultiReader(bytes.NewReader(payload)) }, 11},
	} {
		// Both allocate what net/http needs, which now and then is a connection's buffer more: the least of several looks.
		added := [2]float64{1e9, 1e9}
		for range 5 {
			a, b := spent(t, r, bare, row.body), spent(t, r, r.Client, row.body)
			for i := range added {
				added[i] = min(added[i], b[i]-a[i])
			}
		}
		t.Logf("%s: +%.2f allocations, +%.0f bytes", row.name, added[0], added[1])
		if added[0] > row.allocs+0.5 || added[1] > 1536 {
			t.Errorf("%s: +%.2f allocations and +%.0f bytes, at most %v and 1536", row.name, added[0], added[1], row.allocs)
		}
	}
}

// spent returns the allocations and bytes of an exchange, in this process.
func spent(t *testing.T, r *rig, rt http.RoundTripper, body func() io.Reader) [2]float64 {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it would empty the pools
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	call := func() {
		method := "GET"
		b := body()
		if b != nil {
			method = "POST"
		}
		resp, err := rt.RoundTrip(r.request(ctx, method, b))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	const n = 200
	for range n / 4 {
		call()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		call()
	}
	runtime.ReadMemStats(&after)
	return [2]float64{float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n}
}

// A refusal of a whole client, with its metrics: the exchange and the error.
func TestCostOfARefusal(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := resilient.Config{MaxConnsPerHost: 2, Bulkhead: resilient.BulkheadConfig{AcquireTimeout: resilient.NoWait}}
	for name, refuse := range map[string]func(r *rig) func(){
		"open": func(r *rig) func() { r.ForceOpen(0); return r.Automatic },
		"full": func(r *rig) func() {
			resp, err := r.Do(r.request(ctx, "GET", nil))
			if err != nil {
				t.Fatal(err)
			}
			return func() { resp.Body.Close() }
		},
	} {
		r := newRig(t, setting{cfg: cfg})
		done := refuse(r)
		req := r.request(ctx, "GET", nil)
		got := testing.AllocsPerRun(1000, func() {
			if _, err := r.RoundTrip(req); err == nil {
				t.Error("admitted")
			}
		})
		if got > 2 {
			t.Errorf("%s: %v allocations, at most 2", name, got)
		}
		done()
	}
}
