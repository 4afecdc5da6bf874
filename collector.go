package resilient

import (
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Collector returns the metrics of all clients of g, read when they are
// collected. The only labels are system and fixed words. Outcomes:
//
//	success          a response whose status is not in Breaker.FailureStatus (a 404 is one), read to its end or closed
//	error_status     a response whose status is
//	transport_error  no connection, a reset, a body cut short, or above MaxResponseBytes
//	timeout          a bound of ours
//	cancelled        the caller's cancel or deadline, or the end of the client
//	abandoned        the total came, and nobody had read the body for ReadTimeout, or ever
//	upgraded         to another protocol (101)
//	refused_full     by the bulkhead
//	refused_open     by the breaker
//	refused_closed   by a closed client
//	invalid          a request that can't be sent, or whose own body failed
//	panic            something below panicked or ended its goroutine
//
// executions_total counts the calls of [Execute] and [Call.Do], by what the caller was told:
// success, error (fn's own), timeout, cancelled, panic, and refused_full, refused_open and
// refused_closed, with which fn did not run. retry_attempts_total counts attempts after the
// first, each an exchange of its own in requests_total: success, failure, refused, cancelled, panic. would_refuse_total is for [Observe].
// All histograms are in seconds. requests_total and request_duration_seconds
// count exchanges, to the end of the body; time_to_headers_seconds counts from
// admission, request_duration_seconds from the call, and semaphore_wait_seconds
// is the difference. The buckets end at 300, the longest TotalTimeout: longer
// streams are in +Inf. requests_started_total - requests_in_flight is the sum of
// requests_total over its outcomes, at every scrape.
func (g *Registry) Collector() prometheus.Collector {
	c := &collector{registry: g}
	for _, f := range families {
		c.descs = append(c.descs, prometheus.NewDesc(g.prefix+f.name, f.help, append([]string{systemLabel}, f.labels...), nil))
	}
	return c
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// A family is a metric: what it sends for a client, label by label.
type family struct {
	name, help string
	labels     []string
	kind       prometheus.ValueType
	send       func(v *view)
}

var families = []family{
	{"semaphore_rejections_total", "Requests refused by the bulkhead: at once (full) or after a wait (waited).", []string{"reason"}, counter, func(v *view) {
		v.value(float64(v.Bulkhead.RejectedFull), "full")
		v.value(float64(v.Bulkhead.RejectedWaited), "waited")
	}},
	{"semaphore_active", "Permits in use.", nil, gauge, func(v *view) { v.value(float64(v.Bulkhead.Active)) }},
	{"semaphore_waiting", "Requests that wait for a permit.", nil, gauge, func(v *view) { v.value(float64(v.Bulkhead.Waiting)) }},
	{"semaphore_max_concurrent", "Permits in all.", nil, gauge, func(v *view) { v.value(float64(v.Bulkhead.MaxConcurrent)) }},
	{"semaphore_wait_seconds", "Time from the call to a permit, or to the refusal.", nil, gauge, func(v *view) { v.histogram(v.waits) }},
	{"breaker_state", "1 for the state that the circuit breaker is in.", []string{"state"}, gauge, func(v *view) {
		for _, state := range stateNames {
			v.value(map[bool]float64{true: 1}[v.Breaker.State == state], state)
		}
	}},
	{"breaker_transitions_total", "Changes of the circuit breaker's state.", []string{"from", "to"}, counter, func(v *view) {
		for i, t := range transitionNames {
			v.value(float64(v.transitions[i]), t[0], t[1])
		}
	}},
	{"breaker_rejections_total", "Requests refused by the circuit breaker.", nil, counter, func(v *view) { v.value(float64(v.ended[refusedOpen])) }},
	{"requests_started_total", "Exchanges begun, refused ones included.", nil, counter, func(v *view) { v.value(float64(v.started)) }},
	{"requests_in_flight", "Exchanges begun and not ended.", nil, gauge, func(v *view) { v.value(float64(v.inFlight)) }},
	{"requests_total", "Exchanges ended, by how they did.", []string{"outcome"}, counter, func(v *view) {
		for o, name := range outcomeNames {
			v.value(float64(v.ended[o]), name)
		}
	}},
	{"request_duration_seconds", "Time from the call to the end of the body.", []string{"outcome"}, gauge, func(v *view) {
		for o, name := range outcomeNames {
			v.histogram(v.durations[o], name)
		}
	}},
	{"time_to_headers_seconds", "Time from admission to the response's headers.", nil, gauge, func(v *view) { v.histogram(v.headers) }},
	{"timeouts_total", "Timeouts, by the bound that fired.", []string{"phase"}, counter, func(v *view) {
		for i, phase := range phases {
			v.value(float64(v.timeouts[i]), string(phase))
		}
	}},
	{"executions_total", "Calls of Execute, by how they ended.", []string{"outcome"}, counter, func(v *view) {
		for o, name := range executionNames {
			v.value(float64(v.executed[o]), name)
		}
	}},
	{"retry_attempts_total", "Attempts after the first, by how they ended.", []string{"outcome"}, counter, func(v *view) {
		for o, name := range attemptNames {
			v.value(float64(v.attempts[o]), name)
		}
	}},
	{"retry_budget_exhausted_total", "Attempts not made only since the budget had no room for them.", nil, counter, func(v *view) { v.value(float64(v.exhausted)) }},
	{"retry_wait_seconds", "Pauses before attempts after the first.", nil, gauge, func(v *view) { v.histogram(v.pauses) }},
	{"retry_refusals_total", "Calls refused before an exchange began: while the system asked to be left alone (paused), or with too little of the caller's deadline left (late).", []string{"reason"}, counter, func(v *view) {
		for r, name := range notCalledNames {
			v.value(float64(v.notCalled[r]), name)
		}
	}},
	{"would_refuse_total", "What an observing client would have refused.", []string{"reason"}, counter, func(v *view) {
		for r, name := range refusalReasons {
			v.value(float64(v.wouldRefuse[r]), name)
		}
	}},
	{"connections_opened_total", "Connections made by the client's own transport.", nil, counter, func(v *view) { v.value(float64(v.opened)) }},
}

type collector struct {
	registry *Registry
	descs    []*prometheus.Desc // of the families
}

// Describe is prometheus.Collector's.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect is prometheus.Collector's. It holds no lock while it sends.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, client := range c.registry.all() {
		v := &view{State: client.State(), opened: client.opened.Load(), out: out}
		v.counts, v.inFlight = client.stats.snapshot()
		for i := range families {
			v.family, v.desc = &families[i], c.descs[i]
			v.family.send(v)
		}
	}
}

