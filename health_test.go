package resilient_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// HC-1, HC-2: one probe in flight, its result good for 30 s, whichever it is.
func TestHealthIsCached(t *testing.T) {
	for name, want := range map[string]error{"healthy": nil, "unhealthy": errors.New("toner low")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var probes, running atomic.Int32
				c := probed(t, func(context.Context) error {
					if running.Add(1) > 1 {
						t.Error("two probes at once")
					}
					defer running.Add(-1)
					probes.Add(1)
					time.Sleep(time.Second)
					return want
				})
				if s := c.State().Health; s.Status != "unknown" || !s.Checked.IsZero() {
					t.Errorf("before the first: %+v", s)
				}
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() {
						if d := took(func() {
							if err := c.Health(t.Context()); !errors.Is(err, want) || (err == nil) != (want == nil) {
								t.Error(err)
							}
						}); d != time.Second {
							t.Errorf("after %v", d)
						}
					})
				}
				all.Wait()
				checked := time.Now()
				time.Sleep(30*time.Second - 1)
				if d := took(func() { _ = c.Health(t.Context()) }); d != 0 || probes.Load() != 1 {
					t.Errorf("%d probes within 30 s, after %v", probes.Load(), d)
				}
				if s := c.State().Health; s.Status != name || !s.Checked.Equal(checked) || !errors.Is(s.Err, want) {
					t.Errorf("%+v", s)
				}
				time.Sleep(1)
				if _ = c.Health(t.Context()); probes.Load() != 2 {
					t.Errorf("%d probes after 30 s", probes.Load())
				}
			})
		})
	}
}

func probed(t *testing.T, probe func(context.Context) error) *resilient.Client {
	t.Helper()
	c, err := resilient.NewRegistry().NewClient("sber", resilient.Config{}, resilient.WithHealth(probe))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// HC-3: a probe has 3 s, whether it heeds its context or not; and a caller that leaves does not end it.
func TestHealthTakesThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		c := probed(t, func(ctx context.Context) error {
			<-ctx.Done()
			ended <- ctx.Err()
			return ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if d := took(func() {
			if err := c.Health(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, resilient.ErrTimeout) {
				t.Error(err)
			}
		}); d != time.Second {
			t.Errorf("the impatient after %v", d)
		}
		if d := took(func() {
			var timeout *resilient.TimeoutError
			if err := c.Health(t.Context()); !errors.As(err, &timeout) || timeout.Limit != 3*time.Second || timeout.System != "sber" {
				t.Error(err)
			}
		}); d != 2*time.Second {
			t.Errorf("after %v more", d)
		}
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		var probes atomic.Int32
		c := probed(t, func(context.Context) error { probes.Add(1); <-release; return nil })
		for range 3 {
			if err := c.Health(t.Context()); !errors.Is(err, resilient.ErrTimeout) {
				t.Error(err)
			}
			time.Sleep(time.Minute)
		}
		if probes.Load() != 1 {
			t.Errorf("%d probes at once", probes.Load())
		}
		close(release)
		synctest.Wait()
		if err := c.Health(t.Context()); err != nil {
			t.Error("after it had returned:", err)
		}
	})
}

func TestHealthProbeThatPanics(t *testing.T) {
	for name, probe := range map[string]func(context.Context) error{
		"panic":  func(context.Context) error { panic("boom") },
		"goexit": func(context.Context) error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			if err := probed(t, probe).Health(t.Context()); err == nil || !strings.Contains(err.Error(), "panicked") {
				t.Error(err)
			}
		})
	}
}

