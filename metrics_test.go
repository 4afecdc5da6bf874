package resilient_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// After any mixture of endings everything is back, counted once each.
func TestMixture(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		for _, path := range []string{"/hang", "/stall", "/cut", "/500", "/ok", "/upgrade"} {
			r.server.On(path, map[string]http.Handler{
				"/hang": testserver.HangBeforeHeaders(), "/stall": testserver.StallInBody(1), "/cut": testserver.CutInBody(1, 9),
				"/500": testserver.Status(500), "/ok": testserver.OK("ok"), "/upgrade": testserver.Upgrade(),
			}[path])
		}
		send := func(ctx context.Context, path string) (*http.Response, error) {
			req := r.request(ctx, "GET", nil)
			req.URL.Path = path
			return r.RoundTrip(req)
		}
		read := func(ctx context.Context, path string) {
			if resp, err := send(ctx, path); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				resp.Body.Close()
			}
		}
		ok := func() { // often enough for the breaker to stay closed
			for range 3 {
				read(r.Context(), "/ok")
			}
		}
		ok()
		for range 2 {
			read(r.Context(), "/500")
			ok()
		}
		read(r.Context(), "/cut")
		ok()
		read(r.Context(), "/hang")
		ok()
		read(r.Context(), "/stall")
		ok()
		ctx, cancel := context.WithCancel(r.Context())
		time.AfterFunc(time.Second, cancel)
		read(ctx, "/hang")
		read(ctx, "/ok")
		send(r.Context(), "/stall")
		time.Sleep(8 * time.Second)
		bad := r.request(r.Context(), "GET", nil)
		bad.Method = "BAD METHOD"
		r.RoundTrip(bad)
		var panics roundTripper = func(*http.Request) (*http.Response, error) { panic("boom") }
		wrapped, err := r.Wrap(&panics)
		if err != nil {
			r.Fatal(err)
		}
		func() {
			defer func() {
				if recover() != "boom" {
					r.Error("the panic was lost")
				}
			}()
			wrapped.RoundTrip(r.request(r.Context(), "GET", nil))
		}()
		panics = func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }
		go wrapped.RoundTrip(r.request(r.Context(), "GET", nil))
		synctest.Wait()
		panics = func(*http.Request) (*http.Response, error) { return nil, nil }
		wrapped.RoundTrip(r.request(r.Context(), "GET", nil))
		r.held(0)
		r.outcomes(map[string]float64{"success": 18, "error_status": 2, "transport_error": 2, "timeout": 2, "cancelled": 2,
			"abandoned": 1, "invalid": 1, "panic": 2})
		m := r.metrics()
		for name, want := range map[string]float64{
			"timeouts_total read": 2, "timeouts_total total": 1, "timeouts_total connect": 0, "semaphore_active": 0,
			"requests_started_total": 30, "time_to_headers_seconds": 23, "semaphore_wait_seconds": 29,
			"request_duration_seconds success": 18, "request_duration_seconds upgraded": 0, "breaker_state closed": 1, "breaker_state open": 0,
		} {
			if got, ok := m[name]; got != want || !ok {
				r.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	})
}

// Conservation holds at every scrape, also in the middle of everything.
func TestConservationUnderLoad(t *testing.T) {
	server, err := testserver.Start(testserver.Options{Handler: testserver.Burst(50, 500, testserver.OK("ok"))})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	prom := prometheus.NewRegistry()
	reg := resilient.NewRegistry(resilient.WithRegisterer(prom))
	cfg := resilient.Config{}
	cfg.Breaker.OpenFor = 20 * time.Millisecond
	c, err := reg.NewClient("sber", cfg, resilient.WithLogger(discard))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := &rig{T: t, Client: c, server: server, reg: reg, prom: prom}
	done := make(chan struct{})
	go func() {
		defer close(done)
		repeat(3000, func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
			defer cancel()
			r.get(ctx)
		})
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		r.conserved()
		runtime.Gosched()
	}
	r.held(0)
}

func TestMetricNames(t *testing.T) {
	for _, prefix := range []string{"resilient_", "", "acme_"} {
		prom := prometheus.NewRegistry()
		reg := resilient.NewRegistry(resilient.WithRegisterer(prom), resilient.WithMetricPrefix(prefix))
		c, err := reg.NewClient("sber", resilient.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if problems, err := testutil.GatherAndLint(prom); err != nil || len(problems) != 0 {
			t.Errorf("promlint: %v, %v", problems, err)
		}
		want := prefix + "semaphore_rejections_total"
		if n, err := testutil.GatherAndCount(prom, want); n != 2 || err != nil {
			t.Errorf("%s: %d series before the first request, %v", want, n, err)
		}
		c.Close()
		if n, err := testutil.GatherAndCount(prom); n != 0 || err != nil {
			t.Errorf("%d series after Close, %v", n, err)
		}
		if c, err = reg.NewClient("sber", resilient.Config{}); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}

// Two registries can't have the same metrics in one registerer: the second NewClient says so.
func TestMetricsCollide(t *testing.T) {
	prom := prometheus.NewRegistry()
	for i := range 2 {
		reg := resilient.NewRegistry(resilient.WithRegisterer(prom))
		c, err := reg.NewClient("sber", resilient.Config{})
		if (err != nil) != (i == 1) {
			t.Errorf("%d: %v", i, err)
		}
		if err == nil {
			defer c.Close()
		} else if len(reg.Names()) != 0 {
			t.Error("the client that failed is registered")
		}
	}
}

// One WARN for each transition, hooks in order, outside of every lock; a hook that panics harms nothing.
func TestTransitions(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		var log bytes.Buffer
		var seen []string
		reg := resilient.NewRegistry()
		c, err := reg.NewClient("insurer", resilient.Config{}, resilient.WithDialContext(r.server.Dial), resilient.WithTLSConfig(tlsOf(r)),
			resilient.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			resilient.OnStateChange(func(tr resilient.Transition) {
				if s := reg.States()[0].Breaker.State; s != tr.To {
					r.Errorf("%s in the hook for %s", s, tr.To)
				}
				seen = append(seen, tr.From+">"+tr.To)
				panic("a hook's")
			}))
		if err != nil {
			r.Fatal(err)
		}
		defer c.Close()
		get := func() {
			if resp, err := c.Do(r.request(r.Context(), "GET", nil)); err == nil {
				resp.Body.Close()
			}
		}
		for range 5 {
			get()
		}
		r.server.Default(testserver.Status(500))
		for range 20 {
			get()
		}
		time.Sleep(31 * time.Second)
		get()
		time.Sleep(31 * time.Second)
		r.server.Default(testserver.OK("ok"))
		for range 3 {
			get()
		}
		if got := strings.Join(seen, " "); got != "closed>open open>half_open half_open>open open>half_open half_open>closed" {
			r.Error(got)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 5 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[2], "failed_probe=true") {
			r.Error(log.String())
		}
		for _, want := range []string{"system=insurer", "prev_state=closed", "new_state=open", "failure_rate=0.5"} {
			if !strings.Contains(lines[0], want) {
				r.Errorf("no %s in %s", want, lines[0])
			}
		}
	})
}
