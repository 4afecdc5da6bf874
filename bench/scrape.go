package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/resilient-go/resilient"
)

// scrape measures collecting the metrics of many systems.
func scrape(_ context.Context, e effort) (*section, error) {
	s := newSection("A scrape")
	n := e.size(10_000)
	f, err := newFleet(n, resilient.Config{}, noOptions)
	if err != nil {
		return nil, err
	}
	defer f.close()
	before := heap()
	v, err := newVectors(f)
	if err != nil {
		return nil, err
	}
	each := (heap() - before) / float64(n)
	gather := func(g prometheus.Gatherer) func(int) error {
		return func(k int) error {
			for range k {
				if _, err := g.Gather(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	const kept = "vectors"
	t, err := compare(e.fewer(7), cpu, contender{ours, gather(f.prom)}, contender{kept, gather(v.reg)})
	if err != nil {
		return nil, err
	}
	runtime.KeepAlive(v)
	s.para("Gathering all series of %d systems, %d series each, beside the same series kept in the vectors of client_golang, which is what they would "+
		"otherwise be. CPU time of Gather.", n, v.series/n)
	s.table(
		[]string{"metrics", "a scrape", "a system", "heap kept for a system"},
		[]string{ours, nanos(t.perOp(ours).median), nanos(t.perOp(ours).median / float64(n)), "see idle clients"},
		[]string{kept, nanos(t.perOp(kept).median), nanos(t.perOp(kept).median / float64(n)), number(each) + " B"},
	)
	s.ratioAtMost(fmt.Sprintf("a scrape of %d systems", n), t.ratio(ours, kept), 0.8, kept,
		"Nearly all of it is client_golang's: a metric, its labels and their check for each series, and the sorting of all of them in Gather. What the vectors keep is made for each scrape here, and thrown away.")
	return s, nil
}

// vectors are the metrics of a fleet, kept in vectors.
type vectors struct {
	reg    *prometheus.Registry
	series int
}

// newVectors makes a vector for each family of f, and in it every series.
func newVectors(f *fleet) (*vectors, error) {
	families, err := f.prom.Gather()
	if err != nil {
		return nil, err
	}
	v := &vectors{reg: prometheus.NewRegistry()}
	for _, family := range families {
		var names []string
		for _, l := range family.GetMetric()[0].GetLabel() {
			names = append(names, l.GetName())
		}
		with, c := newVector(family, names)
		if err := v.reg.Register(c); err != nil {
			return nil, err
		}
		for _, m := range family.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			with(values)
			v.series++
		}
	}
	return v, nil
}

// newVector returns the vector for a family, and what makes one of its series.
func newVector(f *dto.MetricFamily, labels []string) (with func([]string), c prometheus.Collector) {
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.GetName(), Help: f.GetHelp()}, labels)
		return func(values []string) { v.WithLabelValues(values...) }, v
	case dto.MetricType_HISTOGRAM:
		var buckets []float64
		for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
			buckets = append(buckets, b.GetUpperBound())
		}
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: f.GetName(), Help: f.GetHelp(), Buckets: buckets}, labels)
		return func(values []string) { v.WithLabelValues(values...) }, v
	default:
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.GetName(), Help: f.GetHelp()}, labels)
		return func(values []string) { v.WithLabelValues(values...) }, v
	}
}
