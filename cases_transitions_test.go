package resilient_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// While the breaker is open nobody waits, not even for permits that hung calls hold.
func TestCase_B13(t *testing.T) {
	cfg := trips(2, permits(2))
	inBoth(t, setting{cfg: cfg}, func(r *rig) {
		// A failure whose total is lifted reports at its headers and keeps its permit.
		r.server.Default(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(500)
			testserver.StallInBody(1).ServeHTTP(w, q)
		}))
		stuck, cancel := context.WithCancel(resilient.WithBounds(r.Context(), resilient.Bounds{Total: resilient.Unbounded}))
		for range 2 {
			r.send(stuck, "/")
		}
		r.held(2)
		r.breaker("open")
		for range 2 {
			if d := took(func() {
				_, err := r.get(r.Context())
				r.is(err, resilient.ErrCircuitOpen, resilient.ErrUnavailable)
			}); d != 0 {
				r.Errorf("refused after %v", d)
			}
			time.Sleep(600 * time.Millisecond)
		}
		time.Sleep(30 * time.Second) // with the time for probes come, what is missing is a permit
		if d := took(func() {
			_, err := r.get(r.Context())
			r.is(err, resilient.ErrBulkheadFull, resilient.ErrUnavailable)
		}); d != 100*time.Millisecond {
			r.Errorf("refused after %v", d)
		}
		cancel()
		synctest.Wait()
		r.works()
		r.breaker("closed")
	})
}

// A hook may use all that the client has, a request and Close included; it and the metrics see each transition once, in order.
func TestCase_B14_B15(t *testing.T) {
	const cycle = "closed>open open>half_open half_open>open open>half_open half_open>closed"
	for _, name := range []string{"looks", "requests", "panics", "collects"} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			var seen []string
			var log bytes.Buffer
			hook := resilient.OnStateChange(func(tr resilient.Transition) {
				seen = append(seen, tr.From+">"+tr.To)
				switch name {
				case "looks":
					if a, b := r.State(), r.reg.States()[0]; a.Breaker.State != tr.To || b.Breaker.State != tr.To {
						r.Errorf("%+v and %+v in the hook for %s", a, b, tr.To)
					}
				case "requests":
					if _, err := r.get(r.Context()); err != nil && !errors.Is(err, resilient.ErrUnavailable) {
						r.Error(err)
					}
				case "collects":
					if m := r.metrics(); m["breaker_state "+tr.To] != 1 {
						r.Errorf("%v in the hook for %s", m, tr.To)
					}
				case "panics":
					panic(errBoom)
				}
			})
			logger := resilient.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
			inBoth(t, setting{cfg: trips(3, permits(3)), opts: []resilient.Option{hook, logger}}, func(rr *rig) {
				r, seen = rr, nil
				log.Reset()
				r.halfOpen()
				r.server.Next(testserver.Status(500))
				r.server.Default(testserver.Status(500))
				r.get(r.Context())
				time.Sleep(30*time.Second + 1)
				r.works()
				r.breaker("closed")
				if got := strings.Join(seen, " "); got != cycle && name != "requests" {
					r.Error(got)
				}
				if n := strings.Count(log.String(), "level=WARN"); n != len(seen) {
					r.Errorf("%d transitions, %d logged", len(seen), n)
				}
				counted := map[string]float64{}
				for _, t := range seen {
					counted["breaker_transitions_total "+strings.ReplaceAll(t, ">", " ")]++
				}
				for name, v := range r.metrics() {
					if strings.HasPrefix(name, "breaker_transitions_total ") && v != counted[name] {
						r.Errorf("%s is %v, and the hook saw %v", name, v, counted[name])
					}
				}
				for i := range seen[1:] {
					if _, to, _ := strings.Cut(seen[i], ">"); !strings.HasPrefix(seen[i+1], to+">") {
						r.Errorf("%s after %s", seen[i+1], seen[i])
					}
				}
			})
		})
	}
	t.Run("closes", func(t *testing.T) {
		var c *resilient.Client
		hook := resilient.OnStateChange(func(resilient.Transition) { c.Close() })
		inBoth(t, setting{cfg: trips(1, permits(1)), opts: []resilient.Option{hook}, server: testserver.Options{Handler: testserver.Status(500)}}, func(r *rig) {
			c = r.Client
			r.get(r.Context())
			synctest.Wait()
			if _, err := r.get(r.Context()); !errors.Is(err, resilient.ErrClosed) {
				r.Error(err)
			}
		})
	})
}

