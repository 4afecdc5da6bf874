package resilient_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A server that speaks no TLS 1.2 is refused, whatever the other settings of TLS, and nothing of the request is sent; so is a certificate that nobody vouches for.
func TestTLSAtLeast12(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13} {
		served := 0
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version}
		s.StartTLS()
		trusted := &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
		for name, cfg := range map[string]*tls.Config{"trusted": trusted, "unknown": {}} {
			reg := resilient.NewRegistry()
			c, err := reg.NewClient("sber", resilient.Config{}, resilient.WithTLSConfig(cfg), resilient.WithLogger(discard))
			if err != nil {
				t.Fatal(err)
			}
			served = 0
			resp, err := c.RoundTrip(httptest.NewRequest("GET", s.URL, nil))
			if err == nil {
				resp.Body.Close()
			}
			if want := version >= tls.VersionTLS12 && name == "trusted"; (err == nil) != want || (served == 1) != want {
				t.Errorf("%s, %s: %v, %d served", tls.VersionName(version), name, err, served)
			}
			c.Close()
		}
		s.Close()
	}
	_, err := resilient.NewRegistry().NewClient("sber", resilient.Config{}, resilient.WithTLSConfig(&tls.Config{MinVersion: tls.VersionTLS11}))
	if err == nil || !strings.Contains(err.Error(), "TLS 1.2") {
		t.Error(err)
	}
}

// Trailers and 1xx answers are within the bound on headers too.
func TestResponseHeadersAreBounded(t *testing.T) {
	cfg := permits(1)
	cfg.MaxResponseHeaderBytes = 4 << 10
	huge := strings.Repeat("h", 64<<10)
	hints := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", strings.Repeat("l", 1<<10))
		for range 100 {
			w.WriteHeader(http.StatusEarlyHints)
		}
	})
	for name, handler := range map[string]http.Handler{"header": testserver.HugeHeaders(64 << 10), "trailer": testserver.Trailers("ok", "X-Huge", huge), "1xx": hints} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{cfg: cfg, server: testserver.Options{Handler: handler}}, func(r *rig) {
				resp, err := r.RoundTrip(r.request(r.Context(), "GET", nil))
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				if err == nil {
					r.Errorf("taken: %d", len(resp.Trailer.Get("X-Huge")))
				}
				r.held(0)
			})
		})
	}
}

// strangers are two hosts, the second one reached by a redirect of the first, whose requests are kept.
func strangers(t *testing.T, first, second func(http.Handler) *httptest.Server) (url string, got func() http.Header) {
	t.Helper()
	var seen http.Header
	other := second(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { seen = req.Header.Clone() }))
	t.Cleanup(other.Close)
	s := first(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+"/landed", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() http.Header { return seen }
}

