package resilient_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
)

// Of many who make a client of one name at once, one gets it, and the others hear of it.
func TestCase_R01(t *testing.T) {
	for range 20 {
		reg := resilient.NewRegistry(resilient.WithRegisterer(prometheus.NewRegistry()))
		start := make(chan struct{})
		var made, refused atomic.Int32
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				<-start
				cfg := resilient.Config{MaxConnsPerHost: 5 + i%3}
				if _, err := reg.NewClient([]string{"pay-gw", "pay_gw"}[i%2], cfg); err == nil {
					made.Add(1)
				} else if errors.Is(err, resilient.ErrDuplicate) {
					refused.Add(1)
				} else {
					t.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
		if made.Load() != 1 || refused.Load() != 63 || len(reg.States()) != 1 {
			t.Errorf("%d made, %d refused, %d registered", made.Load(), refused.Load(), len(reg.States()))
		}
		reg.Shutdown(t.Context())
	}
}

// A client that is closed while a permit is out keeps its name and its series until that is back, and those who wait hear of it.
func TestCase_R02(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prom := prometheus.NewRegistry()
		reg := resilient.NewRegistry(resilient.WithRegisterer(prom))
		release := make(chan struct{})
		var stubborn roundTripper = func(*http.Request) (*http.Response, error) { <-release; return nil, errBoom }
		old, err := reg.NewClient("sber", permits(1), resilient.WithBase(&stubborn))
		if err != nil {
			t.Fatal(err)
		}
		holder, waiter := make(chan error, 1), make(chan error, 1)
		go func() { _, err := old.RoundTrip(mustRequest(t)); holder <- err }()
		synctest.Wait()
		go func() { _, err := old.RoundTrip(mustRequest(t)); waiter <- err }()
		synctest.Wait()
		old.Close()
		if err := <-waiter; !errors.Is(err, resilient.ErrClosed) {
			t.Errorf("the one who waited: %v", err)
		}
		if _, err := reg.NewClient("sber", permits(1)); !errors.Is(err, resilient.ErrDuplicate) {
			t.Errorf("the name is free: %v", err)
		}
		if families, err := prom.Gather(); len(families) == 0 || err != nil {
			t.Errorf("its series have gone with a permit out: %v", err)
		}
		close(release)
		<-holder
		synctest.Wait()
		if _, err := reg.Client("sber"); !errors.Is(err, resilient.ErrNotFound) {
			t.Error(err)
		}
		var base roundTripper = func(req *http.Request) (*http.Response, error) { return answer(req, 200, hooked{}), nil }
		c, err := reg.NewClient("sber", permits(1), resilient.WithBase(&base))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.RoundTrip(mustRequest(t))
		if err != nil {
			t.Fatal(err)
		}
		old.Close()
		if _, err := old.RoundTrip(mustRequest(t)); !errors.Is(err, resilient.ErrClosed) || c.State().Bulkhead.Active != 1 {
			t.Errorf("%v, %+v", err, c.State())
		}
		resp.Body.Close()
		c.Close()
	})
}

// Who waits for a permit is refused, as by a closed client, whether that is shut down or closed.
func TestCase_R02_Queue(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"Shutdown": func(r *rig) { r.Shutdown(r.Context()) },
		"Close":    func(r *rig) { r.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{cfg: permits(1), server: testserver.Options{Handler: testserver.After(50*time.Millisecond, testserver.OK("ok"))}}, func(r *rig) {
				go r.get(r.Context())
				synctest.Wait()
				waiter := make(chan error, 1)
				go func() { _, err := r.get(r.Context()); waiter <- err }()
				synctest.Wait()
				end(r)
				err := <-waiter
				synctest.Wait()
				r.is(err, resilient.ErrClosed, resilient.ErrUnavailable)
				if code, _, ok := resilient.StatusCode(err); !resilient.NotSent(err) || code != 503 || !ok {
					r.Errorf("%v: NotSent %v, StatusCode %d", err, resilient.NotSent(err), code)
				}
			})
		})
	}
}

