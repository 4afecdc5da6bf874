package otelresilient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A call has a span, and its attempt one of its own, which the system hears of; both last to the end of the body.
func TestSpans(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		var heard string
		r.server.Default(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			heard = req.Header.Get("Traceparent")
			io.WriteString(w, "part")
			w.(http.Flusher).Flush()
			time.Sleep(3 * time.Second)
			io.WriteString(w, "rest")
		}))
		ctx, parent := r.tracers.Tracer("test").Start(r.Context(), "handler")
		req := r.request(ctx, "GET")
		resp, err := r.Do(req)
		if err != nil {
			r.Fatal(err)
		}
		if len(r.took()) != 0 {
			r.Error("a span ended before the body")
		}
		r.wants(1, "http.client.active_requests", "http.request.method=GET", "external.system=sber")
		r.wants(1, "http.client.open_connections", "http.connection.state=active", "external.system=sber")
		r.wants(0, "http.client.request.duration")
		if err := read(resp, nil); err != nil {
			r.Error(err)
		}
		parent.End()
		all := r.took()
		call, attempt := r.one(all, "sber GET"), r.one(all, "GET")
		if call.Parent.SpanID() != parent.SpanContext().SpanID() || attempt.Parent.SpanID() != call.SpanContext.SpanID() {
			r.Error("a span has another parent")
		}
		if call.SpanKind != trace.SpanKindInternal || attempt.SpanKind != trace.SpanKindClient {
			r.Errorf("kinds %v and %v", call.SpanKind, attempt.SpanKind)
		}
		if !strings.Contains(heard, attempt.SpanContext.SpanID().String()) || req.Header.Get("Traceparent") != "" || resp.Request != req {
			r.Errorf("the system heard of %q; the caller's request has %v", heard, req.Header)
		}
		for _, s := range []span{call, attempt} {
			if d := s.EndTime.Sub(s.StartTime); d < 3*time.Second {
				r.Errorf("%s lasts %v", s.Name, d)
			}
			r.has(s, map[string]any{"external.system": "sber", "circuit_breaker.state": "closed", "http.request.method": "GET",
				"http.response.status_code": int64(200), "error.type": nil})
			if s.Status.Code != codes.Unset {
				r.Errorf("%s: %v", s.Name, s.Status)
			}
		}
		scheme, version, port := "http", "1.1", int64(80)
		if resp.ProtoMajor == 2 {
			scheme, version, port = "https", "2", 443
		}
		r.has(attempt, map[string]any{"url.full": r.server.URL() + "/", "server.address": req.URL.Hostname(), "server.port": port,
			"network.protocol.version": version, "http.request.resend_count": nil})
		where := []string{"server.address=" + req.URL.Hostname(), fmt.Sprintf("server.port=%d", port), "url.scheme=" + scheme, "http.request.method=GET"}
		r.wants(1, "http.client.request.duration", append(where, "http.response.status_code=200", "network.protocol.version="+version)...)
		r.wants(0, "http.client.active_requests", where...)
		r.wants(1, "resilient.client.call.duration", "external.system=sber")
		r.wants(0, "http.client.open_connections", "http.connection.state=active")
		r.wants(1, "http.client.open_connections", "http.connection.state=idle")
		key := fmt.Sprintf("http.client.open_connections external.system=sber http.connection.state=idle server.address=%s server.port=%d", req.URL.Hostname(), port)
		if r.metrics()[key] != 1 {
			r.Errorf("no %s in %v", key, r.metrics())
		}
		r.CloseIdleConnections()
		time.Sleep(2 * time.Second)
		r.wants(0, "http.client.open_connections", "http.connection.state=idle")
		r.wants(1, "http.client.connection.duration", "external.system=sber")
	})
}

