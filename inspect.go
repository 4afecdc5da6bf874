package resilient

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/page"
	"github.com/resilient-go/resilient/transport"
)

// busyAt is from what share of its permits on a system is told of as busy.
const busyAt = 0.8

// Handler returns a handler that shows the clients of g: as JSON, or as a page
// for people to a browser, which asks for text/html. ?format=json and
// ?format=html decide otherwise. It changes nothing.
//
//	mux.Handle("/debug/resilient/", http.StripPrefix("/debug/resilient", reg.Handler()))
//
// The page asks for ?format=live, which is the JSON in one line and without the
// settings, once a second, or less often where that takes long, and draws the last
// five minutes, which the browser keeps: nothing is kept here. It loads nothing else,
// from anywhere. Without a script it is loaded anew every 2 s.
//
// The counts of the JSON are since the client was made, by the words of the metrics'
// labels, and without those that are 0; see [Registry.Collector]. Latency is the time
// from the call to the end of the body of what ended as success, error_status,
// transport_error or timeout: how many by the upper bound in seconds, each alone.
//
// Below its root it has a page for each system by its name. An unknown one is
// 404, anything but GET and HEAD 405. It shows limits, states, counts and the
// settings in force, and no request, URL or header of any; the text of a failed
// health probe is the probe's own, without URLs. A browser is told to run nothing
// but the page's own script, to frame it nowhere and to keep none of it. Serve it
// where only your people look.
func (g *Registry) Handler() http.Handler {
	return readOnly(func(w http.ResponseWriter, r *http.Request) {
		as := formatOf(r)
		name := strings.Trim(r.URL.Path, "/")
		if name == "" {
			answer(w, http.StatusOK, as, "all", g.inspect(as == asJSON))
			return
		}
		c, err := g.Client(name)
		if err != nil {
			answer(w, http.StatusNotFound, as, "missing", map[string]string{"error": err.Error()})
			return
		}
		answer(w, http.StatusOK, as, "one", c.inspect(as != asLive))
	})
}

// A format is one of the handler's answers.
type format string

const (
	asHTML format = "html"
	asJSON format = "json"
	asLive format = "live"
)

func formatOf(r *http.Request) format {
	switch f := format(r.URL.Query().Get("format")); {
	case f == asHTML, f == asJSON, f == asLive:
		return f
	case strings.Contains(r.Header.Get("Accept"), "text/html"):
		return asHTML
	}
	return asJSON
}

func answer(w http.ResponseWriter, status int, as format, view string, v any) {
	switch as {
	case asHTML:
		head := w.Header()
		head.Set("Content-Security-Policy", head.Get("Content-Security-Policy")+"; "+page.Policy)
		page.Write(w, status, view, v)
	case asLive:
		writeJSON(w, status, v, "")
	default:
		writeJSON(w, status, v, "  ")
	}
}

type inspection struct {
	Summary inspectionSummary `json:"summary"`
	Systems []inspectedSystem `json:"systems"`
}

type inspectionSummary struct {
	Systems       int      `json:"systems"`
	MaxConns      int      `json:"max_connections"`       // the sum over all
	MaxConnsLimit int      `json:"max_connections_limit"` // of WithMaxTotalConns; 0 = none
	Busy          []string `json:"busy"`                  // above 80 % of their permits
	NotClosed     []string `json:"not_closed"`            // whose breaker is not
}

type inspectedSystem struct {
	Name       string            `json:"name"`
	Bulkhead   inspectedBulkhead `json:"bulkhead"`
	Breaker    inspectedBreaker  `json:"breaker"`
	InFlight   int               `json:"in_flight"`
	Oldest     string            `json:"oldest"`
	Executions int               `json:"executions"`
	Observing  bool              `json:"observing"`
	Health     healthDetail      `json:"health"`
	Counts     inspectedCounts   `json:"counts"`
	Config     map[string]string `json:"config,omitempty"`
}

type inspectedBulkhead struct {
	MaxConcurrent  int        `json:"max_concurrent"`
	Active         int        `json:"active"`
	Utilization    float64    `json:"utilization"`
	MaxWaiting     int        `json:"max_waiting"`
	Waiting        int        `json:"waiting"`
	RejectedFull   uint64     `json:"rejected_full"`
	RejectedWaited uint64     `json:"rejected_waited"`
	LastRejection  *time.Time `json:"last_rejection,omitempty"`
}

type inspectedBreaker struct {
	State       string                `json:"state"`
	Reason      string                `json:"reason,omitempty"`       // why it opened
	FailureRate float64               `json:"failure_rate,omitempty"` // when it did
	OpenUntil   *time.Time            `json:"open_until,omitempty"`   // when probes are let through
	Transitions []inspectedTransition `json:"transitions"`            // the last ones, oldest first
}

