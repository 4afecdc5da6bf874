package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	hystrixgo "github.com/afex/hystrix-go/hystrix"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/gojek/heimdall/v7/hystrix"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/resilient-go/resilient"
)

// Names of stacks, as the tables show them.
const (
	bare     = "bare net/http"
	ours     = "resilient"
	byHand   = "written by hand"
	failsafe = "failsafe-go"
	heimdall = "heimdall"
	promOnly = "promhttp alone"
	otelOnly = "otelhttp alone"
)

// limits are the same for every stack.
type limits struct {
	permits, waiting int
	wait, total      time.Duration
}

// plenty lets every caller of a measurement in.
var plenty = limits{permits: 80, waiting: 800, wait: time.Second, total: 7 * time.Second}

// conns leaves a fifth of the connections to those that are being closed.
func (l limits) conns() int { return max(l.permits+1, l.permits*5/4) }

func (l limits) config() resilient.Config {
	c := resilient.Config{MaxConnsPerHost: l.conns(), TotalTimeout: l.total}
	c.Bulkhead.MaxConcurrent, c.Bulkhead.MaxWaiting, c.Bulkhead.AcquireTimeout = l.permits, l.waiting, l.wait
	return c
}

// transport is a bare one with room for all permits, as a careful user of net/http makes it.
func (l limits) transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxConnsPerHost = l.conns()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, t.MaxConnsPerHost
	return t
}

// A stack is a way to guard calls that is compared.
type stack struct {
	name  string
	does  string
	lacks string // of what ours does
	over  func(l limits, base http.RoundTripper) (guarded, error)
}

// A guarded transport is closed when it has been measured. A nil base is one's own, or l.transport.
type guarded struct {
	http.RoundTripper
	close func()
}

var stacks = []stack{
	{bare, "nothing", "everything", overBare},
	{ours, "bulkhead, breaker, three timeouts, all metrics", "", overOurs},
	{byHand, "[x/sync semaphore](../bench/handwritten.go), gobreaker, context.WithTimeout; permit to the body's end",
		"read bound, connect bound; verdicts on bodies; a caller's cancel counts as a failure; the permit of a body that nobody closes never comes back; no metrics, typed errors, bound of the queue", overByHand},
	{failsafe, "failsafehttp: bulkhead, breaker, timeout",
		"permit, timeout and verdict end at the headers; a caller's cancels open the breaker; request bodies are buffered whole; no metrics, no bound of the queue", overFailsafe},
	{heimdall, "hystrix-go: concurrency limit, breaker, timeout, its own metrics",
		"permit ends at the headers, or at the timeout while the call goes on; nobody can wait; refuses a few calls below its limit; request bodies are buffered whole; a goroutine for each call", overHeimdall},
	{promOnly, "in flight, counter by status, duration to the headers", "metrics only; to the headers", overProm},
	{otelOnly, "request duration, body sizes", "metrics only", overOtel},
}

func stackNamed(name string) stack {
	for _, s := range stacks {
		if s.name == name {
			return s
		}
	}
	panic("no such stack: " + name)
}

func nothingToClose() {}

func baseOr(l limits, base http.RoundTripper) (http.RoundTripper, func()) {
	if base != nil {
		return base, nothingToClose
	}
	t := l.transport()
	return t, t.CloseIdleConnections
}

func overBare(l limits, base http.RoundTripper) (guarded, error) {
	base, done := baseOr(l, base)
	return guarded{base, done}, nil
}

func overOurs(l limits, base http.RoundTripper) (guarded, error) {
	var opts []resilient.Option
	if base != nil {
		opts = append(opts, resilient.WithBase(base))
	}
	reg := resilient.NewRegistry(resilient.WithRegisterer(prometheus.NewRegistry()))
	c, err := reg.NewClient("sber", l.config(), append(opts, resilient.WithLogger(silent))...)
	if err != nil {
		return guarded{}, err
	}
	return guarded{c, func() { _ = c.Close() }}, nil
}

func overByHand(l limits, base http.RoundTripper) (guarded, error) {
	base, done := baseOr(l, base)
	return guarded{newHandwritten(l, base), done}, nil
}

func overFailsafe(l limits, base http.RoundTripper) (guarded, error) {
	base, done := baseOr(l, base)
	failed := func(r *http.Response, err error) bool { return err != nil || r.StatusCode >= 500 }
	breaker := circuitbreaker.NewBuilder[*http.Response]().HandleIf(failed).
		WithFailureRateThreshold(0.5, 10, 30*time.Second).WithDelay(30 * time.Second).Build()
	full := bulkhead.NewBuilder[*http.Response](uint(l.permits)).WithMaxWaitTime(l.wait).Build()
	return guarded{failsafehttp.NewRoundTripper(base, full, breaker, timeout.New[*http.Response](l.total)), done}, nil
}

// A doer is what heimdall sends requests with.
type doer struct{ http.RoundTripper }

func (d doer) Do(req *http.Request) (*http.Response, error) { return d.RoundTrip(req) }

// A heimdallClient as an http.RoundTripper.
type heimdallClient struct{ *hystrix.Client }

func (h heimdallClient) RoundTrip(req *http.Request) (*http.Response, error) { return h.Do(req) }

func overHeimdall(l limits, base http.RoundTripper) (guarded, error) {
	base, done := baseOr(l, base)
	permits := l.permits
	if l == plenty { // it takes a permit back some time after its call, so that even one caller at a time can be refused
		permits *= 100
	}
	c := hystrix.NewClient(hystrix.WithHTTPClient(doer{base}), hystrix.WithCommandName("sber"),
		hystrix.WithMaxConcurrentRequests(permits), hystrix.WithHystrixTimeout(l.total),
		hystrix.WithErrorPercentThreshold(50), hystrix.WithRequestVolumeThreshold(10), hystrix.WithSleepWindow(30_000))
	return guarded{heimdallClient{c}, func() {
		hystrixgo.Flush() // or the next one would get its circuit; its goroutines stay
		done()
	}}, nil
}

func overProm(l limits, base http.RoundTripper) (guarded, error) {
	base, done := baseOr(l, base)
	flying := prometheus.NewGauge(prometheus.GaugeOpts{Name: "in_flight"})
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests_total"}, []string{"code"})
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "duration_seconds"}, []string{"code"})
	rt := promhttp.InstrumentRoundTripperInFlight(flying,
		promhttp.InstrumentRoundTripperCounter(calls, promhttp.InstrumentRoundTripperDuration(took, base)))
	return guarded{rt, done}, nil
}

func overOtel(l limits, base http.RoundTripper) (guarded, error) {
	base, done := baseOr(l, base)
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	rt := otelhttp.NewTransport(base, otelhttp.WithMeterProvider(meters), otelhttp.WithTracerProvider(noop.NewTracerProvider()),
		otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator()))
	return guarded{rt, func() {
		_ = meters.Shutdown(context.Background())
		done()
	}}, nil
}

// A caller makes the same call over and over, from a context that could be cancelled.
type caller struct {
	rt   http.RoundTripper
	next func() (*http.Request, error)
}

// get calls with one request without a body.
func get(ctx context.Context, rt http.RoundTripper, url string) (caller, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	return caller{rt, func() (*http.Request, error) { return req, nil }}, err
}

// call does one exchange, to the end of the body.
func (c caller) call() error {
	req, err := c.next()
	if err != nil {
		return err
	}
	resp, err := c.rt.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// run makes n calls.
func (c caller) run(n int) error {
	for range n {
		if err := c.call(); err != nil {
			return err
		}
	}
	return nil
}
