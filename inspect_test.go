package resilient_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

func inspected(t *testing.T, h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("GET", target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// What the JSON says of a client in trouble, in fake time.
func TestHandlerJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setting{cfg: trips(3, permits(2)), server: testserver.Options{Memory: true}})
		held := []*http.Response{}
		for range 2 {
			r.server.Next(testserver.StallInBody(1))
			held = append(held, r.send(r.Context(), "/"))
		}
		time.Sleep(90 * time.Millisecond)
		if _, err := r.get(r.Context()); !errors.Is(err, resilient.ErrBulkheadFull) {
			t.Fatal(err)
		}
		var all struct {
			Summary struct {
				Systems             int
				MaxConnections      int `json:"max_connections"`
				MaxConnectionsLimit int `json:"max_connections_limit"`
				Busy                []string
				NotClosed           []string `json:"not_closed"`
			}
			Systems []map[string]any
		}
		get := func(target string, v any) {
			t.Helper()
			w := inspected(t, r.reg.Handler(), target)
			if w.Code != 200 || w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
				t.Errorf("%d %v", w.Code, w.Header())
			}
			if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
				t.Fatal(err, w.Body)
			}
		}
		get("/", &all)
		if s := all.Summary; s.Systems != 1 || s.MaxConnections != 4 || len(s.Busy) != 1 || s.Busy[0] != "sber" || len(s.NotClosed) != 0 || len(all.Systems) != 1 {
			t.Errorf("%+v", all)
		}
		for _, resp := range held {
			resp.Body.Close()
		}
		r.trip()
		synctest.Wait()
		var one struct {
			Name     string
			InFlight int `json:"in_flight"`
			Oldest   string
			Bulkhead struct {
				MaxConcurrent  int       `json:"max_concurrent"`
				RejectedWaited int       `json:"rejected_waited"`
				LastRejection  time.Time `json:"last_rejection"`
			}
			Breaker struct {
				State, Reason string
				FailureRate   float64   `json:"failure_rate"`
				OpenUntil     time.Time `json:"open_until"`
				Transitions   []struct{ From, To, Reason string }
			}
			Config map[string]string
		}
		get("/sber", &one)
		b := one.Breaker
		if b.State != "open" || b.Reason != "consecutive_failures" || time.Until(b.OpenUntil) != 30*time.Second ||
			len(b.Transitions) != 1 || b.Transitions[0].To != "open" || one.Bulkhead.RejectedWaited != 1 || one.Bulkhead.MaxConcurrent != 2 || one.Name != "sber" {
			t.Errorf("%+v", one)
		}
		if c := one.Config; c["max_connections"] != "4" || c["bulkhead.acquire_timeout"] != "100ms" || len(c) < 19 {
			t.Errorf("%v", c)
		}
		get("/", &all)
		if s := all.Summary; len(s.Busy) != 0 || len(s.NotClosed) != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// What the page asks for once a second: counts by the metrics' words and latency, no settings, one line.
func TestHandlerLive(t *testing.T) {
	inOne(t, setting{cfg: trips(2, permits(2))}, func(r *rig) {
		r.server.Default(testserver.After(200*time.Millisecond, testserver.OK("")))
		r.get(r.Context())
		r.server.Default(testserver.After(2*time.Second, testserver.Status(503)))
		r.get(r.Context())
		r.get(r.Context())
		if _, err := r.get(r.Context()); !errors.Is(err, resilient.ErrCircuitOpen) {
			r.Fatal(err)
		}
		if _, err := resilient.Execute(r.Context(), r.Client, func(context.Context) (int, error) { return 0, nil }); !errors.Is(err, resilient.ErrCircuitOpen) {
			r.Fatal(err)
		}
		synctest.Wait()
		type counts struct {
			Started              uint64
			Requests, Executions map[string]uint64
			Latency              struct {
				Sum     float64 `json:"sum_seconds"`
				Buckets map[string]uint64
			}
		}
		type system struct {
			Name   string
			Counts counts
			Config map[string]string
		}
		var all struct{ Systems []system }
		var one system
		for target, v := range map[string]any{"/?format=live": &all, "/sber?format=live": &one} {
			w := inspected(r.T, r.reg.Handler(), target, "Accept", "text/html")
			if err := json.Unmarshal(w.Body.Bytes(), v); err != nil || w.Header().Get("Content-Type") != "application/json; charset=utf-8" || strings.Count(w.Body.String(), "\n") != 1 {
				r.Errorf("%v: %v %s", err, w.Header(), w.Body)
			}
		}
		want := counts{Started: 4, Requests: map[string]uint64{"success": 1, "error_status": 2, "refused_open": 1}, Executions: map[string]uint64{"refused_open": 1}}
		want.Latency.Sum, want.Latency.Buckets = 4.2, map[string]uint64{}
		for bound := range strings.FieldsSeq("0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.15 0.25 0.5 1 2.5 5 7.5 10 30 60 120 300 +Inf") {
			want.Latency.Buckets[bound] = map[string]uint64{"0.25": 1, "2.5": 2}[bound] // and nothing for the refusal
		}
		if d := cmp.Diff(system{Name: "sber", Counts: want}, one); d != "" {
			r.Error(d)
		}
		if len(all.Systems) != 1 || !cmp.Equal(all.Systems[0], one) {
			r.Errorf("%+v, and alone %+v", all, one)
		}
	})
}

