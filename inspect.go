package resilient

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/resilient-go/resilient/config"
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
// Below its root it has a page for each system by its name. An unknown one is
// 404, anything but GET and HEAD 405. It shows limits, states, counts and the
// settings in force, and no request, URL or header of any; the text of a failed
// health probe is the probe's own, without URLs. A browser is told to run nothing,
// to frame it nowhere and to keep none of it. Serve it where only your people look.
func (g *Registry) Handler() http.Handler {
	return readOnly(func(w http.ResponseWriter, r *http.Request) {
		html := wantsHTML(r)
		name := strings.Trim(r.URL.Path, "/")
		if name == "" {
			answer(w, http.StatusOK, html, "all", g.inspect())
			return
		}
		c, err := g.Client(name)
		if err != nil {
			answer(w, http.StatusNotFound, html, "missing", map[string]string{"error": err.Error()})
			return
		}
		answer(w, http.StatusOK, html, "one", inspect(c.State()))
	})
}

func wantsHTML(r *http.Request) bool {
	switch r.URL.Query().Get("format") {
	case "html":
		return true
	case "json":
		return false
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

//go:embed inspect.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": func(share float64) int { return int(share*100 + 0.5) },
}).Parse(pageText))

// pageStyle allows the page its own style, and no other that may get into it.
var pageStyle = func() string {
	_, style, _ := strings.Cut(pageText, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

func answer(w http.ResponseWriter, status int, html bool, view string, v any) {
	if !html {
		writeJSON(w, status, v)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = page.ExecuteTemplate(w, view, v) // the reader has gone
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
	Config     map[string]string `json:"config"`
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

func (g *Registry) inspect() inspection {
	all := inspection{Systems: []inspectedSystem{}, Summary: inspectionSummary{MaxConnsLimit: g.maxConns, Busy: []string{}, NotClosed: []string{}}}
	for _, s := range g.States() {
		sum := &all.Summary
		sum.Systems++
		sum.MaxConns += s.Config.MaxConnsPerHost
		if s.Bulkhead.Utilization() > busyAt {
			sum.Busy = append(sum.Busy, s.Name)
		}
		if s.Breaker.State != transport.Closed {
			sum.NotClosed = append(sum.NotClosed, s.Name)
		}
		all.Systems = append(all.Systems, inspect(s))
	}
	return all
}

func inspect(s State) inspectedSystem {
	b := s.Bulkhead
	out := inspectedSystem{
		Name: s.Name, InFlight: s.InFlight, Oldest: s.Oldest.Round(time.Millisecond).String(), Executions: s.Executions, Observing: s.Observing,
		Bulkhead: inspectedBulkhead{b.MaxConcurrent, b.Active, b.Utilization(), b.MaxWaiting, b.Waiting, b.RejectedFull, b.RejectedWaited, maybe(b.LastRejection)},
		Breaker:  inspectedBreaker{s.Breaker.State, s.Breaker.Reason, s.Breaker.FailureRate, maybe(s.Breaker.OpenUntil), []inspectedTransition{}},
		Health:   detail(s.Health),
		Config:   map[string]string{},
	}
	for _, t := range s.Transitions {
		out.Breaker.Transitions = append(out.Breaker.Transitions, inspectedTransition{t.At, t.From, t.To, t.Reason, t.FailureRate})
	}
	for _, setting := range config.Settings(s.Config) {
		out.Config[setting.Key] = setting.Value
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
