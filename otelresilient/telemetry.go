package otelresilient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/resilient-go/resilient"
)

// ScopeName is the name of the tracer and of the meter.
const ScopeName = "github.com/resilient-go/resilient/otelresilient"

// A Telemetry makes clients that tell OpenTelemetry what they do. It is made by
// New, one for a Registry, and safe for concurrent use.
type Telemetry struct {
	registry *resilient.Registry
	settings
	tracer       trace.Tracer
	registration metric.Registration
	instruments
}

type settings struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	propagator propagation.TextMapPropagator
	url        func(*url.URL) string
	http       bool
	faults     []error
}

// An Option is a setting of a Telemetry.
type Option func(*settings)

// WithTracerProvider sets what makes the tracer; the default is [otel.GetTracerProvider].
func WithTracerProvider(p trace.TracerProvider) Option {
	return option("WithTracerProvider", p == nil, func(s *settings) { s.tracers = p })
}

// WithMeterProvider sets what makes the meter; the default is [otel.GetMeterProvider].
func WithMeterProvider(p metric.MeterProvider) Option {
	return option("WithMeterProvider", p == nil, func(s *settings) { s.meters = p })
}

// WithPropagator sets what writes the trace into the headers of the requests; the
// default is [otel.GetTextMapPropagator].
func WithPropagator(p propagation.TextMapPropagator) Option {
	return option("WithPropagator", p == nil, func(s *settings) { s.propagator = p })
}

// WithURL sets what a span says of a URL as url.full, "" for nothing. f must not
// change it. The default leaves out what may be secret: the user, the fragment, and
// the value of each parameter.
func WithURL(f func(*url.URL) string) Option {
	return option("WithURL", f == nil, func(s *settings) { s.url = f })
}

// WithoutHTTP leaves the attempts to somebody else, otelhttp say: there are no spans
// of them, no http.client metrics, and nothing is written into headers.
func WithoutHTTP() Option {
	return option("WithoutHTTP", false, func(s *settings) { s.http = false })
}

func option(name string, isNil bool, set func(*settings)) Option {
	return func(s *settings) {
		if isNil {
			s.faults = append(s.faults, fmt.Errorf("otelresilient: %s: nil; give it a value, or leave it out for the default", name))
			return
		}
		set(s)
	}
}

// New returns the Telemetry of reg. What its meter observes, the state of each
// client, it reads from all clients of reg, whoever made them, until Close.
func New(reg *resilient.Registry, opts ...Option) (*Telemetry, error) {
	t := &Telemetry{registry: reg, settings: settings{
		tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider(), propagator: otel.GetTextMapPropagator(), url: redacted, http: true,
	}}
	if reg == nil {
		t.faults = append(t.faults, errors.New("otelresilient: New: no registry; resilient.DefaultRegistry is one"))
	}
	for _, opt := range opts {
		opt(&t.settings)
	}
	if err := errors.Join(t.faults...); err != nil {
		return nil, err
	}
	t.tracer = t.tracers.Tracer(ScopeName, trace.WithSchemaURL(semconv.SchemaURL))
	meter := t.meters.Meter(ScopeName, metric.WithSchemaURL(semconv.SchemaURL))
	var err error
	if t.instruments, err = newInstruments(meter); err == nil {
		t.registration, err = observe(meter, reg)
	}
	if err != nil {
		return nil, fmt.Errorf("otelresilient: instruments: %w", err)
	}
	return t, nil
}

// NewClient makes a client in the registry: see [resilient.Registry.NewClient]. All
// that it does, by whatever way it is used, is told of. Layers that
// opts has with [resilient.WithOuter] see a call before it has a span; those of
// [resilient.WithInner] see an attempt with its span.
func (t *Telemetry) NewClient(name string, cfg resilient.Config, opts ...resilient.Option) (*resilient.Client, error) {
	s := newSystem(t, name)
	all := append([]resilient.Option{resilient.OnStateChange(s.transition), resilient.WithInner(s.inner)}, opts...)
	return t.registry.NewClient(name, cfg, append(all, resilient.WithOuter(s.outer))...)
}

// Close ends the observation of the clients' states. The clients go on, and so do
// their spans and the other metrics.
func (t *Telemetry) Close() error { return t.registration.Unregister() }

// inner is the layer that sees what is sent.
func (s *system) inner(next http.RoundTripper) http.RoundTripper {
	if own, ok := next.(*http.Transport); ok && s.http {
		s.watchDials(own)
	}
	return &attempts{s, next}
}

// outer is the layer that sees the calls.
func (s *system) outer(next http.RoundTripper) http.RoundTripper { return &calls{s, next} }

// background is the context of measurements that belong to no request. Those that do
// are made with their span's, for exemplars.
var background = context.Background()

// Keys of ours. Others are those of the semantic conventions.
const (
	SystemKey = attribute.Key("external.system")       // the client's name
	StateKey  = attribute.Key("circuit_breaker.state") // closed, open, half_open, forced_open, forced_closed

	reasonKey  = attribute.Key("resilient.reason")
	afterKey   = attribute.Key("resilient.retry_after")
	attemptKey = attribute.Key("resilient.attempt")
	phaseKey   = attribute.Key("resilient.timeout.phase")
	fromKey    = attribute.Key("resilient.breaker.from")
	toKey      = attribute.Key("resilient.breaker.to")
	rateKey    = attribute.Key("resilient.breaker.failure_rate")
)
