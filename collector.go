package resilient

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/resilient-go/resilient/semaphore"
)

// Collector returns the metrics of all clients of g, read when they are
// collected. The only labels are system and fixed words.
//
// All histograms are in seconds. requests_total and request_duration_seconds
// count exchanges, to the end of the body; time_to_headers_seconds counts from
// admission, request_duration_seconds from the call, and semaphore_wait_seconds
// is the difference. requests_started_total - requests_in_flight is the sum of
// requests_total over its outcomes, at every scrape.
func (g *Registry) Collector() prometheus.Collector {
	c := &collector{registry: g}
	c.family("semaphore_rejections_total", "Requests refused by the bulkhead: at once (full) or after a wait (waited).", counter, "reason")
	c.family("semaphore_active", "Permits in use.", gauge)
	c.family("semaphore_waiting", "Requests that wait for a permit.", gauge)
	c.family("semaphore_max_concurrent", "Permits in all.", gauge)
	c.family("breaker_state", "1 for the state that the circuit breaker is in.", gauge, "state")
	c.family("breaker_transitions_total", "Changes of the circuit breaker's state.", counter, "from", "to")
	c.family("breaker_rejections_total", "Requests refused by the circuit breaker.", counter)
	c.family("requests_started_total", "Exchanges begun, refused ones included.", counter)
	c.family("requests_in_flight", "Exchanges begun and not ended.", gauge)
	c.family("requests_total", "Exchanges ended, by how they did.", counter, "outcome")
	c.family("timeouts_total", "Timeouts, by the bound that fired.", counter, "phase")
	c.family("connections_opened_total", "Connections made by the client's own transport.", counter)
	c.family("semaphore_wait_seconds", "Time from the call to a permit, or to the refusal.", gauge)
	c.family("time_to_headers_seconds", "Time from admission to the response's headers.", gauge)
	c.family("request_duration_seconds", "Time from the call to the end of the body.", gauge, "outcome")
	return c
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

type collector struct {
	registry *Registry
	families []family
}

type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func (c *collector) family(name, help string, kind prometheus.ValueType, labels ...string) {
	desc := prometheus.NewDesc(c.registry.prefix+name, help, append([]string{"system"}, labels...), nil)
	c.families = append(c.families, family{desc, kind})
}

// Describe is prometheus.Collector's.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range c.families {
		out <- f.desc
	}
}

// Collect is prometheus.Collector's. It holds no lock while it sends.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, client := range c.registry.all() {
		c.client(client, out)
	}
}

// client sends the metrics of one client, in the order of the families.
func (c *collector) client(client *Client, out chan<- prometheus.Metric) {
	next := 0
	desc := func() *prometheus.Desc { next++; return c.families[next-1].desc }
	send := func(d *prometheus.Desc, v float64, labels ...string) {
		kind := c.families[next-1].kind
		out <- prometheus.MustNewConstMetric(d, kind, v, append([]string{client.name}, labels...)...)
	}
	breaker, sem := client.breaker.State(), client.sem.State()
	n, inFlight := client.stats.snapshot()

	d := desc()
	send(d, float64(sem.RejectedFull), string(semaphore.ReasonFull))
	send(d, float64(sem.RejectedWaited), string(semaphore.ReasonWaited))
	send(desc(), float64(sem.Active))
	send(desc(), float64(sem.Waiting))
	send(desc(), float64(sem.MaxConcurrent))
	d = desc()
	for _, name := range stateNames {
		v := 0.0
		if name == breaker.State {
			v = 1
		}
		send(d, v, name)
	}
	d = desc()
	for i, t := range transitionNames {
		send(d, float64(n.transitions[i]), t[0], t[1])
	}
	send(desc(), float64(n.ended[refusedOpen]))
	send(desc(), float64(n.started))
	send(desc(), float64(inFlight))
	d = desc()
	for o, name := range outcomeNames {
		send(d, float64(n.ended[o]), name)
	}
	d = desc()
	for i, phase := range phases {
		send(d, float64(n.timeouts[i]), string(phase))
	}
	send(desc(), float64(client.opened.Load()))
	out <- n.waits.metric(desc(), client.name)
	out <- n.headers.metric(desc(), client.name)
	d = desc()
	for o, name := range outcomeNames {
		out <- n.durations[o].metric(d, client.name, name)
	}
}
