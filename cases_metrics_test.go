package resilient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// counted runs f and returns which of the outcomes, and how many of the durations, it has added.
func (r *rig) counted(f func()) string {
	r.Helper()
	before := r.metrics()
	f()
	var added []string
	for name, v := range r.metrics() {
		outcome, ok := strings.CutPrefix(name, "requests_total ")
		duration := "request_duration_seconds " + outcome
		if n := v - before[name]; ok && n != 0 {
			added = append(added, fmt.Sprintf("%s %v", outcome, n))
			if d := r.metrics()[duration] - before[duration]; d != n {
				r.Errorf("%s: %v ended, %v durations", outcome, n, d)
			}
		}
	}
	return strings.Join(added, ", ")
}

// Every kind of end is seen, once, by its own name.
func TestCase_M03(t *testing.T) {
	inBoth(t, setting{cfg: trips(4, permits(1))}, func(r *rig) {
		read := func(ctx context.Context, h http.Handler) {
			r.server.Next(h)
			r.get(ctx)
		}
		over := func(base roundTripper) {
			defer func() { _ = recover() }()
			r.over(base).RoundTrip(r.request(r.Context(), "GET", nil))
		}
		for outcome, cause := range map[string]func(){
			"success":         func() { read(r.Context(), testserver.OK("ok")) },
			"error_status":    func() { read(r.Context(), testserver.Status(500)) },
			"timeout":         func() { read(r.Context(), testserver.HangBeforeHeaders()) },
			"transport_error": func() { over(func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }) },
			"panic":           func() { over(func(*http.Request) (*http.Response, error) { panic(errBoom) }) },
			"invalid": func() {
				req := r.request(r.Context(), "GET", nil)
				req.URL = nil
				r.RoundTrip(req)
			},
			"abandoned": func() {
				r.server.Next(testserver.StallInBody(1))
				r.send(r.Context(), "/")
				time.Sleep(8 * time.Second)
			},
			"cancelled": func() {
				ctx, cancel := context.WithTimeout(r.Context(), time.Second)
				defer cancel()
				read(ctx, testserver.StallInBody(1))
			},
		} {
			if got := r.counted(cause); got != outcome+" 1" {
				r.Errorf("%s: %s", outcome, got)
			}
			r.works() // and so the breaker stays closed
		}
		r.server.Next(testserver.StallInBody(1))
		holder := r.send(r.Context(), "/")
		for _, c := range []struct {
			prepare func()
			want    string
		}{
			{func() {}, "refused_full 1"},
			{func() { holder.Body.Close(); r.trip() }, "refused_open 1"},
			{func() { r.Close() }, ""}, // its series have gone
		} {
			c.prepare()
			if got := r.counted(func() { r.get(r.Context()) }); got != c.want {
				r.Errorf("%q, want %q", got, c.want)
			}
		}
	})
}

// Errors without a response are transport errors and nothing worse.
func TestCase_M04(t *testing.T) {
	for name, err := range map[string]error{
		"refused":   &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED},
		"DNS":       &net.DNSError{Err: "no such host", Name: "sber.test", IsNotFound: true},
		"not a net": errBoom,
	} {
		dial := resilient.WithDialContext(func(context.Context, string, string) (net.Conn, error) { return nil, err })
		inBoth(t, setting{cfg: trips(2, permits(1)), opts: []resilient.Option{dial}}, func(r *rig) {
			for _, rt := range []http.RoundTripper{r.Client, r.over(func(*http.Request) (*http.Response, error) { return nil, err })} {
				_, got := rt.RoundTrip(r.request(r.Context(), "GET", nil))
				r.is(got, err)
			}
			r.outcomes(map[string]float64{"transport_error": 2})
			if n := r.metrics()["time_to_headers_seconds"]; n != 0 {
				r.Errorf("%s: %v times to headers that never came", name, n)
			}
			r.breaker("open")
		})
	}
	for name, c := range map[string]*tls.Config{"untrusted": {}, "wrong name": {InsecureSkipVerify: true, VerifyConnection: func(tls.ConnectionState) error { return errBoom }}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, setting{cfg: trips(1, permits(1)), opts: []resilient.Option{resilient.WithTLSConfig(c)},
				server: testserver.Options{Memory: true, Protocol: testserver.HTTPS}})
			if _, err := r.get(r.Context()); err == nil {
				r.Errorf("%s: no error", name)
			}
			r.outcomes(map[string]float64{"transport_error": 1})
			r.breaker("open")
		})
	}
}

// A duplex is the body of an upgrade.
type duplex struct{ hooked }

func (duplex) Write(p []byte) (int, error) { return len(p), nil }

// The gauges are what State says, after every kind of end.
func TestCase_M05(t *testing.T) {
	inBoth(t, setting{cfg: trips(1000, permits(1))}, func(r *rig) {
		agree := func(when string, want int) {
			synctest.Wait()
			m, s := r.metrics(), r.State()
			if int(m["requests_in_flight"]) != want || s.InFlight != want || int(m["semaphore_active"]) != want || s.Bulkhead.Active != want || m["semaphore_waiting"] != 0 {
				r.Errorf("%s: %v, %+v", when, m, s)
			}
		}
		func() {
			defer func() { _ = recover() }()
			r.over(func(*http.Request) (*http.Response, error) { panic(errBoom) }).RoundTrip(r.request(r.Context(), "GET", nil))
		}()
		agree("panic", 0)
		r.server.Default(testserver.StallInBody(1))
		r.send(r.Context(), "/")
		agree("a body that nobody closes", 1)
		for range 5 {
			r.get(r.Context())
		}
		agree("refusals", 1)
		time.Sleep(8 * time.Second)
		agree("its total has passed", 0)
		body := r.send(r.Context(), "/").Body
		body.Close()
		body.Close()
		agree("double Close", 0)
		for range 5 {
			ctx, cancel := context.WithCancel(r.Context())
			time.AfterFunc(time.Millisecond, cancel)
			r.get(ctx)
		}
		agree("cancels", 0)
		resp, err := r.over(func(req *http.Request) (*http.Response, error) {
			return answer(req, 101, duplex{}), nil
		}).RoundTrip(r.upgrade(r.Context()))
		if err != nil {
			r.Fatal(err)
		}
		time.Sleep(time.Hour)
		agree("101", 1)
		resp.Body.Close()
		agree("101 closed", 0)
	})
}