// What a number of permits may be: an error, or one meaning, and never a hang or no limit at all.
func TestCase_R07(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  resilient.Config
		want int // permits; 0 = refused
	}{
		{"sber", resilient.Config{}, 16},
		{"sber", resilient.Config{MaxConnsPerHost: 1}, 1},
		{"sber", resilient.Config{MaxConnsPerHost: 2}, 1},
		{"sber", resilient.Config{Bulkhead: config.Bulkhead{MaxConcurrent: 19}}, 19},
		{"sber", resilient.Config{Bulkhead: config.Bulkhead{MaxConcurrent: 20}}, 0},
		{"sber", resilient.Config{Bulkhead: config.Bulkhead{MaxConcurrent: -1}}, 0},
		{"sber", resilient.Config{Bulkhead: config.Bulkhead{MaxConcurrent: math.MinInt}}, 0},
		{"sber", resilient.Config{MaxConnsPerHost: -1}, 0},
		{"sber", resilient.Config{Bulkhead: config.Bulkhead{MaxWaiting: -2}}, 0},
		{"sber", resilient.Config{Bulkhead: config.Bulkhead{AcquireTimeout: -2}}, 0},
		{"", resilient.Config{}, 0},
		{"default", resilient.Config{}, 0},
		{"Sber", resilient.Config{}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var base roundTripper = func(req *http.Request) (*http.Response, error) { return answer(req, 200, hooked{}), nil }
			client, err := resilient.NewRegistry().NewClient(c.name, c.cfg, resilient.WithBase(&base))
			if (err == nil) != (c.want > 0) {
				t.Errorf("%q, %+v: %v", c.name, c.cfg, err)
			}
			if err != nil {
				return
			}
			var bodies []io.Closer
			for {
				resp, err := client.RoundTrip(mustRequest(t))
				if err != nil {
					break
				}
				bodies = append(bodies, resp.Body)
				if len(bodies) > c.want {
					t.Fatalf("%+v: more than %d", c.cfg, c.want)
				}
			}
			if len(bodies) != c.want {
				t.Errorf("%+v: %d permits, want %d", c.cfg, len(bodies), c.want)
			}
			for _, b := range bodies {
				b.Close()
			}
			client.Close()
		})
	}
}

// States are copies, and right again when all is quiet.
func TestCase_R09(t *testing.T) {
	cfg := trips(1<<20, permits(2))
	cfg.Bulkhead.MaxWaiting, cfg.Bulkhead.AcquireTimeout = 8, time.Millisecond // so that there are refusals, at once and after a wait
	inBoth(t, setting{cfg: cfg, server: testserver.Options{Handler: testserver.After(time.Millisecond, testserver.OK("ok"))}}, func(r *rig) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 20 {
					switch i % 4 {
					case 0:
						for _, s := range r.reg.States() {
							if s.Bulkhead.Active > s.Bulkhead.MaxConcurrent || s.InFlight < s.Bulkhead.Active {
								r.Errorf("%+v", s)
							}
						}
						states := r.reg.States()
						states[0].Name, states[0].Bulkhead.Active = "changed", 99
						time.Sleep(time.Millisecond)
					case 1:
						c, err := r.reg.NewClient([]string{"one", "five"}[i/4], resilient.Config{})
						if err != nil {
							r.Error(err)
							return
						}
						time.Sleep(time.Millisecond)
						c.Close()
					default:
						for range 3 {
							go r.get(r.Context())
						}
						ctx, cancel := context.WithTimeout(r.Context(), 500*time.Microsecond)
						r.get(ctx)
						cancel()
					}
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		if m := r.metrics(); m["requests_total cancelled"] == 0 || m["semaphore_rejections_total full"] == 0 || m["semaphore_rejections_total waited"] == 0 {
			r.Errorf("nobody was refused, or left the queue: %v", m)
		}
		if s := r.reg.States(); len(s) != 1 || s[0].Name != "sber" || s[0].Bulkhead.Active != 0 || s[0].Bulkhead.Waiting != 0 || s[0].InFlight != 0 {
			r.Errorf("%+v", s)
		}
	})
}