func TestHealthErrors(t *testing.T) {
	reg := resilient.NewRegistry()
	c, err := reg.NewClient("sber", resilient.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Health(t.Context()); !errors.Is(err, resilient.ErrNoHealthProbe) || !strings.Contains(err.Error(), "WithHealth") {
		t.Error(err)
	}
	c.Close()
	c = probed(t, func(context.Context) error { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Health(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	c.Close()
	if err := c.Health(t.Context()); !errors.Is(err, resilient.ErrClosed) {
		t.Error(err)
	}
	for _, bad := range []string{"", "sber.test/health", "ftp://sber.test/", "http://", "http://a b/"} {
		if _, err := reg.NewClient("sber", resilient.Config{}, resilient.WithHealthURL(bad)); err == nil || !strings.Contains(err.Error(), "WithHealthURL") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := reg.NewClient("sber", resilient.Config{}, resilient.WithHealth(nil)); err == nil {
		t.Error("a nil probe")
	}
}

// HC-4: the probe of a URL has a connection of its own, outside of bulkhead and breaker.
func TestHealthURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := testserver.Start(testserver.Options{Memory: true})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		c, err := resilient.NewRegistry().NewClient("sber", resilient.Config{MaxConnsPerHost: 1},
			resilient.WithDialContext(server.Dial), resilient.WithHealthURL(server.URL()+"/health"), resilient.WithLogger(discard))
		if err != nil {
			t.Fatal(err)
		}
		server.Next(testserver.StallInBody(1))
		req, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL(), nil)
		held, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		c.ForceOpen(0)
		for _, status := range []int{200, 204, 302, 399, 400, 404, 500, 503} {
			server.Next(testserver.Status(status))
			err := c.Health(t.Context())
			if (err == nil) != (status < 400) {
				t.Errorf("%d: %v", status, err)
			}
			time.Sleep(30 * time.Second)
		}
		if n := server.Stats().OpenConns; n > 2 {
			t.Errorf("%d connections", n)
		}
		if s := c.State(); s.InFlight > 1 || s.Bulkhead.Active > 1 {
			t.Errorf("%+v", s)
		}
		held.Body.Close()
		c.Close()
		synctest.Wait()
		if n := server.Stats().OpenConns; n != 0 {
			t.Errorf("%d connections left", n)
		}
	})
}

// Close ends a probe under way.
func TestHealthAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := probed(t, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		time.AfterFunc(time.Second, func() { c.Close() })
		if d := took(func() {
			if err := c.Health(t.Context()); !errors.Is(err, resilient.ErrClosed) {
				t.Error(err)
			}
		}); d != time.Second {
			t.Errorf("after %v", d)
		}
	})
}

func TestReadiness(t *testing.T) {
	reg := resilient.NewRegistry()
	for name, opts := range map[string][]resilient.Option{
		"well":   {resilient.WithHealth(func(context.Context) error { return nil })},
		"ill":    {resilient.WithHealth(func(context.Context) error { return errors.New("<b>toner</b> low") })},
		"silent": nil,
	} {
		c, err := reg.NewClient(name, resilient.Config{}, opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for _, row := range []struct {
		required []string
		status   int
		ready    string
	}{
		{nil, 503, "not ready"},
		{[]string{"well"}, 200, "ready"},
		{[]string{"well", "silent"}, 200, "ready"},
		{[]string{"well", "ill"}, 503, "not ready"},
		{[]string{"well", "absent"}, 503, "not ready"},
	} {
		w := httptest.NewRecorder()
		reg.Readiness(row.required...).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		var report struct {
			Status  string
			Systems map[string]struct {
				Status, Error string
				Required      bool
				Checked       time.Time
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil {
			t.Fatal(err, w.Body)
		}
		if w.Code != row.status || report.Status != row.ready {
			t.Errorf("%v: %d %s", row.required, w.Code, w.Body)
		}
		for name, status := range map[string]string{"well": "healthy", "ill": "unhealthy", "silent": "unknown"} {
			s := report.Systems[name]
			if s.Status != status || (s.Error != "") != (name == "ill") || s.Checked.IsZero() != (name == "silent") {
				t.Errorf("%v: %s: %+v", row.required, name, s)
			}
		}
		if a := report.Systems["absent"]; strings.Contains(strings.Join(row.required, " "), "absent") != (a.Error != "" && a.Required) {
			t.Errorf("%+v", a)
		}
	}
}

// Liveness looks at nothing; both only read.
func TestLiveness(t *testing.T) {
	reg := resilient.NewRegistry()
	c, err := reg.NewClient("sber", resilient.Config{}, resilient.WithHealth(func(context.Context) error { t.Error("probed"); return nil }))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w := httptest.NewRecorder()
	reg.Liveness().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != 200 || !strings.Contains(w.Body.String(), "alive") || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	for _, h := range []http.Handler{reg.Liveness(), reg.Readiness()} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
			if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s: %d %v", method, w.Code, w.Header())
			}
		}
	}
}
