package resilient_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/resilient-go/resilient"
)

//go:generate go test -run ^TestMetricsPage$ . -update

var update = flag.Bool("update", false, "write docs/metrics.md")

const metricsPath = "docs/metrics.md"

// The reference is made of what a client shows to a scrape, and of what the collector's comment says of it.
func TestMetricsPage(t *testing.T) {
	made := metricsPage(t, gathered(t))
	if *update {
		if err := os.WriteFile(metricsPath, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(metricsPath); err != nil || string(got) != made {
		t.Errorf("%s is not what a scrape shows: make generate (%v)", metricsPath, err)
	}
}

// Every metric that a page speaks of is there.
func TestMetricNamesInPages(t *testing.T) {
	known := map[string]bool{}
	for _, family := range gathered(t) {
		known[family.GetName()] = true
		if family.GetType() == dto.MetricType_HISTOGRAM {
			for _, of := range []string{"_bucket", "_sum", "_count"} {
				known[family.GetName()+of] = true
			}
		}
	}
	names := regexp.MustCompile(`\bresilient_[a-z_]*[a-z]`)
	for page, text := range pages(t) {
		for _, name := range names.FindAllString(text, -1) {
			if !known[name] {
				t.Errorf("%s: there is no metric %s", page, name)
			}
		}
	}
}

// gathered is what a scrape shows of a client that was never called: every series is there from the start.
func gathered(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	prom := prometheus.NewPedanticRegistry()
	reg := resilient.NewRegistry(resilient.WithRegisterer(prom))
	defer reg.Shutdown(context.Background())
	if _, err := reg.NewClient("sber", resilient.Config{}); err != nil {
		t.Fatal(err)
	}
	families, err := prom.Gather()
	if err != nil || len(families) < 10 {
		t.Fatal(len(families), err)
	}
	return families
}

const metricsHead = `# Metrics reference

Every metric of a client, with its labels and all their values, and what to look at first. *Written by ` + "`make generate`" + ` from a
scrape and from the comment of ` + "`Registry.Collector`" + `.*

They are registered with Prometheus's default registerer by the first ` + "`resilient.NewClient`; `NewRegistry(WithRegisterer(r))`" + `
takes another one. ` + "`WithMetricPrefix`" + ` sets the beginning of the names, "resilient_", which the table leaves out. The label ` + "`system`" + `
is the client's name; the other labels have the fixed words below, so that a client has a fixed number of series: they are all there, as 0,
from its construction, and go when it is closed. Times are in seconds. Each scrape of a client is one consistent picture:

    requests_started_total - requests_in_flight = sum over outcome of requests_total

## What to look at first

` + "```promql" + `
# Refused for want of a permit or by the breaker, by system: callers hear ErrUnavailable.
sum by (system) (rate(resilient_requests_total{outcome=~"refused_full|refused_open"}[5m]))

# A breaker that is not closed.
resilient_breaker_state{state!="closed"} == 1

# How full the bulkhead is: above 0.8 for long, the limit is too low, or the system too slow.
resilient_semaphore_active / resilient_semaphore_max_concurrent

# Failures of the system itself, as a share of what was sent.
sum by (system) (rate(resilient_requests_total{outcome=~"error_status|transport_error|timeout"}[5m]))
  / sum by (system) (rate(resilient_requests_total{outcome!~"refused_.*|invalid"}[5m]))

# The slowest hundredth, to the end of the body, as callers see it.
histogram_quantile(0.99, sum by (system, le) (rate(resilient_request_duration_seconds_bucket[5m])))

# Bodies that nobody reads: a leak in the caller's code.
sum by (system) (rate(resilient_requests_total{outcome="abandoned"}[1h])) > 0
` + "```" + `

## All

| metric | type | labels beside system | what it counts |
|---|---|---|---|
`

func metricsPage(t *testing.T, families []*dto.MetricFamily) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(metricsHead)
	buckets := ""
	for _, family := range families {
		values := map[string][]string{}
		var labels []string
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				name := l.GetName()
				if name == "system" {
					continue
				}
				if !slices.Contains(labels, name) {
					labels = append(labels, name)
				}
				if !slices.Contains(values[name], l.GetValue()) {
					values[name] = append(values[name], l.GetValue())
				}
			}
			if h := m.GetHistogram(); h != nil {
				var all []string
				for _, bucket := range h.GetBucket() {
					all = append(all, fmt.Sprint(bucket.GetUpperBound()))
				}
				list := strings.Join(all, ", ")
				if buckets != "" && list != buckets {
					t.Errorf("%s has other buckets", family.GetName())
				}
				buckets = list
			}
		}
		for i, name := range labels {
			slices.Sort(values[name])
			labels[i] = "`" + name + "`: " + strings.Join(values[name], ", ")
		}
		name, ok := strings.CutPrefix(family.GetName(), "resilient_")
		if !ok || family.GetHelp() == "" {
			t.Errorf("%s: %q", family.GetName(), family.GetHelp())
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(family.GetType().String()), strings.Join(labels, "; "), family.GetHelp())
	}
	fmt.Fprintf(&b, "\nThe buckets of all histograms end at %s: longer streams are in +Inf.\n", buckets)
	for _, typ := range documented(t, public[0]).Types {
		for _, f := range typ.Methods {
			if typ.Name == "Registry" && f.Name == "Collector" {
				_, doc, _ := strings.Cut(f.Doc, "Outcomes:\n")
				table, rest, _ := strings.Cut(strings.TrimLeft(doc, "\n"), "\n\n")
				b.WriteString("\n## Outcomes\n\nOf `requests_total` and `request_duration_seconds`:\n\n| outcome | how it ended |\n|---|---|\n")
				for line := range strings.Lines(table) {
					word, what, _ := strings.Cut(strings.TrimSpace(line), " ")
					fmt.Fprintf(&b, "| `%s` | %s |\n", word, strings.TrimSpace(what))
				}
				links := regexp.MustCompile(`\[([A-Za-z0-9.]+)\]`)
				b.WriteString("\n" + links.ReplaceAllString(strings.TrimSpace(rest), "`$1`") + "\n")
			}
		}
	}
	return b.String()
}
