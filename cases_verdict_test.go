package resilient_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// Values that a breaker below would take for something else are refused.
func TestCase_B20(t *testing.T) {
	for _, change := range []func(*resilient.Config){
		func(c *resilient.Config) { c.Breaker.HalfOpenProbes = -1 },
		func(c *resilient.Config) { c.Breaker.OpenFor = -1 },
		func(c *resilient.Config) { c.Breaker.Window = -time.Second },
		func(c *resilient.Config) { c.Breaker.MinRequests = -1 },
		func(c *resilient.Config) { c.Breaker.ConsecutiveFailures = -2 },
		func(c *resilient.Config) { c.Breaker.FailureRatio = -0.5 },
		func(c *resilient.Config) { c.Breaker.SlowCall = -1 },
		func(c *resilient.Config) { c.Breaker.HalfOpenProbes = 1 << 32 },
	} {
		var cfg resilient.Config
		change(&cfg)
		if c, err := resilient.NewRegistry().NewClient("sber", cfg); err == nil {
			t.Errorf("accepted %+v", cfg.Breaker)
			c.Close()
		}
	}
}

// Refusals do not prolong the time in which an open breaker refuses, and are no failures.
func TestCase_B21(t *testing.T) {
	cfg := trips(3, permits(1))
	cfg.Breaker.OpenFor = 100 * time.Millisecond
	for _, through := range []string{"Do", "State", "a context that has ended"} {
		inBoth(t, setting{cfg: cfg}, func(r *rig) {
			r.trip()
			for range 3 { // whose probes fail
				before := r.server.Stats().Requests
				r.server.Default(testserver.Status(500))
				d := took(func() {
					for r.server.Stats().Requests == before {
						time.Sleep(5 * time.Millisecond)
						switch through {
						case "State":
							r.State()
						case "a context that has ended":
							ctx, cancel := context.WithCancel(r.Context())
							cancel()
							r.get(ctx)
						}
						r.get(r.Context())
					}
				})
				if d < 100*time.Millisecond || d > 105*time.Millisecond {
					r.Errorf("%s: a probe after %v", through, d)
				}
				r.breaker("open")
			}
			if n := r.metrics()["requests_total error_status"]; n != 3+3 {
				r.Errorf("%s: %v failures", through, n)
			}
		})
	}
}

// Which statuses are failures, in closed and in half-open alike.
func TestCase_B23(t *testing.T) {
	for list, failures := range map[string][]int{"": {500, 501, 503, 504, 520, 530, 599}, "429,503,520-530": {429, 503, 520, 530}} {
		for _, code := range []int{200, 400, 401, 403, 404, 408, 409, 422, 429, 499, 500, 501, 503, 504, 520, 530, 599, 600, 999} {
			cfg := trips(3, permits(1))
			cfg.Breaker.FailureStatus = list
			inBoth(t, setting{cfg: cfg}, func(r *rig) {
				want := map[bool]string{true: "open", false: "closed"}[slices.Contains(failures, code)]
				r.server.Default(testserver.Status(code))
				for range 5 {
					r.get(r.Context())
				}
				r.breaker(want)
				r.server.Default(testserver.Status(503))
				for range 3 {
					r.get(r.Context())
				}
				time.Sleep(30*time.Second + 1)
				r.breaker("half_open")
				r.server.Default(testserver.Status(code))
				r.get(r.Context())
				r.breaker(want)
				if r.Failed() {
					r.Fatalf("%d of %q", code, list)
				}
			})
		}
	}
}

// Each exchange counts once, however it is ended, and each hop is one; a hop to a broken host counts for who followed it.
func TestCase_B24_B25(t *testing.T) {
	t.Run("redirects", func(t *testing.T) {
		inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
			r.server.On("/a", http.RedirectHandler("/b", http.StatusFound))
			r.server.On("/b", http.RedirectHandler("/c", http.StatusFound))
			if _, err := r.Do(r.to(r.Context(), "/a")); err != nil {
				r.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			r.outcomes(map[string]float64{"success": 2, "abandoned": 1})
			if n := r.server.Stats().Requests; n != 3 {
				r.Errorf("%d requests", n)
			}
		})
	})
	t.Run("attempts", func(t *testing.T) {
		inBoth(t, setting{cfg: trips(3, permits(1)), server: testserver.Options{Handler: testserver.Status(500)}}, func(r *rig) {
			for range 3 {
				r.breaker("closed")
				resp := r.send(r.Context(), "/")
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				resp.Body.Read(make([]byte, 1))
				resp.Body.Close()
			}
			r.breaker("open")
			r.outcomes(map[string]float64{"error_status": 3})
		})
	})
	t.Run("foreign host", func(t *testing.T) {
		var server *testserver.Server
		dial := resilient.WithDialContext(func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasPrefix(addr, "broken.test:") {
				return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
			}
			return server.Dial(ctx, network, addr)
		})
		inBoth(t, setting{cfg: permits(1), opts: []resilient.Option{dial}}, func(r *rig) {
			server = r.server
			scheme, _, _ := strings.Cut(r.server.URL(), ":")
			r.server.Default(http.RedirectHandler(scheme+"://broken.test/", http.StatusFound))
			for range 5 {
				r.breaker("closed")
				_, err := r.get(r.Context())
				r.is(err, syscall.ECONNREFUSED)
			}
			r.breaker("open") // 5 of 10
			r.outcomes(map[string]float64{"success": 5, "transport_error": 5})
		})
	})
}