// A scrape that finds the time for probes come changes the state, once, with everybody else looking too.
func TestCase_B16(t *testing.T) {
	var r *rig
	transitions := 0
	hook := resilient.OnStateChange(func(resilient.Transition) { transitions++; r.metrics() })
	inBoth(t, setting{cfg: trips(3, permits(3)), opts: []resilient.Option{hook}}, func(rr *rig) {
		r, transitions = rr, 0
		r.trip()
		time.Sleep(30*time.Second + 1)
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				if i%3 == 0 {
					r.State()
				} else {
					r.metrics()
				}
			})
		}
		wg.Wait()
		if m := r.metrics(); m["breaker_state half_open"] != 1 || m["breaker_state open"] != 0 || transitions != 2 {
			r.Errorf("%v after %d transitions", m, transitions)
		}
		for i := range 20 {
			wg.Go(func() {
				if i%2 == 0 {
					r.get(r.Context())
				} else {
					r.metrics()
				}
			})
		}
		wg.Wait()
		if m := r.metrics(); m["breaker_state closed"] != 1 || m["breaker_state half_open"] != 0 || transitions != 3 {
			r.Errorf("%v after %d transitions", m, transitions)
		}
	})
}

// Old successes do not keep a breaker closed, nor do gaps between failures.
func TestCase_B17_B19(t *testing.T) {
	t.Run("ratio", func(t *testing.T) {
		cfg := permits(1)
		cfg.Breaker.ConsecutiveFailures = resilient.Off
		inOne(t, setting{cfg: cfg}, func(r *rig) {
			rt := r.over(func(req *http.Request) (*http.Response, error) { return answer(req, 204, http.NoBody), nil })
			for range 5000 {
				rt.RoundTrip(r.request(r.Context(), "GET", nil))
			}
			r.server.Default(testserver.Status(500))
			for range 20 {
				r.get(r.Context())
			}
			r.breaker("closed")
			time.Sleep(31 * time.Second)
			for i := range 10 {
				r.breaker("closed")
				if _, err := r.get(r.Context()); err != nil {
					r.Errorf("%d: %v", i, err)
				}
			}
			r.breaker("open")
		})
	})
	for _, c := range []struct {
		name  string
		every time.Duration
		calls string // f a failure, s a success, n a neutral one
		want  string
	}{
		{"over the buckets of a window", 120 * time.Millisecond, "fffff", "open"},
		{"each in a window of its own", time.Minute, "fffff", "open"},
		{"with neutral ones between", 120 * time.Millisecond, "fnfnfnfnf", "open"},
		{"one too few", 120 * time.Millisecond, "ffffnnnn", "closed"},
		{"with a success between", 120 * time.Millisecond, "ffffsffff", "closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := bounds(10*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond, trips(5, permits(1)))
			cfg.Breaker.Window = 300 * time.Millisecond
			inBoth(t, setting{cfg: cfg}, func(r *rig) {
				for _, call := range c.calls {
					time.Sleep(c.every)
					ctx, cancel := context.WithCancel(r.Context())
					switch call {
					case 'f':
						r.server.Next(testserver.Status(500))
					case 'n':
						r.server.Next(testserver.HangBeforeHeaders())
						time.AfterFunc(time.Millisecond, cancel)
					}
					r.get(ctx)
					cancel()
				}
				r.breaker(c.want)
			})
		})
	}
}