// withoutOurs returns a page without the script and the style that its policy allows.
func withoutOurs(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	body, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
	for directive, open := range map[string]string{"script-src": `<script type="module">`, "style-src": "<style>"} {
		before, rest, ok := strings.Cut(body, open)
		if !ok {
			continue // a page that needs none
		}
		text, after, _ := strings.Cut(rest, "</"+strings.TrimLeft(strings.Fields(strings.Trim(open, ">"))[0], "<")+">")
		sum := sha256.Sum256([]byte(text))
		if want := directive + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
			t.Errorf("%s is not in %s", want, policy)
		}
		body = before + after
	}
	return body
}

// A page for browsers, JSON for others, as ?format says if it does; nothing from elsewhere; everything escaped.
func TestHandlerPage(t *testing.T) {
	reg := resilient.NewRegistry(resilient.WithMaxTotalConns(100))
	h := reg.Handler()
	if w := inspected(t, h, "/?format=html"); !strings.Contains(w.Body.String(), "no client yet") {
		t.Error(w.Body)
	}
	evil := `</td><script>alert("x")</script>`
	c, err := reg.NewClient("sber", resilient.Config{}, resilient.WithHealth(func(context.Context) error { return errors.New(evil) }), resilient.WithLogger(discard))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.Health(t.Context())
	c.ForceOpen(time.Hour)
	for _, target := range []string{"/", "/sber", "/sber/", "/" + "%3Cscript%3E"} {
		w := inspected(t, h, target, "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
		body := w.Body.String()
		if w.Header().Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v", target, w.Header())
		}
		if !strings.HasPrefix(body, "<!doctype html>") || strings.Contains(withoutOurs(t, w), "<script") || regexp.MustCompile(`(?i)(src|href)="?(https?:)?//`).MatchString(body) ||
			!strings.Contains(body, `<noscript><meta http-equiv="refresh"`) {
			t.Errorf("%s: %s", target, body)
		}
	}
	if body := inspected(t, h, "/sber?format=html").Body.String(); !strings.Contains(body, "forced_open") || !strings.Contains(body, "&lt;script&gt;alert") || !strings.Contains(body, "bulkhead.max_concurrent") {
		t.Error(body)
	}
	if w := inspected(t, h, "/?format=json", "Accept", "text/html"); !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		t.Error(w.Header())
	}
	if w := inspected(t, h, "/"); !json.Valid(w.Body.Bytes()) || !strings.Contains(w.Body.String(), `"max_connections_limit": 100`) {
		t.Error(w.Body)
	}
}

func TestHandlerRefuses(t *testing.T) {
	reg := resilient.NewRegistry()
	c, err := reg.NewClient("sber", resilient.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, target := range []string{"/atol", "/sber/more", "/SBER", "/..", "/sber%20"} {
		w := inspected(t, reg.Handler(), target)
		if w.Code != 404 || !json.Valid(w.Body.Bytes()) || !strings.Contains(w.Body.String(), "there are: sber") {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"} {
		w := httptest.NewRecorder()
		reg.Handler().ServeHTTP(w, httptest.NewRequest(method, "/sber", nil))
		if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d %v", method, w.Code, w.Header())
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/resilient/", http.StripPrefix("/debug/resilient", reg.Handler()))
	if w := inspected(t, mux, "/debug/resilient/sber"); w.Code != 200 || !strings.Contains(w.Body.String(), `"name": "sber"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// No header, URL or TLS secret of a client shows.
func TestHandlerKeepsSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setting{server: testserver.Options{Memory: true, Handler: testserver.HangBeforeHeaders()}})
		req := r.request(r.Context(), "GET", nil)
		req.URL.Path, req.URL.RawQuery = "/secret-path", "token=secret-query"
		req.Header.Set("Authorization", "secret-header")
		ctx, cancel := context.WithCancel(r.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := r.Do(req.WithContext(ctx)); err == nil {
				resp.Body.Close()
			}
		}()
		synctest.Wait()
		for _, format := range []string{"html", "json"} {
			for _, path := range []string{"/", "/sber"} {
				body := inspected(t, r.reg.Handler(), path+"?format="+format).Body.String()
				if strings.Contains(body, "secret") || strings.Contains(body, r.server.URL()) {
					t.Error(body)
				}
			}
		}
		cancel()
		<-done
	})
}
