package resilient_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// OBS-1: metrics of the semaphore, the breaker and the requests, there from construction, with no label that grows.
func TestRule_OBS1(t *testing.T) {
	inBoth(t, setting{cfg: trips(4, permits(2))}, func(r *rig) {
		for _, name := range []string{"semaphore_rejections_total full", "semaphore_rejections_total waited", "semaphore_waiting", "breaker_state open",
			"breaker_transitions_total closed open", "breaker_rejections_total", "requests_total timeout", "executions_total refused_open"} {
			if v, ok := r.metrics()[name]; !ok || v != 0 {
				r.Errorf("%s is %v before the first request, there: %t", name, v, ok)
			}
		}
		series := len(r.metrics())
		has := func(want map[string]float64) {
			r.Helper()
			m := r.metrics()
			for name, v := range want {
				if m[name] != v {
					r.Errorf("%s is %v, want %v", name, m[name], v)
				}
			}
		}
		r.server.Default(testserver.HangBeforeHeaders())
		for range 2 {
			go r.RoundTrip(r.to(r.Context(), "/a/path/of/its/own"))
		}
		synctest.Wait()
		go r.get(r.Context())
		synctest.Wait()
		has(map[string]float64{"semaphore_active": 2, "semaphore_waiting": 1, "semaphore_max_concurrent": 2, "requests_in_flight": 3, "breaker_state closed": 1})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		r.trip()
		r.get(r.Context())
		has(map[string]float64{"semaphore_active": 0, "semaphore_rejections_total waited": 1, "timeouts_total read": 2, "requests_total timeout": 2,
			"requests_total refused_full": 1, "requests_total error_status": 2, "breaker_state open": 1, "breaker_state closed": 0,
			"breaker_transitions_total closed open": 1, "breaker_rejections_total": 29, "requests_total refused_open": 29})
		if n := len(r.metrics()); n != series {
			r.Errorf("%d series have become %d", series, n)
		}
	})
}

// OBS-2: what a span is to have as attributes reaches it: the caller's span is in the context at the transport, around which and
// below which a tracer may stand, and the name, the state and what refused or ended a call are to be had as words.
func TestRule_OBS2(t *testing.T) {
	inOne(t, setting{cfg: permits(1)}, func(r *rig) {
		type spanKey struct{}
		type span map[string]string
		base := r.server.Transport()
		guarded := r.over(func(q *http.Request) (*http.Response, error) {
			if s, ok := q.Context().Value(spanKey{}).(span); ok {
				s["below"] = "the library"
			}
			return base.RoundTrip(q)
		})
		traced := func() span {
			s := span{}
			_, err := guarded.RoundTrip(r.request(context.WithValue(r.Context(), spanKey{}, s), "GET", nil))
			s["system"], s["breaker"] = r.Name(), r.State().Breaker.State
			if full, ok := errors.AsType[*resilient.FullError](err); ok {
				s["refused"] = string(full.Reason)
			}
			if timeout, ok := errors.AsType[*resilient.TimeoutError](err); ok {
				s["timeout"] = string(timeout.Phase)
			}
			return s
		}
		r.server.Default(testserver.HangBeforeHeaders())
		hung := make(chan span)
		go func() { hung <- traced() }()
		synctest.Wait()
		for _, row := range []struct{ got, want span }{
			{traced(), span{"system": "sber", "breaker": "closed", "refused": "waited"}},
			{<-hung, span{"system": "sber", "breaker": "closed", "timeout": "read", "below": "the library"}},
		} {
			if !maps.Equal(row.got, row.want) {
				r.Errorf("%v, want %v", row.got, row.want)
			}
		}
	})
}

// OBS-3: one WARN for each transition of a breaker, with where from, where to and why; nothing for a request.
func TestRule_OBS3(t *testing.T) {
	var log bytes.Buffer
	logger := resilient.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	inOne(t, setting{cfg: trips(2, resilient.Config{}), opts: []resilient.Option{logger}}, func(r *rig) {
		for range 100 {
			r.get(r.Context())
		}
		if log.Len() > 0 {
			r.Errorf("requests that succeed are logged: %s", &log)
		}
		r.halfOpen()
		r.server.Default(testserver.Status(500))
		r.get(r.Context())
		time.Sleep(30*time.Second + 1)
		r.works()
		r.breaker("closed")
		var got []string
		for line := range strings.Lines(log.String()) {
			_, line, _ = strings.Cut(line, " ") // without the time
			got = append(got, strings.TrimSpace(line))
		}
		want := []string{
			`level=WARN msg="circuit breaker open" system=sber prev_state=closed new_state=open reason=consecutive_failures failure_rate=0.0196078431372549`,
			`level=WARN msg="circuit breaker half_open" system=sber prev_state=open new_state=half_open`,
			`level=WARN msg="circuit breaker open" system=sber prev_state=half_open new_state=open failed_probe=true`,
			`level=WARN msg="circuit breaker half_open" system=sber prev_state=open new_state=half_open`,
			`level=WARN msg="circuit breaker closed" system=sber prev_state=half_open new_state=closed`,
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			r.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}