// A view is what a scrape sees of one client.
type view struct {
	State
	counts
	inFlight int
	opened   uint64
	out      chan<- prometheus.Metric
	*family
	desc *prometheus.Desc
}

func (v *view) value(n float64, words ...string) {
	v.out <- &sample{v.desc, v.pairs(words), v.kind, n}
}

func (v *view) histogram(h *histogram, words ...string) {
	v.out <- &distribution{v.desc, v.pairs(words), h}
}

// pairs returns the labels of a series, in the order of their names, as client_golang wants them.
func (v *view) pairs(words []string) []*dto.LabelPair {
	all := make([]dto.LabelPair, 1+len(words))
	all[0] = dto.LabelPair{Name: &systemLabel, Value: &v.Name}
	sorted := append(make([]*dto.LabelPair, 0, len(all)), &all[0])
	for i := range words {
		all[i+1] = dto.LabelPair{Name: &v.labels[i], Value: &words[i]}
		sorted = append(sorted, &all[i+1])
	}
	slices.SortFunc(sorted, func(a, b *dto.LabelPair) int { return strings.Compare(*a.Name, *b.Name) })
	return sorted
}

var systemLabel = "system"

// A sample is a prometheus.Metric that is made for one scrape, as a distribution is. Those of client_golang check what can't
// be wrong here, and take a map for each histogram: with many systems that was a quarter of a scrape's time.
type sample struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	kind   prometheus.ValueType
	n      float64
}

// Desc is prometheus.Metric's.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

// Write is prometheus.Metric's.
func (s *sample) Write(m *dto.Metric) error {
	m.Label = s.labels
	if s.kind == counter {
		m.Counter = &dto.Counter{Value: &s.n}
	} else {
		m.Gauge = &dto.Gauge{Value: &s.n}
	}
	return nil
}

type distribution struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	h      *histogram
}

// Desc is prometheus.Metric's.
func (d *distribution) Desc() *prometheus.Desc { return d.desc }

// Write is prometheus.Metric's.
func (d *distribution) Write(m *dto.Metric) error {
	var (
		n       uint64
		counts  [len(bounds) + 1]uint64 // cumulative
		buckets [len(bounds)]dto.Bucket
		all     = make([]*dto.Bucket, len(bounds))
	)
	for i, here := range d.h.buckets {
		n += here
		counts[i] = n
	}
	for i := range bounds {
		buckets[i] = dto.Bucket{CumulativeCount: &counts[i], UpperBound: &bounds[i]}
		all[i] = &buckets[i]
	}
	m.Label = d.labels
	m.Histogram = &dto.Histogram{SampleCount: &counts[len(bounds)], SampleSum: &d.h.sum, Bucket: all}
	return nil
}

// bounds are the buckets of all histograms, in seconds: narrow where an answer
// is expected and where the default bounds are (0.1, 1, 5 and 7 s).
var bounds = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 7.5, 10, 30, 60, 120, 300}

// A histogram is a plain one, guarded by the lock of its stats: one of
// client_golang would take several KB for each system and outcome.
type histogram struct {
	buckets [len(bounds) + 1]uint64 // not cumulative; the last is above all bounds
	sum     float64
}

// observe makes the histogram at its first use.
func observe(h **histogram, d time.Duration) {
	if *h == nil {
		*h = new(histogram)
	}
	(*h).buckets[sort.SearchFloat64s(bounds[:], d.Seconds())]++
	(*h).sum += d.Seconds()
}

// clone copies h; one that was never used is empty.
func (h *histogram) clone() *histogram {
	c := new(histogram)
	if h != nil {
		*c = *h
	}
	return c
}
