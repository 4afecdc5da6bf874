package otelresilient

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/semconv/v1.43.0/httpconv"

	"github.com/resilient-go/resilient"
)

// instruments are those that measure what happens.
type instruments struct {
	requestDuration    metric.Float64Histogram
	activeRequests     metric.Int64UpDownCounter
	openConnections    metric.Int64UpDownCounter
	connectionDuration metric.Float64Histogram
	callDuration       metric.Float64Histogram
	refusals           metric.Int64Counter
	transitions        metric.Int64Counter
}

func newInstruments(m metric.Meter) (i instruments, err error) {
	request, err1 := httpconv.NewClientRequestDuration(m, metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10))
	active, err2 := httpconv.NewClientActiveRequests(m)
	open, err3 := httpconv.NewClientOpenConnections(m)
	lasted, err4 := httpconv.NewClientConnectionDuration(m, metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300))
	i = instruments{requestDuration: request.Inst(), activeRequests: active.Inst(), openConnections: open.Inst(), connectionDuration: lasted.Inst()}
	var err5, err6, err7 error
	i.callDuration, err5 = m.Float64Histogram("resilient.client.call.duration", metric.WithUnit("s"), metric.WithDescription("Time from the call of a client to the end of the body, refusals included."),
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10))
	i.refusals, err6 = m.Int64Counter("resilient.client.refusals", metric.WithUnit("{call}"), metric.WithDescription("Calls that a client refused."))
	i.transitions, err7 = m.Int64Counter("resilient.client.breaker.transitions", metric.WithUnit("{transition}"), metric.WithDescription("Changes of the circuit breaker's state."))
	return i, errors.Join(err1, err2, err3, err4, err5, err6, err7)
}

var states = []string{"closed", "open", "half_open", "forced_open", "forced_closed"}

// observe has m read the states of reg's clients when it is asked.
func observe(m metric.Meter, reg *resilient.Registry) (metric.Registration, error) {
	var faults []error
	level := func(name, unit, description string) metric.Int64ObservableUpDownCounter {
		i, err := m.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		faults = append(faults, err)
		return i
	}
	active := level("resilient.client.bulkhead.active", "{permit}", "Permits in use.")
	limit := level("resilient.client.bulkhead.limit", "{permit}", "Permits in all.")
	waiting := level("resilient.client.bulkhead.waiting", "{call}", "Calls that wait for a permit.")
	inFlight := level("resilient.client.requests.active", "{request}", "Exchanges begun and not ended, waiting for a permit included.")
	executions := level("resilient.client.executions.active", "{execution}", "Executions begun and not ended.")
	state := level("resilient.client.breaker.state", "1", "1 for the state that the circuit breaker is in.")
	rejected, err := m.Int64ObservableCounter("resilient.client.bulkhead.rejections", metric.WithUnit("{call}"),
		metric.WithDescription("Exchanges and executions refused by the bulkhead: at once (full) or after a wait (waited)."))
	faults = append(faults, err)
	oldest, err := m.Float64ObservableGauge("resilient.client.requests.oldest", metric.WithUnit("s"), metric.WithDescription("Since the oldest exchange under way began."))
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, err
	}
	return m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, s := range reg.States() {
			name := SystemKey.String(s.Name)
			mine := metric.WithAttributes(name)
			o.ObserveInt64(active, int64(s.Bulkhead.Active), mine)
			o.ObserveInt64(limit, int64(s.Bulkhead.MaxConcurrent), mine)
			o.ObserveInt64(waiting, int64(s.Bulkhead.Waiting), mine)
			o.ObserveInt64(inFlight, int64(s.InFlight), mine)
			o.ObserveInt64(executions, int64(s.Executions), mine)
			o.ObserveFloat64(oldest, s.Oldest.Seconds(), mine)
			o.ObserveInt64(rejected, int64(s.Bulkhead.RejectedFull), metric.WithAttributes(name, reasonKey.String("full")))
			o.ObserveInt64(rejected, int64(s.Bulkhead.RejectedWaited), metric.WithAttributes(name, reasonKey.String("waited")))
			for _, word := range states {
				is := int64(0)
				if word == s.Breaker.State {
					is = 1
				}
				o.ObserveInt64(state, is, metric.WithAttributes(name, StateKey.String(word)))
			}
		}
		return nil
	}, active, limit, waiting, inFlight, executions, state, rejected, oldest)
}
