package resilient_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// ISO-1: each system has a client, a pool, a breaker and a semaphore of its own: one that hangs costs the others none of these.
func TestRule_ISO1(t *testing.T) {
	inOne(t, setting{}, func(sber *rig) {
		reports := sber.beside("sber-reports", resilient.Config{}) // a compartment of the same partner's
		sber.server.On("/pay", testserver.HangBeforeHeaders())
		for range 1000 {
			go sber.RoundTrip(sber.to(sber.Context(), "/pay"))
		}
		report := func() {
			sber.Helper()
			d := took(func() {
				resp, err := reports.Do(sber.to(sber.Context(), "/reports"))
				if err != nil {
					sber.Fatalf("the other compartment: %v", err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			})
			if d != 0 {
				sber.Errorf("the other compartment took %v", d)
			}
		}
		synctest.Wait()
		if s := sber.State().Bulkhead; s.Available() != 0 {
			sber.Errorf("%+v", s)
		}
		report() // while all permits of the one are out
		time.Sleep(10 * time.Second)
		synctest.Wait()
		sber.breaker("open")
		report() // and while its breaker is open
		if s := reports.State(); s.Breaker.State != "closed" || s.Bulkhead.Rejected != 0 {
			sber.Errorf("%+v", s)
		}
		// Its connection is one that it made itself: none of sber's, idle by now or not, would do.
		if m := systemMetrics(sber, "sber-reports"); m["connections_opened_total"] != 1 {
			sber.Errorf("%v connections opened", m["connections_opened_total"])
		}
	})
}

// systemMetrics is r.metrics for another client of r's registry, without histograms.
func systemMetrics(r *rig, system string) map[string]float64 {
	r.Helper()
	families, err := r.prom.Gather()
	if err != nil {
		r.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key, its := strings.TrimPrefix(f.GetName(), "resilient_"), false
			for _, l := range m.GetLabel() {
				if l.GetName() == "system" {
					its = l.GetValue() == system
				} else {
					key += " " + l.GetValue()
				}
			}
			if its {
				all[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return all
}

// ISO-X1, ISO-X2: nothing of these is shared, least of all http.DefaultTransport: there is no way to say so, or it is refused.
func TestRule_ISOX1_ISOX2(t *testing.T) {
	reg := resilient.NewRegistry()
	base := &http.Transport{}
	sber, err := reg.NewClient("sber", resilient.Config{}, resilient.WithBase(base))
	if err != nil {
		t.Fatal(err)
	}
	defer sber.Close()
	for what, rt := range map[string]http.RoundTripper{"everybody's transport": http.DefaultTransport, "another's transport": base, "another's client": sber} {
		for _, reg := range []*resilient.Registry{reg, resilient.NewRegistry()} { // another registry is no way round
			if c, err := reg.NewClient("insurer", resilient.Config{}, resilient.WithBase(rt)); err == nil {
				c.Close()
				t.Errorf("WithBase takes %s", what)
			}
		}
		insurer, err := reg.NewClient("insurer", resilient.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := insurer.Wrap(rt); err == nil {
			t.Errorf("Wrap takes %s", what)
		}
		insurer.Close()
	}
	if _, err := reg.NewClient("sber", resilient.Config{}); !errors.Is(err, resilient.ErrDuplicate) {
		t.Errorf("two bulkheads of one name: %v", err)
	}
	// No func takes a semaphore, a breaker or a client to share it: Execute guards by one client.
	for _, f := range exports(t, "github.com/resilient-go/resilient") {
		for _, p := range written(f.Params()) {
			for _, shared := range []string{"semaphore.Semaphore", "semaphore.Bulkhead", "transport.Breaker", "resilient.Client"} {
				if strings.HasSuffix(p, shared) && f.name != "Execute" && f.name != "Call.Do" {
					t.Errorf("%s takes a %s", f.name, p)
				}
			}
		}
	}
}

// ISO-2: the pools of a process are balanced: the registry tells them all, and a ceiling holds for their sum.
func TestRule_ISO2(t *testing.T) {
	reg := resilient.NewRegistry(resilient.WithMaxTotalConns(100))
	conns := func() int {
		w := httptest.NewRecorder()
		reg.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		var told struct {
			Summary struct {
				Sum     int `json:"max_connections"`
				Ceiling int `json:"max_connections_limit"`
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &told); err != nil || told.Summary.Ceiling != 100 {
			t.Errorf("%v: %s", err, w.Body)
		}
		return told.Summary.Sum
	}
	sber, err := reg.NewClient("sber", resilient.Config{MaxConnsPerHost: 60})
	if err != nil {
		t.Fatal(err)
	}
	insurer, err := reg.NewClient("insurer", resilient.Config{MaxConnsPerHost: 40}, resilient.WithLogger(discard))
	if err != nil {
		t.Fatal(err)
	}
	defer insurer.Close()
	past := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "101") || !strings.Contains(err.Error(), "100") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = reg.NewClient("printer", resilient.Config{MaxConnsPerHost: 1})
	past("a client past the ceiling", err)
	past("a growth past the ceiling", insurer.Reconfigure(resilient.Config{MaxConnsPerHost: 41}))
	if n := conns(); n != 100 {
		t.Errorf("the sum is %d", n)
	}
	sber.Close()
	if err := insurer.Reconfigure(resilient.Config{MaxConnsPerHost: 100}); err != nil || conns() != 100 {
		t.Errorf("what a closed client had is not free: %v, %d", err, conns())
	}
}

// ISO-3, CFG-3, CB-X3: one name everywhere, and never "default", nor another that says nothing.
func TestRule_ISO3_CFG3_CBX3(t *testing.T) {
	const name = "sber-reports"
	t.Setenv("CLIENT_SBER_REPORTS__MAX_CONNECTIONS", "4") // and so 3 permits
	cfg, err := resilient.FromEnv(name)
	if err != nil || cfg.MaxConnsPerHost != 4 {
		t.Fatalf("the environment has it under another name: %+v, %v", cfg, err)
	}
	inOne(t, setting{}, func(r *rig) {
		var log bytes.Buffer
		names := map[string]string{}
		c := r.beside(name, cfg, resilient.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			resilient.OnStateChange(func(t resilient.Transition) { names["transition"] = t.System }))
		get := func() error {
			resp, err := c.Do(r.request(r.Context(), "GET", nil))
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		r.server.Default(testserver.HangBeforeHeaders())
		errs := make(chan error, 3)
		for range 3 {
			go func() { errs <- get() }()
		}
		synctest.Wait()
		if e, ok := errors.AsType[*resilient.FullError](get()); ok {
			names["full"] = e.System
		}
		if e, ok := errors.AsType[*resilient.TimeoutError](<-errs); ok {
			names["timeout"] = e.System
		}
		synctest.Wait()
		c.ForceOpen(0)
		if e, ok := errors.AsType[*resilient.OpenError](get()); ok {
			names["open"] = e.System
		}
		names["client"], names["state"], names["bulkhead"] = c.Name(), c.State().Name, c.State().Bulkhead.Name
		families, err := r.prom.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				system := ""
				for _, l := range m.GetLabel() {
					if l.GetName() == "system" {
						system = l.GetValue()
					}
				}
				if system != "sber" {
					names["metric "+f.GetName()] = system
				}
			}
		}
		c.Close()
		if e, ok := errors.AsType[*resilient.ClosedError](get()); ok {
			names["closed"] = e.System
		}
		if !strings.Contains(log.String(), "system="+name+" ") {
			t.Errorf("the log has another name: %s", &log)
		}
		for where, got := range names {
			if got != name {
				t.Errorf("%s has the name %q", where, got)
			}
		}
		if len(names) != 8+len(families) {
			t.Errorf("%d names: %v", len(names), names)
		}
	})
	for _, name := range []string{"", "default", "defaults", "Default", "Sber", "sber bank", "sber.reports", "9sber", "sber-", "сбер", strings.Repeat("x", 64)} {
		if c, err := resilient.NewRegistry().NewClient(name, resilient.Config{}); err == nil {
			c.Close()
			t.Errorf("%q is taken for a name", name)
		}
	}
}
