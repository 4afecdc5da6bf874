package otelresilient_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/otelresilient"
)

// A rig is a client of one scripted system, with what OpenTelemetry was told.
type rig struct {
	*testing.T
	*resilient.Client
	server  *testserver.Server
	spans   *tracetest.InMemoryExporter
	tracers *sdktrace.TracerProvider
	meters  *sdkmetric.MeterProvider
	reader  *sdkmetric.ManualReader
	begun   *balance
}

// A balance counts the spans that have begun and not ended.
type balance struct{ atomic.Int64 }

func (b *balance) OnStart(context.Context, sdktrace.ReadWriteSpan) { b.Add(1) }
func (b *balance) OnEnd(sdktrace.ReadOnlySpan)                     { b.Add(-1) }
func (b *balance) Shutdown(context.Context) error                  { return nil }
func (b *balance) ForceFlush(context.Context) error                { return nil }

type setting struct {
	server    testserver.Options
	cfg       resilient.Config
	opts      func(r *rig) []resilient.Option
	telemetry []otelresilient.Option
}

// newRig makes a rig that checks, at the end, that no span, request or connection is left.
func newRig(t *testing.T, s setting) *rig {
	t.Helper()
	server, err := testserver.Start(s.server)
	if err != nil {
		t.Fatal(err)
	}
	if s.server.Protocol == testserver.HTTP2 {
		s.cfg.Protocol = resilient.HTTP2
	}
	r := &rig{T: t, server: server, spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader(), begun: new(balance)}
	r.tracers = sdktrace.NewTracerProvider(sdktrace.WithSyncer(r.spans), sdktrace.WithSpanProcessor(r.begun))
	r.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))
	tel, err := otelresilient.New(resilient.NewRegistry(), append([]otelresilient.Option{otelresilient.WithTracerProvider(r.tracers),
		otelresilient.WithMeterProvider(r.meters), otelresilient.WithPropagator(propagation.TraceContext{})}, s.telemetry...)...)
	if err != nil {
		t.Fatal(err)
	}
	opts := []resilient.Option{resilient.WithDialContext(server.Dial), resilient.WithLogger(slog.New(slog.DiscardHandler))}
	if c := server.TLS(); c != nil {
		opts = append(opts, resilient.WithTLSConfig(c))
	}
	if s.opts != nil {
		opts = append(opts, s.opts(r)...)
	}
	if r.Client, err = tel.NewClient("sber", s.cfg, opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		server.Close()
		if s.server.Memory {
			synctest.Wait()
		}
		if n := r.begun.Load(); n != 0 {
			t.Errorf("%d spans have not ended", n)
		}
		m := r.metrics()
		for name, v := range m {
			if (strings.HasPrefix(name, "http.client.active_requests ") || strings.HasPrefix(name, "http.client.open_connections ")) && v != 0 {
				t.Errorf("left: %s = %v", name, v)
			}
		}
		if err := tel.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
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

func (r *rig) request(ctx context.Context, method string) *http.Request {
	r.Helper()
	req, err := http.NewRequestWithContext(ctx, method, r.server.URL()+"/", nil)
	if err != nil {
		r.Fatal(err)
	}
	return req
}

func (r *rig) get(ctx context.Context) error {
	r.Helper()
	return read(r.Do(r.request(ctx, "GET")))
}

func read(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// A span is one that has ended, as tests look at it.
type span struct {
	tracetest.SpanStub
	attrs map[string]any
}

// took returns the spans that have ended since the last call, in the order of their ends.
func (r *rig) took() (all []span) {
	for _, stub := range r.spans.GetSpans() {
		all = append(all, span{stub, values(stub.Attributes)})
	}
	r.spans.Reset()
	return all
}

// one returns the only span of that name.
func (r *rig) one(all []span, name string) span {
	r.Helper()
	var found []span
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		r.Fatalf("spans %q, want one %q", names, name)
	}
	return found[0]
}

// events returns the events of a span: "name key=value …", with the attributes that are asked for.
func (s span) events(keys ...string) (all []string) {
	for _, e := range s.Events {
		text := e.Name
		for _, kv := range e.Attributes {
			if slices.Contains(keys, string(kv.Key)) {
				text += " " + kv.Value.String()
			}
		}
		all = append(all, text)
	}
	return all
}

func values(attrs []attribute.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range attrs {
		m[string(kv.Key)] = kv.Value.AsInterface()
	}
	return m
}

// has checks attributes; a nil says that there is none.
func (r *rig) has(s span, want map[string]any) {
	r.Helper()
	for k, v := range want {
		if got := s.attrs[k]; got != v {
			r.Errorf("%s: %s is %v (%T), want %v (%T)", s.Name, k, got, got, v, v)
		}
	}
}

// metrics returns the value of each series, of a histogram its count: "name key=value …", keys sorted.
func (r *rig) metrics() map[string]float64 {
	r.Helper()
	var data metricdata.ResourceMetrics
	if err := r.reader.Collect(context.Background(), &data); err != nil {
		r.Fatal(err)
	}
	all := map[string]float64{}
	put := func(name string, set attribute.Set, v float64) {
		for _, kv := range set.ToSlice() {
			name += " " + string(kv.Key) + "=" + kv.Value.String()
		}
		all[name] += v
	}
	for _, scope := range data.ScopeMetrics {
		if scope.Scope.Name != otelresilient.ScopeName {
			continue
		}
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					put(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					put(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					put(m.Name, p.Attributes, float64(p.Count))
				}
			default:
				r.Fatalf("%s: %T", m.Name, d)
			}
		}
	}
	return all
}

// sum adds the series of a metric that have all of the words.
func (r *rig) sum(name string, words ...string) (n float64) {
	r.Helper()
	for key, v := range r.metrics() {
		fields := strings.Fields(key)
		if fields[0] == name && !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(fields, w) }) {
			n += v
		}
	}
	return n
}

func (r *rig) wants(want float64, name string, words ...string) {
	r.Helper()
	if got := r.sum(name, words...); got != want {
		r.Errorf("%s %q is %v, want %v", name, words, got, want)
	}
}
