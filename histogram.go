package resilient

import (
	"sort"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// bounds are the buckets of all histograms, in seconds: narrow where an answer
// is expected and where the default bounds are (0.1, 1, 5 and 7 s).
var bounds = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 7.5, 10, 30, 60}

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
	s := d.Seconds()
	(*h).buckets[sort.SearchFloat64s(bounds[:], s)]++
	(*h).sum += s
}

func (h *histogram) clone() *histogram {
	if h == nil {
		return nil
	}
	c := *h
	return &c
}

// metric is empty for a histogram that was never used.
func (h *histogram) metric(d *prometheus.Desc, labels ...string) prometheus.Metric {
	if h == nil {
		h = new(histogram)
	}
	n, buckets := uint64(0), make(map[float64]uint64, len(bounds))
	for i, le := range bounds {
		n += h.buckets[i]
		buckets[le] = n
	}
	return prometheus.MustNewConstHistogram(d, n+h.buckets[len(bounds)], h.sum, buckets, labels...)
}