// The series of a closed client go, with its last exchange, and come back with the next client of that name, from 0.
func TestCase_M06(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		next := func() *resilient.Client {
			c, err := r.reg.NewClient("insurer", permits(1), resilient.WithDialContext(r.server.Dial), resilient.WithTLSConfig(tlsOf(r)))
			if err != nil {
				r.Fatal(err)
			}
			return c
		}
		series := func() (n int, requests float64) {
			families, err := r.prom.Gather()
			if err != nil {
				r.Fatal(err)
			}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					for _, l := range m.GetLabel() {
						if l.GetName() == "system" && l.GetValue() == "insurer" {
							n++
							if f.GetName() == "resilient_requests_started_total" {
								requests = m.GetCounter().GetValue()
							}
						}
					}
				}
			}
			return n, requests
		}
		for range 2 {
			c := next()
			resp, err := c.Do(r.request(r.Context(), "GET", nil))
			if err != nil {
				r.Fatal(err)
			}
			resp.Body.Close()
			if n, requests := series(); n == 0 || requests != 1 {
				r.Errorf("%d series, %v requests", n, requests)
			}
			c.Close()
			if n, _ := series(); n != 0 {
				r.Errorf("%d series of a closed client", n)
			}
		}
	})
}

// Scrapes go on while clients come and go, and their breakers open; nobody waits for anybody for ever.
func TestCase_M07(t *testing.T) {
	prom := prometheus.NewRegistry()
	reg := resilient.NewRegistry(resilient.WithRegisterer(prom))
	hook := resilient.OnStateChange(func(resilient.Transition) { prom.Gather() })
	done := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 15 {
				var base roundTripper = func(*http.Request) (*http.Response, error) { return nil, errBoom }
				c, err := reg.NewClient(fmt.Sprintf("system-%d", i), trips(2, permits(1)), resilient.WithBase(&base), resilient.WithLogger(discard), hook)
				if err != nil {
					t.Error(err)
					return
				}
				for range 3 {
					if _, err := c.RoundTrip(mustRequest(t)); !errors.Is(err, errBoom) && !errors.Is(err, resilient.ErrUnavailable) {
						t.Error(err)
					}
				}
				c.Close()
			}
		})
	}
	go func() { wg.Wait(); close(done) }()
	watchdog := time.After(30 * time.Second)
	for {
		if _, err := prom.Gather(); err != nil {
			t.Error(err)
		}
		select {
		case <-done:
			return
		case <-watchdog:
			t.Fatal("it hangs")
		default:
		}
	}
}

// Waiting, the headers and the whole are three durations.
func TestCase_M08(t *testing.T) {
	const ms = time.Millisecond
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		seconds := func(name string) (sum float64) {
			families, err := r.prom.Gather()
			if err != nil {
				r.Fatal(err)
			}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					if f.GetName() == "resilient_"+name {
						sum += m.GetHistogram().GetSampleSum()
					}
				}
			}
			return sum
		}
		r.works() // connected
		r.server.Next(testserver.StallInBody(1))
		holder := r.send(r.Context(), "/")
		before := []float64{seconds("semaphore_wait_seconds"), seconds("time_to_headers_seconds")}
		time.AfterFunc(50*ms, func() { holder.Body.Close() })
		r.server.Next(testserver.After(20*ms, testserver.Trickle(1, 180*ms, 1)))
		if _, err := r.get(r.Context()); err != nil {
			r.Fatal(err)
		}
		for i, name := range []string{"semaphore_wait_seconds", "time_to_headers_seconds"} {
			if got, want := seconds(name)-before[i], []float64{0.05, 0.02}[i]; math.Abs(got-want) > 1e-6 {
				r.Errorf("%s has grown by %v, want %v", name, got, want)
			}
		}
		if got := seconds("request_duration_seconds"); math.Abs(got-0.25-0.05) > 1e-6 { // and the holder's
			r.Errorf("request_duration_seconds is %v", got)
		}
	})
}

// An exchange that is as long as it may be, by Config or as a stream, has a bucket that tells how long it was.
func TestCase_M08_Long(t *testing.T) {
	cfg := bounds(time.Second, time.Minute, 5*time.Minute, permits(1))
	inBoth(t, setting{cfg: cfg, server: testserver.Options{Handler: testserver.Trickle(1, 50*time.Second, 5)}}, func(r *rig) {
		if _, err := r.get(r.Context()); err != nil {
			r.Fatal(err)
		}
		families, err := r.prom.Gather()
		if err != nil {
			r.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				buckets := m.GetHistogram().GetBucket()
				if n := len(buckets); n > 0 && buckets[n-1].GetCumulativeCount() != m.GetHistogram().GetSampleCount() {
					r.Errorf("%s: above %v", f.GetName(), buckets[n-1].GetUpperBound())
				}
			}
		}
	})
}
