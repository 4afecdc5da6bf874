package resilient_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// observing runs f with a client that observes only, over HTTP/1.1 and HTTP/2.
func observing(t *testing.T, cfg resilient.Config, f func(r *rig)) {
	t.Helper()
	inBoth(t, setting{cfg: cfg, opts: []resilient.Option{resilient.Observe()}}, f)
}

// would checks what would have been refused so far.
func (r *rig) would(full, open float64) {
	r.Helper()
	if m := r.metrics(); m["would_refuse_total full"] != full || m["would_refuse_total open"] != open {
		r.Errorf("would refuse %v and %v, want %v and %v", m["would_refuse_total full"], m["would_refuse_total open"], full, open)
	}
}

// A client that observes says so, loudly and once, and everywhere where one looks at it.
func TestObserveIsLoud(t *testing.T) {
	var log bytes.Buffer
	inOne(t, setting{opts: []resilient.Option{resilient.Observe(), textLog(&log)}}, func(r *rig) {
		want := `level=WARN msg="client observes only: its bulkhead and breaker refuse nothing" system=`
		if n := bytes.Count(log.Bytes(), []byte(want+"sber\n")); n != 1 || !r.State().Observing || !r.reg.States()[0].Observing {
			r.Errorf("%d times in %s; %+v", n, log.String(), r.State())
		}
		r.change(func(cfg *resilient.Config) { cfg.MaxConnsPerHost++ })
		if !r.State().Observing {
			r.Error("reconfigured, it observes no more")
		}
		log.Reset()
		if _, err := r.reg.NewClient("sber", resilient.Config{}, resilient.Observe(), textLog(&log)); err == nil || log.Len() != 0 {
			r.Errorf("%v; a client that was not made says %s", err, log.String())
		}
		c, err := r.reg.NewClient("insurer", resilient.Config{}, textLog(&log))
		if err != nil || log.Len() != 0 || c.State().Observing {
			r.Errorf("%v; one that does not observe says %s", err, log.String())
		}
		c.Close()
	})
}

// Beyond all permits and with the breaker open everything is sent, at once, and counted as what would have been refused alone.
func TestObserveRefusesNothing(t *testing.T) {
	observing(t, trips(3, permits(2)), func(r *rig) {
		r.server.Default(testserver.After(time.Second, testserver.OK("ok")))
		if d := took(r.mustSend(4, "/")); d != time.Second {
			r.Errorf("after %v", d)
		}
		r.would(2, 0)
		if n := r.server.Stats().MaxConcurrent; n != 4 {
			r.Errorf("%d at once", n)
		}
		r.server.Default(testserver.Status(500))
		for range 3 {
			r.get(r.Context())
		}
		r.breaker("open")
		for range 7 {
			r.works()
		}
		r.would(2, 7)
		r.breaker("open") // what would have been refused closes nothing
		m := r.metrics()
		for _, none := range []string{"semaphore_rejections_total full", "semaphore_rejections_total waited", "breaker_rejections_total",
			"requests_total refused_full", "requests_total refused_open", "executions_total refused_full", "executions_total refused_open"} {
			if v, ok := m[none]; v != 0 || !ok {
				r.Errorf("%s is %v", none, v)
			}
		}
		if s := r.State(); s.Bulkhead.Rejected != 0 || !s.Bulkhead.LastRejection.IsZero() {
			r.Errorf("%+v", s.Bulkhead)
		}
		r.outcomes(map[string]float64{"success": 11, "error_status": 3})
		time.Sleep(30*time.Second + 1)
		r.works()
		r.breaker("closed")
		r.would(2, 7)
	})
}

// Forced states are decisions like others.
func TestObserveForced(t *testing.T) {
	observing(t, trips(1, permits(1)), func(r *rig) {
		r.ForceOpen(0)
		r.works()
		r.server.Default(testserver.Status(500))
		r.get(r.Context())
		r.would(0, 2)
		r.ForceClosed(0)
		r.get(r.Context())
		r.Automatic()
		r.breaker("closed") // neither of them counts
		r.get(r.Context())
		r.breaker("open")
		r.ForceClosed(0)
		r.works()
		r.would(0, 2)
	})
}