// However an exchange ends, its spans end with it, and say how.
func TestEnds(t *testing.T) {
	cancelling := func(r *rig, d time.Duration) context.Context {
		ctx, cancel := context.WithCancel(r.Context())
		time.AfterFunc(d, cancel)
		return ctx
	}
	get := func(r *rig) { _ = r.get(r.Context()) }
	for name, row := range map[string]struct {
		server http.Handler
		do     func(r *rig)
		after  time.Duration
		word   string // error.type of both spans
		status any
		phase  any
	}{
		"read to its end":       {server: testserver.OK("ok"), do: get, status: int64(200)},
		"no body":               {server: testserver.Status(204), do: func(r *rig) { r.Do(r.request(r.Context(), "GET")) }, status: int64(204)},
		"a HEAD":                {server: testserver.OK("ok"), do: func(r *rig) { resp, _ := r.Do(r.request(r.Context(), "HEAD")); resp.Body.Close() }, status: int64(200)},
		"a failure status":      {server: testserver.Status(502), do: get, word: "502", status: int64(502)},
		"a status of its own":   {server: testserver.Status(777), do: get, word: "_OTHER", status: int64(777)},
		"silent":                {server: testserver.HangBeforeHeaders(), do: get, after: 5 * time.Second, word: "timeout", phase: "read"},
		"silent in the body":    {server: testserver.StallInBody(1), do: get, after: 5 * time.Second, word: "timeout", status: int64(200), phase: "read"},
		"a body too long":       {server: testserver.Trickle(1, time.Second, -1), do: get, after: 7 * time.Second, word: "timeout", status: int64(200), phase: "total"},
		"cancelled":             {server: testserver.HangBeforeHeaders(), do: func(r *rig) { r.get(cancelling(r, time.Second)) }, after: time.Second, word: "cancelled"},
		"cancelled in the body": {server: testserver.StallInBody(1), do: func(r *rig) { r.get(cancelling(r, time.Second)) }, after: time.Second, word: "cancelled", status: int64(200)},
		"closed early": {server: testserver.StallInBody(1), do: func(r *rig) {
			resp, _ := r.Do(r.request(r.Context(), "GET"))
			resp.Body.Close()
		}, status: int64(200)},
		"forgotten": {server: testserver.StallInBody(1), do: func(r *rig) {
			r.Do(r.request(r.Context(), "GET"))
			time.Sleep(8 * time.Second)
		}, after: 7 * time.Second, word: "timeout", status: int64(200)},
		"forgotten, and cancelled": {server: testserver.StallInBody(1), do: func(r *rig) {
			r.Do(r.request(cancelling(r, time.Second), "GET"))
			time.Sleep(8 * time.Second)
		}, after: time.Second, word: "cancelled", status: int64(200)},
		"forgotten, and the client closed": {server: testserver.StallInBody(1), do: func(r *rig) {
			r.Do(r.request(r.Context(), "GET"))
			r.Close()
		}, word: "cancelled", status: int64(200)},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{}, func(r *rig) {
				r.server.Default(row.server)
				row.do(r)
				synctest.Wait()
				all := r.took()
				if len(all) != 2 {
					r.Fatalf("%d spans have ended, want 2", len(all))
				}
				for _, s := range all {
					var word any
					if row.word != "" {
						word = row.word
					}
					r.has(s, map[string]any{"error.type": word, "http.response.status_code": row.status})
					if failed := s.Status.Code == codes.Error; failed != (row.word != "") {
						r.Errorf("%s: status %v", s.Name, s.Status)
					}
					if d := s.EndTime.Sub(s.StartTime); d < row.after || d > row.after+time.Second {
						r.Errorf("%s lasted %v, want %v", s.Name, d, row.after)
					}
					if s.SpanKind == trace.SpanKindInternal {
						r.has(s, map[string]any{"resilient.timeout.phase": row.phase})
					}
				}
				r.wants(1, "http.client.request.duration")
				r.wants(1, "resilient.client.call.duration")
				if row.word != "" {
					r.wants(1, "http.client.request.duration", "error.type="+row.word)
					r.wants(1, "resilient.client.call.duration", "error.type="+row.word)
				}
			})
		})
	}
}

