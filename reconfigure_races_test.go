package resilient_test

import (
	"bytes"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// The same configuration a hundred times, while requests run, changes nothing and says nothing: it is values that are compared (L-03).
func TestCase_L03(t *testing.T) {
	for _, p := range []testserver.Protocol{testserver.HTTP1, testserver.HTTP2} {
		t.Run(p.String(), func(t *testing.T) {
			server, err := testserver.Start(testserver.Options{Protocol: p})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			var log bytes.Buffer
			cfg := trips(3, permits(4))
			opts := []resilient.Option{textLog(&log)}
			if p == testserver.HTTP2 {
				cfg.Protocol, opts = "http2", append(opts, resilient.WithTLSConfig(server.TLS()))
			}
			c, err := resilient.NewRegistry().NewClient("sber", cfg, opts...)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			r := &rig{T: t, Client: c, server: server}
			server.Next(testserver.Status(500), testserver.Status(500))
			r.get(t.Context())
			r.get(t.Context())
			var all sync.WaitGroup
			server.Default(testserver.Status(404, "X-Some", "thing"))
			said := logged(&log, func() {
				for i := range 100 {
					all.Go(func() {
						same := cfg
						if i%2 == 0 {
							same = c.State().Config
						}
						if err := c.Reconfigure(same); err != nil {
							t.Error(err)
						}
					})
					if i%10 == 0 {
						all.Go(func() { r.get(t.Context()) })
					}
				}
				all.Wait()
			})
			if n := server.Stats(); said != "" || n.Conns > cfg.MaxConnsPerHost {
				t.Errorf("%d connections; logged: %s", n.Conns, said)
			}
			server.Next(testserver.Status(500), testserver.Status(500), testserver.Status(500))
			for range 3 {
				r.get(t.Context())
			}
			r.breaker("open")
		})
	}
}

// Of two reloads at once one is the last, in everything.
func TestConcurrentReconfigures(t *testing.T) {
	var base roundTripper = func(req *http.Request) (*http.Response, error) { return answer(req, 200, hooked{}), nil }
	c, err := resilient.NewRegistry().NewClient("sber", resilient.Config{}, resilient.WithBase(&base), resilient.WithLogger(discard))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for round := range 2000 {
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				if err := c.Reconfigure(permits(1 + round%5 + i)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if s := c.State(); s.Bulkhead.MaxConcurrent != s.Config.Bulkhead.MaxConcurrent {
			t.Fatalf("%d: %d permits, want %d", round, s.Bulkhead.MaxConcurrent, s.Config.Bulkhead.MaxConcurrent)
		}
	}
}

// Reconfigure may be called by anybody at once, the breaker's hook included; the last one to return is in force, in everything.
func TestReconfigureFromEverywhere(t *testing.T) {
	var r *rig
	hook := resilient.OnStateChange(func(tr resilient.Transition) {
		if tr.To == "open" {
			r.change(func(cfg *resilient.Config) { cfg.Breaker.OpenFor = 5 * time.Second })
			if n := r.State().Breaker.State; n != "open" {
				r.Error(n)
			}
		}
	})
	inBoth(t, setting{cfg: trips(1, permits(2)), opts: []resilient.Option{hook}}, func(rr *rig) {
		r = rr
		r.trip()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if err := r.Reconfigure(permits(3 + i)); err != nil {
					r.Error(err)
				}
			})
		}
		all.Wait()
		s := r.State()
		if s.Bulkhead.MaxConcurrent != s.Config.Bulkhead.MaxConcurrent || s.Config.MaxConnsPerHost != s.Bulkhead.MaxConcurrent+2 {
			r.Errorf("%+v, %+v", s.Bulkhead, s.Config)
		}
		time.Sleep(30*time.Second + 1)
		for range 3 {
			r.works()
		}
	})
}
