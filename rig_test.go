package resilient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A rig is a client of one scripted system, with what both of them saw.
type rig struct {
	*testing.T
	*resilient.Client
	server *testserver.Server
	reg    *resilient.Registry
	prom   *prometheus.Registry
}

type setting struct {
	server testserver.Options
	cfg    resilient.Config
	opts   []resilient.Option
}

// newRig makes a rig that checks, at the end, that everything was given back.
func newRig(t *testing.T, s setting) *rig {
	t.Helper()
	server, err := testserver.Start(s.server)
	if err != nil {
		t.Fatal(err)
	}
	if s.server.Protocol == testserver.HTTP2 {
		s.cfg.Protocol = "http2"
	}
	r := &rig{T: t, server: server, prom: prometheus.NewRegistry()}
	r.reg = resilient.NewRegistry(resilient.WithRegisterer(r.prom))
	opts := []resilient.Option{resilient.WithDialContext(server.Dial), resilient.WithLogger(discard)}
	if c := server.TLS(); c != nil {
		opts = append(opts, resilient.WithTLSConfig(c))
	}
	r.Client, err = r.reg.NewClient("sber", s.cfg, append(opts, s.opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.server.Memory { // which is in a bubble
			synctest.Wait()
		}
		if s := r.State(); s.Bulkhead.Active != 0 || s.Bulkhead.Waiting != 0 || s.InFlight != 0 || s.Executions != 0 {
			t.Errorf("not given back: %+v", s)
		}
		r.conserved()
		r.Close()
		if names := r.reg.Names(); len(names) != 0 {
			t.Errorf("still registered after Close: %v", names)
		}
		server.Close()
	})
	return r
}

// another is a rig of the same server with another client, which is closed before r's.
func (r *rig) another(name string, cfg resilient.Config, opts ...resilient.Option) *rig {
	r.Helper()
	other := *r
	var err error
	cfg.Protocol = r.State().Config.Protocol
	opts = append(opts, resilient.WithDialContext(r.server.Dial), resilient.WithTLSConfig(tlsOf(r)), resilient.WithLogger(discard))
	if other.Client, err = r.reg.NewClient(name, cfg, opts...); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		synctest.Wait()
		other.inside(0, 0, 0)
		other.conserved()
		other.Close()
	})
	return &other
}

// inBoth runs f in fake time, over HTTP/1.1 and HTTP/2.
func inBoth(t *testing.T, s setting, f func(r *rig)) {
	t.Helper()
	for _, p := range []testserver.Protocol{testserver.HTTP1, testserver.HTTP2} {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := s
				s.server.Protocol, s.server.Memory = p, true
				f(newRig(t, s))
			})
		})
	}
}

func (r *rig) request(ctx context.Context, method string, body io.Reader) *http.Request {
	r.Helper()
	req, err := http.NewRequestWithContext(ctx, method, r.server.URL()+"/", body)
	if err != nil {
		r.Fatal(err)
	}
	return req
}

// get does a GET and reads the body to its end.
func (r *rig) get(ctx context.Context) (string, error) {
	r.Helper()
	resp, err := r.Do(r.request(ctx, "GET", nil))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// metrics returns the values of all series of the client: "requests_total success" → 1.
// Of a histogram it is the count.
func (r *rig) metrics() map[string]float64 {
	r.Helper()
	families, err := r.prom.Gather()
	if err != nil {
		r.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key, mine := strings.TrimPrefix(f.GetName(), "resilient_"), false
			for _, l := range m.GetLabel() {
				if l.GetName() == "system" {
					mine = l.GetValue() == r.Name()
				} else {
					key += " " + l.GetValue()
				}
			}
			if !mine {
				continue
			}
			all[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// conserved checks that started - in flight is the sum of the outcomes.
func (r *rig) conserved() {
	r.Helper()
	m, sum := r.metrics(), 0.0
	for name, v := range m {
		if strings.HasPrefix(name, "requests_total ") {
			sum += v
		}
	}
	if m["requests_started_total"]-m["requests_in_flight"] != sum {
		r.Errorf("%v started, %v in flight, %v ended", m["requests_started_total"], m["requests_in_flight"], sum)
	}
}

// outcomes checks the outcomes that are not 0.
func (r *rig) outcomes(want map[string]float64) {
	r.Helper()
	got := map[string]float64{}
	for name, v := range r.metrics() {
		if o, ok := strings.CutPrefix(name, "requests_total "); ok && v != 0 {
			got[o] = v
		}
	}
	if !maps.Equal(got, want) {
		r.Errorf("outcomes %v, want %v", got, want)
	}
}

// free checks that n permits are out and that as many exchanges are under way.
func (r *rig) held(n int) {
	r.Helper()
	if s := r.State(); s.Bulkhead.Active != n || s.InFlight != n {
		r.Errorf("%d permits out, %d exchanges, want %d", s.Bulkhead.Active, s.InFlight, n)
	}
}

func (r *rig) breaker(want string) {
	r.Helper()
	if got := r.State().Breaker.State; got != want {
		r.Errorf("breaker %s, want %s", got, want)
	}
}

// timeout checks that err is a TimeoutError of the phase, also for those who ask a *url.Error.
func (r *rig) timeout(err error, phase string) {
	r.Helper()
	e, ok := errors.AsType[*resilient.TimeoutError](err)
	if !ok || string(e.Phase) != phase || e.System != "sber" || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, resilient.ErrTimeout) {
		r.Errorf("got %v, want a TimeoutError of phase %s", err, phase)
	}
	if n, ok := err.(interface{ Timeout() bool }); !ok || !n.Timeout() {
		r.Errorf("%v: Timeout() is not true", err)
	}
}

func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// tlsOf returns what a client of r's server needs; it does no harm where the server speaks no TLS.
func tlsOf(r *rig) *tls.Config {
	if c := r.server.TLS(); c != nil {
		return c
	}
	return new(tls.Config)
}