// Nothing is sent of what is refused: there is no span of an attempt, and the one of the call says why.
func TestRefusals(t *testing.T) {
	busy := func(r *rig, n int) func() {
		r.server.Default(testserver.HangBeforeHeaders())
		done := make(chan struct{})
		for range n {
			go func() { r.get(r.Context()); done <- struct{}{} }()
			synctest.Wait()
		}
		return func() {
			r.server.Release()
			for range n {
				<-done
			}
			synctest.Wait()
		}
	}
	one := resilient.BulkheadConfig{MaxConcurrent: 1, MaxWaiting: resilient.NoQueue}
	for reason, row := range map[string]struct {
		cfg   resilient.Config
		begin func(r *rig) (end func())
		state string
		after any
	}{
		"full":   {resilient.Config{Bulkhead: one}, func(r *rig) func() { return busy(r, 1) }, "closed", nil},
		"waited": {resilient.Config{Bulkhead: resilient.BulkheadConfig{MaxConcurrent: 1}}, func(r *rig) func() { return busy(r, 1) }, "closed", nil},
		"open": {resilient.Config{Breaker: resilient.BreakerConfig{ConsecutiveFailures: 1}}, func(r *rig) func() {
			r.server.Next(testserver.Status(500))
			r.get(r.Context())
			return func() {}
		}, "open", 30.0},
		"open by hand": {resilient.Config{}, func(r *rig) func() { r.ForceOpen(time.Minute); return r.Automatic }, "forced_open", 60.0},
		"open, probing": {resilient.Config{Breaker: resilient.BreakerConfig{ConsecutiveFailures: 1, HalfOpenProbes: 1}}, func(r *rig) func() {
			r.server.Next(testserver.Status(500))
			r.get(r.Context())
			time.Sleep(31 * time.Second)
			return busy(r, 1)
		}, "half_open", nil},
		"closed": {resilient.Config{}, func(r *rig) func() { r.Close(); return func() {} }, "closed", nil},
		"late":   {resilient.Config{Retry: resilient.RetryConfig{DeadlineFloor: 10 * time.Second}}, func(*rig) func() { return func() {} }, "closed", nil},
		"paused": {resilient.Config{Retry: resilient.RetryConfig{Gate: true}}, func(r *rig) func() {
			r.server.Next(testserver.Status(503, "Retry-After", "20"))
			r.get(r.Context())
			return func() {}
		}, "closed", 20.0},
	} {
		t.Run(reason, func(t *testing.T) {
			reason, _, _ := strings.Cut(reason, ",")
			reason, _, _ = strings.Cut(reason, " ")
			inBoth(t, setting{cfg: row.cfg}, func(r *rig) {
				end := row.begin(r)
				r.took()
				ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
				defer cancel()
				if err := r.get(ctx); !errors.Is(err, resilient.ErrUnavailable) {
					r.Fatal(err)
				}
				all := r.took()
				if len(all) != 1 {
					r.Fatalf("%d spans, want 1", len(all))
				}
				call := r.one(all, "sber GET")
				r.has(call, map[string]any{"error.type": "refused_" + reason, "circuit_breaker.state": row.state, "http.response.status_code": nil})
				if call.Status.Code != codes.Error || call.Status.Description == "" {
					r.Errorf("status %v", call.Status)
				}
				if got := call.events("resilient.reason"); !slices.Equal(got, []string{"resilient.refused " + reason}) {
					r.Errorf("events %q", got)
				} else if got := values(call.Events[0].Attributes); !about(got["resilient.retry_after"], row.after) || got["external.system"] != "sber" {
					r.Errorf("the event says %v, want after %v", got, row.after)
				}
				r.wants(1, "resilient.client.refusals", "resilient.reason="+reason, "external.system=sber")
				r.wants(1, "resilient.client.refusals")
				end()
			})
		})
	}
}

// about allows for the random part of a pause.
func about(got, want any) bool {
	g, isNumber := got.(float64)
	w, _ := want.(float64)
	return got == want || isNumber && g > w && g <= w+2
}