type inspectedTransition struct {
	At          time.Time `json:"at"`
	From        string    `json:"from"`
	To          string    `json:"to"`
	Reason      string    `json:"reason,omitempty"`
	FailureRate float64   `json:"failure_rate,omitempty"`
}

// inspectedCounts are since the client was made, by the words of the metrics' labels; what is 0 is left out.
type inspectedCounts struct {
	Started     uint64            `json:"started"`
	Requests    map[string]uint64 `json:"requests,omitempty"`   // ended, by outcome
	Executions  map[string]uint64 `json:"executions,omitempty"` // likewise
	Refusals    map[string]uint64 `json:"refusals,omitempty"`   // before an exchange began
	WouldRefuse map[string]uint64 `json:"would_refuse,omitempty"`
	Latency     inspectedLatency  `json:"latency"`
}

type inspectedLatency struct {
	Sum     float64           `json:"sum_seconds"`
	Buckets map[string]uint64 `json:"buckets,omitempty"` // by upper bound, each alone; none if there was nothing to measure
}

func (g *Registry) inspect(settings bool) inspection {
	all := inspection{Systems: []inspectedSystem{}, Summary: inspectionSummary{MaxConnsLimit: g.maxConns, Busy: []string{}, NotClosed: []string{}}}
	sum := &all.Summary
	for _, c := range g.all() {
		s := c.inspect(settings)
		sum.Systems++
		sum.MaxConns += c.cfg.Load().MaxConnsPerHost
		if s.Bulkhead.Utilization > busyAt {
			sum.Busy = append(sum.Busy, s.Name)
		}
		if s.Breaker.State != transport.Closed {
			sum.NotClosed = append(sum.NotClosed, s.Name)
		}
		all.Systems = append(all.Systems, s)
	}
	return all
}

func (c *Client) inspect(settings bool) inspectedSystem {
	s := c.State()
	b := s.Bulkhead
	out := inspectedSystem{
		Name: s.Name, InFlight: s.InFlight, Oldest: s.Oldest.Round(time.Millisecond).String(), Executions: s.Executions, Observing: s.Observing,
		Bulkhead: inspectedBulkhead{b.MaxConcurrent, b.Active, b.Utilization(), b.MaxWaiting, b.Waiting, b.RejectedFull, b.RejectedWaited, maybe(b.LastRejection)},
		Breaker:  inspectedBreaker{s.Breaker.State, s.Breaker.Reason, s.Breaker.FailureRate, maybe(s.Breaker.OpenUntil), []inspectedTransition{}},
		Health:   detail(s.Health),
		Counts:   c.stats.inspect(),
	}
	for _, t := range s.Transitions {
		out.Breaker.Transitions = append(out.Breaker.Transitions, inspectedTransition{t.At, t.From, t.To, t.Reason, t.FailureRate})
	}
	if settings {
		out.Config = map[string]string{}
		for _, setting := range config.Settings(s.Config) {
			out.Config[setting.Key] = setting.Value
		}
	}
	return out
}

// answered are the outcomes whose time tells how fast the system is.
var answered = [...]int{success, errorStatus, transportError, timedOut}

func (s *stats) inspect() inspectedCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := inspectedCounts{
		Started: s.started, Requests: some(outcomeNames[:], s.ended[:]), Executions: some(executionNames[:], s.executed[:]),
		Refusals: some(notCalledNames[:], s.notCalled[:]), WouldRefuse: some(refusalReasons[:], s.wouldRefuse[:]),
	}
	for _, o := range answered {
		h := s.durations[o]
		if h == nil {
			continue
		}
		if out.Latency.Buckets == nil {
			out.Latency.Buckets = make(map[string]uint64, len(bucketNames))
		}
		for i, n := range h.buckets {
			out.Latency.Buckets[bucketNames[i]] += n
		}
		out.Latency.Sum += h.sum
	}
	return out
}

// bucketNames are the bounds as Prometheus writes them.
var bucketNames = func() (names [len(bounds) + 1]string) {
	for i, bound := range bounds {
		names[i] = strconv.FormatFloat(bound, 'g', -1, 64)
	}
	names[len(bounds)] = "+Inf"
	return names
}()

// some returns the counts that are not 0.
func some(names []string, counts []uint64) map[string]uint64 {
	out := map[string]uint64{}
	for i, n := range counts {
		if n > 0 {
			out[names[i]] = n
		}
	}
	return out
}

// maybe leaves out what never was.
func maybe(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