// Do follows a redirect to another host as an http.Client does: without the credentials that it knows, with all else.
// What we add ourselves stays with the system. Who wants no more to be carried says so, as SECURITY.md does.
func TestRedirectsToOthers(t *testing.T) {
	trust := resilient.WithTLSConfig(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // two test servers, of which one is "localhost"
	plain, secure := httptest.NewServer, httptest.NewTLSServer
	for _, row := range []struct {
		name          string
		first, second func(http.Handler) *httptest.Server
		referer       bool
	}{{"http", plain, plain, true}, {"https", secure, secure, true}, {"downgrade", secure, plain, false}} {
		t.Run(row.name, func(t *testing.T) {
			first, seen := strangers(t, row.first, row.second)
			cfg := resilient.Config{}
			cfg.Retry.DeadlineHeader, cfg.Retry.MaxAttempts = "X-Deadline-Ms", 2
			c, err := resilient.NewRegistry().NewClient("sber", cfg, trust, resilient.WithLogger(discard))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			bare := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // as above
			defer bare.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			do := func(d interface {
				Do(*http.Request) (*http.Response, error)
			}) (http.Header, error) {
				t.Helper()
				req, err := http.NewRequestWithContext(ctx, "GET", first+"/?token=SECRET", nil)
				if err != nil {
					t.Fatal(err)
				}
				req.URL.User = url.UserPassword("user", "SECRET")
				for _, name := range []string{"Authorization", "Cookie", "Www-Authenticate", "X-Api-Key"} {
					req.Header.Set(name, "SECRET")
				}
				resp, err := d.Do(req)
				if resp != nil {
					resp.Body.Close()
				}
				return seen(), err
			}
			ours, err := do(c)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := do(bare)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"Authorization", "Cookie", "Www-Authenticate", "X-Deadline-Ms"} {
				if v := ours.Get(name); v != "" {
					t.Errorf("%s: %q", name, v)
				}
			}
			for _, name := range []string{"X-Api-Key", "Referer"} { // net/http's, and told of in SECURITY.md
				if ours.Get(name) != theirs.Get(name) {
					t.Errorf("%s: %q, and of a plain client %q", name, ours.Get(name), theirs.Get(name))
				}
			}
			if (ours.Get("Referer") != "") != row.referer || strings.Contains(ours.Get("Referer"), "user:") {
				t.Errorf("Referer %q", ours.Get("Referer"))
			}

			careful := c.HTTPClient()
			careful.CheckRedirect = func(req *http.Request, via []*http.Request) error {
				if len(via) == 10 || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
					return http.ErrUseLastResponse
				}
				return nil
			}
			seen().Set("X-Api-Key", "") // the last one's
			if got, err := do(careful); err != nil || got.Get("X-Api-Key") != "" {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// To the system itself the deadline is told on every hop.
func TestRedirectsAtHome(t *testing.T) {
	var told []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		told = append(told, req.Header.Get("X-Deadline-Ms"))
		if req.URL.Path != "/landed" {
			http.Redirect(w, req, "/landed", http.StatusFound)
		}
	}))
	defer s.Close()
	cfg := resilient.Config{}
	cfg.Retry.DeadlineHeader = "X-Deadline-Ms"
	c, err := resilient.NewRegistry().NewClient("sber", cfg, resilient.WithLogger(discard))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if len(told) != 2 || slices.Contains(told, "") {
		t.Errorf("%q", told)
	}
}

// The handlers answer GET and HEAD alone, and forbid a browser all but the page's own script and style, whatever they answer; text
// that a system or a visitor chose stays text.
func TestHandlersAreSafe(t *testing.T) {
	evil := `"></td><script>alert(1)</script><style>*{color:red}</style><img src=x onerror=alert(1)>{{.}}'`
	reg := resilient.NewRegistry()
	c, err := reg.NewClient("sber", resilient.Config{}, resilient.WithHealth(func(context.Context) error { return errors.New(evil) }), resilient.WithLogger(discard))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.Health(t.Context())
	before := fmt.Sprint(c.State())
	for name, h := range map[string]http.Handler{"Handler": reg.Handler(), "Readiness": reg.Readiness(), "Liveness": reg.Liveness()} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "FORCE"} {
			for _, target := range []string{"/", "/sber", "/" + url.PathEscape(evil), "/sber?format=html", "/?format=html", "/" + url.PathEscape(evil) + "?format=html&open=1"} {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader("state=open")))
				body, head := withoutOurs(t, w), w.Header() // checks that the policy has the hashes of ours
				if safe := method == "GET" || method == "HEAD"; (w.Code == http.StatusMethodNotAllowed) == safe {
					t.Errorf("%s: %s %s: %d", name, method, target, w.Code)
				}
				for key, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
					if head.Get(key) != want {
						t.Errorf("%s: %s %s: %s is %q", name, method, target, key, head.Get(key))
					}
				}
				policy := head.Get("Content-Security-Policy")
				for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'"} {
					if !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") {
						t.Errorf("%s: %s %s: %q", name, method, target, policy)
					}
				}
				for _, tag := range []string{"<script", "<img", "<form", "<button", "<input"} {
					if strings.Contains(body, tag) {
						t.Errorf("%s: %s %s: %s in %s", name, method, target, tag, body)
					}
				}
				if strings.HasPrefix(head.Get("Content-Type"), "application/json") && method == "GET" && !json.Valid(w.Body.Bytes()) {
					t.Errorf("%s: %s %s: %s", name, method, target, body)
				}
				if strings.Contains(body, "<style") || strings.Contains(body, "style=") {
					t.Errorf("%s: another style than the page's: %s", target, body)
				}
				if page := strings.HasPrefix(head.Get("Content-Type"), "text/html"); strings.Contains(policy, "-src 'sha256-") != page || strings.Contains(policy, "connect-src") != page {
					t.Errorf("%s: %s %s: %q", name, method, target, policy)
				}
			}
		}
	}
	if after := fmt.Sprint(c.State()); after != before {
		t.Errorf("%s, before %s", after, before)
	}
}