// A transition is told of in the span of the call that made it, and counted.
func TestTransitions(t *testing.T) {
	cfg := resilient.Config{Breaker: resilient.BreakerConfig{ConsecutiveFailures: 2, HalfOpenProbes: 1}}
	inBoth(t, setting{cfg: cfg}, func(r *rig) {
		r.server.On("/slow", testserver.After(4*time.Second, testserver.OK("ok")))
		slow := make(chan error)
		go func() {
			req := r.request(r.Context(), "GET")
			req.URL.Path = "/slow"
			slow <- read(r.Do(req))
		}()
		synctest.Wait()
		r.server.Next(testserver.Status(500), testserver.Status(500))
		want := func(state string, events ...string) {
			r.Helper()
			call := r.one(r.took(), "sber GET")
			if got := call.events("resilient.breaker.from", "resilient.breaker.to", "resilient.reason"); !slices.Equal(got, events) {
				r.Errorf("events %q, want %q", got, events)
			}
			r.has(call, map[string]any{"circuit_breaker.state": state})
		}
		r.get(r.Context())
		want("closed")
		r.get(r.Context())
		want("closed", "resilient.transition closed open consecutive_failures")
		if err := <-slow; err != nil {
			r.Error(err)
		}
		want("closed") // it was under way, and had nothing to do with it
		time.Sleep(31 * time.Second)
		r.server.Next(testserver.Status(500))
		r.get(r.Context())
		want("half_open", "resilient.transition open half_open", "resilient.transition half_open open failed_probe")
		time.Sleep(31 * time.Second)
		r.get(r.Context())
		want("half_open", "resilient.transition open half_open", "resilient.transition half_open closed")
		r.ForceOpen(0)
		r.wants(1, "resilient.client.breaker.state", "circuit_breaker.state=forced_open")
		r.Automatic()
		r.get(r.Context())
		want("closed")
		for pair, n := range map[string]float64{"closed open": 1, "open half_open": 2, "half_open open": 1, "half_open closed": 1, "closed forced_open": 1, "forced_open closed": 1} {
			from, to, _ := strings.Cut(pair, " ")
			r.wants(n, "resilient.client.breaker.transitions", "resilient.breaker.from="+from, "resilient.breaker.to="+to, "external.system=sber")
		}
	})
}

// Each attempt is a span; those after the first, and requests that follow a redirect, say how often it was sent before.
func TestResends(t *testing.T) {
	inBoth(t, setting{cfg: resilient.Config{Retry: resilient.RetryConfig{MaxAttempts: 3}}}, func(r *rig) {
		r.server.Next(testserver.Status(503), testserver.Status(502))
		if err := r.get(r.Context()); err != nil {
			r.Error(err)
		}
		all := r.took()
		call := r.one(all, "sber GET")
		r.has(call, map[string]any{"http.response.status_code": int64(200), "error.type": nil})
		if got := call.events("resilient.attempt"); !slices.Equal(got, []string{"resilient.retry 2", "resilient.retry 3"}) {
			r.Errorf("events %q", got)
		}
		for i, want := range []struct{ resend, status, word any }{{nil, int64(503), "503"}, {int64(1), int64(502), "502"}, {int64(2), int64(200), nil}} {
			if s := all[i]; s.Name != "GET" || s.Parent.SpanID() != call.SpanContext.SpanID() {
				r.Errorf("attempt %d: span %q", i, s.Name)
			}
			r.has(all[i], map[string]any{"http.request.resend_count": want.resend, "http.response.status_code": want.status, "error.type": want.word})
		}
		r.server.Next(http.RedirectHandler("/a", http.StatusFound), http.RedirectHandler("/b", http.StatusFound))
		if err := r.get(r.Context()); err != nil {
			r.Error(err)
		}
		all = r.took()
		if len(all) != 6 {
			r.Fatalf("%d spans, want those of 3 exchanges", len(all))
		}
		for i, want := range []any{nil, int64(1), int64(2)} {
			r.has(all[2*i], map[string]any{"http.request.resend_count": want})
		}
	})
}

// A panic goes on, and ends the spans.
func TestPanic(t *testing.T) {
	r := newRig(t, setting{opts: func(*rig) []resilient.Option {
		return []resilient.Option{resilient.WithInner(func(http.RoundTripper) http.RoundTripper { return panics{} })}
	}})
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("no panic")
			}
		}()
		r.RoundTrip(r.request(t.Context(), "GET"))
	}()
	all := r.took()
	for _, name := range []string{"sber GET", "GET"} {
		r.has(r.one(all, name), map[string]any{"error.type": "panic"})
	}
}

type panics struct{}

func (panics) RoundTrip(*http.Request) (*http.Response, error) { panic("boom") }
