package resilient

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Readiness returns a handler for a readiness probe (Kubernetes' readinessProbe,
// a load balancer's check). It asks [Client.Health] of all systems at once and
// answers 200, or 503 if a system is unhealthy, with the detail as JSON:
//
//	{"status":"not ready","systems":{"sber":{"status":"unhealthy",
//	 "checked":"2026-01-02T15:04:05Z","error":"resilient: sber: not healthy: …","required":true}}}
//
// With names, only those are required: others are told of but do not count, and
// a name that has no client is not ready. Without, all are. The breaker is not looked at. A system without a
// probe is "unknown", and counts as ready: be sparing with what you require, for a
// partner that fails makes the whole service look down.
//
// An error's text is the probe's, without URLs: serve it where only your platform looks.
func (g *Registry) Readiness(required ...string) http.Handler {
	return readOnly(func(w http.ResponseWriter, r *http.Request) {
		report, ready := g.readiness(r.Context(), required)
		status := http.StatusOK
		if !ready {
			status = http.StatusServiceUnavailable
		}
		writeJSON(w, status, report, "  ")
	})
}

// Liveness returns a handler for a liveness probe. It answers 200 and never looks
// at the systems: to start the service anew heals no partner.
func (g *Registry) Liveness() http.Handler {
	return readOnly(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, readinessReport{Status: "alive"}, "  ")
	})
}

type readinessReport struct {
	Status  string                     `json:"status"`
	Systems map[string]readinessDetail `json:"systems,omitempty"`
}

type readinessDetail struct {
	healthDetail
	Required bool `json:"required"`
}

type healthDetail struct {
	Status  string     `json:"status"`
	Checked *time.Time `json:"checked,omitempty"`
	Error   string     `json:"error,omitempty"`
}

func (g *Registry) readiness(ctx context.Context, required []string) (readinessReport, bool) {
	var mu sync.Mutex
	var all sync.WaitGroup
	ready := true
	report := readinessReport{Status: "ready", Systems: map[string]readinessDetail{}}
	add := func(name string, h HealthState, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		d := readinessDetail{detail(h), len(required) == 0 || slices.Contains(required, name)}
		report.Systems[name] = d
		ready = ready && (ok || !d.Required)
	}
	clients := g.all()
	for _, c := range clients {
		all.Go(func() {
			if c.health != nil {
				_ = c.Health(ctx) // told by the state
			}
			h := c.health.state()
			add(c.name, h, h.Err == nil)
		})
	}
	all.Wait()
	for _, name := range required {
		if !slices.ContainsFunc(clients, func(c *Client) bool { return c.name == name }) {
			add(name, HealthState{Status: "unknown", Err: &NotFoundError{Name: name, Known: g.Names()}}, false)
		}
	}
	if !ready {
		report.Status = "not ready"
	}
	return report, ready
}

func detail(h HealthState) healthDetail {
	d := healthDetail{Status: h.Status, Checked: maybe(h.Checked)}
	if h.Err != nil {
		d.Error = withoutURLs(h.Err)
	}
	return d
}

// readOnly refuses what is not GET or HEAD, keeps the answer out of caches, and allows a browser nothing; a page adds what it needs.
func readOnly(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Cache-Control", "no-store")
		head.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("X-Content-Type-Options", "nosniff")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			head.Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed: this is read-only", http.StatusMethodNotAllowed)
			return
		}
		h(w, r)
	})
}

func writeJSON(w http.ResponseWriter, status int, v any, indent string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetIndent("", indent)
	_ = e.Encode(v) // the reader has gone
}
