package transport_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// cheap answers 200 with a body of nothing.
var cheap = fake(func(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, ProtoMajor: 1, Body: once{}, ContentLength: -1, Request: req}, nil
})

func withBudget(p transport.RetryPolicy) transport.RetryPolicy {
	p.BudgetRatio, p.BudgetFloor, p.BudgetWindow = 0.1, 3, 10*sec
	return p
}

// A first attempt that succeeds costs no allocation, nor does what is off. The
// header with the deadline costs a copy of the request and of its headers.
func TestRetryAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	gated, told := withBudget(attempts(3)), withBudget(attempts(3))
	gated.Gate, gated.DeadlineFloor = true, ms
	told.DeadlineHeader = "X-Deadline-Ms"
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	req := newRequest(t, ctx, "GET", "http://sber.test/", nil)
	measure := func(rt http.RoundTripper) float64 {
		return testing.AllocsPerRun(2000, func() {
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		})
	}
	bare := measure(cheap)
	for name, row := range map[string]struct {
		policy transport.RetryPolicy
		want   float64
	}{
		"off": {transport.RetryPolicy{}, 0}, "on": {withBudget(attempts(3)), 0}, "gate and floor": {gated, 0}, "header": {told, 6},
	} {
		got := measure(transport.NewRetry("sber", row.policy).Wrap(cheap)) - bare
		t.Logf("%s: +%v", name, got)
		if got > row.want {
			t.Errorf("%s: +%v, at most %v", name, got, row.want)
		}
	}
}

// A first attempt that succeeds, beside the same without the layer: compare the
// rows of one run.
func BenchmarkRetry(b *testing.B) {
	server, err := testserver.Start(testserver.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	told := withBudget(attempts(3))
	told.DeadlineHeader = "X-Deadline-Ms"
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	bases := map[string]http.RoundTripper{"nothing": cheap, "loopback": server.Transport()}
	for _, base := range []string{"nothing", "loopback"} {
		for _, row := range []struct {
			name  string
			layer transport.Layer
		}{
			{"without", func(next http.RoundTripper) http.RoundTripper { return next }},
			{"off", transport.NewRetry("sber", transport.RetryPolicy{}).Wrap},
			{"on", transport.NewRetry("sber", withBudget(attempts(3))).Wrap},
			{"header", transport.NewRetry("sber", told).Wrap},
		} {
			b.Run(base+"/"+row.name, func(b *testing.B) {
				rt := row.layer(bases[base])
				req := newRequest(b, ctx, "GET", server.URL()+"/", nil)
				b.ReportAllocs()
				for b.Loop() {
					resp, err := rt.RoundTrip(req)
					if err != nil {
						b.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
	}
}