// Those beyond the permits hold none and say nothing, however they end: what they say would be about a load that would not have been there.
func TestObserveKeepsGhostsOut(t *testing.T) {
	observing(t, trips(2, permits(1)), func(r *rig) {
		r.server.On("/hang", testserver.HangBeforeHeaders())
		r.server.On("/upgrade", testserver.Upgrade())
		r.server.On("/stall", testserver.StallInBody(1))
		hold, cancel := context.WithCancel(resilient.WithBounds(r.Context(), resilient.Bounds{Total: resilient.Unbounded, Read: resilient.Unbounded}))
		go r.RoundTrip(r.to(hold, "/hang"))
		synctest.Wait()
		r.server.Default(testserver.Status(500))
		ghosts := 0
		ghost := func(f func()) {
			r.Helper()
			f()
			synctest.Wait()
			ghosts++
			r.would(float64(ghosts), 0)
			r.waiting(1, 0)
			if s := r.State(); s.Breaker.State != "closed" || len(s.Transitions) != 0 {
				r.Errorf("%d: %+v", ghosts, s.Breaker)
			}
		}
		failing := r.over(func(*http.Request) (*http.Response, error) { return nil, errBoom })
		panics := r.over(func(*http.Request) (*http.Response, error) { panic(errBoom) })
		exits := r.over(func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil })
		for range 3 {
			ghost(func() { r.get(r.Context()) })
			ghost(func() { r.get(resilient.WithBounds(r.Context(), resilient.Bounds{Total: resilient.Unbounded})) })
			ghost(func() { failing.RoundTrip(r.request(r.Context(), "GET", nil)) })
			ghost(func() {
				defer func() { _ = recover() }()
				panics.RoundTrip(r.request(r.Context(), "GET", nil))
			})
			ghost(func() { go exits.RoundTrip(r.request(r.Context(), "GET", nil)) })
			ghost(func() {
				_, _ = resilient.Execute(r.Context(), r.Client, func(context.Context) (int, error) { return 0, errBoom })
			})
			ghost(func() { _, err := r.RoundTrip(r.to(r.Context(), "/hang")); r.timeout(err, "read") })
			ghost(func() { r.send(r.Context(), "/stall"); time.Sleep(8 * time.Second) })
		}
		if r.State().Config.Protocol == resilient.HTTP1 {
			var resp *http.Response
			ghost(func() {
				req := r.upgrade(r.Context())
				req.URL.Path = "/upgrade"
				resp, _ = r.RoundTrip(req)
			})
			if s := r.State(); s.InFlight != 2 {
				r.Errorf("%d in flight", s.InFlight)
			}
			resp.Body.Close()
		}
		cancel()
		synctest.Wait()
		r.held(0)
		r.get(r.Context())
		r.breaker("closed") // the first failure that counts
		r.get(r.Context())
		r.breaker("open")
	})
}

// What a ghost hears is no sign of life for those who were admitted: the system has been silent to them, which is a failure when
// they give up.
func TestObserveHearsNoGhosts(t *testing.T) {
	observing(t, trips(1, permits(1)), func(r *rig) {
		r.server.On("/hang", testserver.HangBeforeHeaders())
		ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); r.RoundTrip(r.to(ctx, "/hang")) }()
		for range 5 {
			time.Sleep(500 * time.Millisecond)
			r.works()
		}
		<-done
		r.would(5, 0)
		r.breaker("open")
	})
}

// Streams and upgraded connections hold their permits to their end, as where they are refused.
func TestObserveStreams(t *testing.T) {
	observing(t, permits(2), func(r *rig) {
		r.server.On("/events", testserver.Trickle(1, time.Second, -1))
		stream := resilient.WithBounds(r.Context(), resilient.Bounds{Total: resilient.Unbounded, Read: resilient.Unbounded})
		bodies := []io.Closer{r.send(stream, "/events").Body}
		if r.State().Config.Protocol == resilient.HTTP1 {
			r.server.Default(testserver.Upgrade())
			resp, err := r.RoundTrip(r.upgrade(r.Context()))
			if _, ok := resp.Body.(io.Writer); err != nil || !ok {
				r.Fatalf("%v, %T", err, resp.Body)
			}
			bodies = append(bodies, resp.Body)
		} else {
			bodies = append(bodies, r.send(stream, "/events").Body)
		}
		time.Sleep(time.Minute)
		r.held(2)
		r.works()
		r.would(1, 0)
		for _, b := range bodies {
			b.Close()
		}
		synctest.Wait()
		r.held(0)
		r.works()
		r.would(1, 0)
	})
}

// An execution is one decision; what is called within one that would have been refused would not have been called.
func TestObserveExecute(t *testing.T) {
	cfg := trips(2, permits(2))
	cfg.MaxConnsPerHost = 20
	observing(t, cfg, func(r *rig) {
		r.server.On("/hang", testserver.HangBeforeHeaders())
		r.server.Default(testserver.Status(500))
		hold, cancel := context.WithCancel(r.Context())
		ghost := func() {
			runs := 0
			_, err := resilient.Execute(r.Context(), r.Client, func(ctx context.Context) (int, error) {
				runs++
				for range 2 { // at a time: the second has not the execution's permit
					go r.RoundTrip(r.to(ctx, "/hang"))
					synctest.Wait()
				}
				r.get(ctx)
				_, err := resilient.Execute(ctx, r.Client, func(ctx context.Context) (int, error) {
					runs++
					r.get(ctx)
					return 0, nil
				})
				return 0, err
			})
			if err != nil || runs != 2 {
				r.Errorf("%v, %d runs", err, runs)
			}
		}
		for range 2 {
			go r.RoundTrip(r.to(hold, "/hang"))
			synctest.Wait()
		}
		ghost()
		r.would(1, 0)
		cancel()
		synctest.Wait()
		r.waiting(0, 0) // the two that hang within it have none
		r.breaker("closed")
		_, _ = resilient.Execute(r.Context(), r.Client, func(ctx context.Context) (int, error) {
			r.waiting(1, 0)
			r.get(ctx)
			return 0, nil
		})
		r.get(r.Context())
		r.breaker("open")
		r.would(1, 0)
		ghost()
		r.would(1, 1)
		time.Sleep(6 * time.Second)
		m := r.metrics()
		if m["executions_total success"] != 5 {
			r.Errorf("%v executions", m["executions_total success"])
		}
	})
}

// A closed client refuses, whatever it would have said before, and waits for what would have been refused.
func TestObserveClosed(t *testing.T) {
	observing(t, trips(1, permits(1)), func(r *rig) {
		r.server.Default(testserver.After(time.Second, testserver.OK("ok")))
		refused := func(ctx context.Context) {
			r.Helper()
			_, err := r.get(ctx)
			r.is(err, resilient.ErrClosed, resilient.ErrUnavailable)
			_, err = resilient.Execute(ctx, r.Client, func(context.Context) (int, error) { return 0, nil })
			r.is(err, resilient.ErrClosed, resilient.ErrUnavailable)
		}
		end := r.mustSend(2, "/")
		_, err := resilient.Execute(r.Context(), r.Client, func(ctx context.Context) (int, error) {
			go r.Shutdown(context.Background())
			synctest.Wait()
			first := make(chan error)
			go func() { _, err := r.get(ctx); first <- err }()
			synctest.Wait()
			refused(ctx) // while the first has what the execution was admitted with
			r.ForceOpen(0)
			refused(ctx)
			refused(r.Context())
			r.would(2, 0)
			if names := r.reg.Names(); len(names) != 1 {
				r.Errorf("%v, with exchanges under way", names)
			}
			return 0, <-first
		})
		if err != nil {
			r.Error(err)
		}
		end()
		synctest.Wait()
		refused(r.Context())
		if names := r.reg.Names(); len(names) != 0 {
			r.Errorf("%v", names)
		}
	})
}

// More permits are more that would be let in.
func TestObserveReconfigure(t *testing.T) {
	observing(t, permits(1), func(r *rig) {
		r.server.Default(testserver.After(time.Second, testserver.OK("ok")))
		r.mustSend(4, "/")()
		r.would(3, 0)
		r.change(func(cfg *resilient.Config) { cfg.MaxConnsPerHost, cfg.Bulkhead.MaxConcurrent = 10, 3 })
		r.mustSend(4, "/")()
		r.would(4, 0)
	})
}
