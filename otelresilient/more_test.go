package otelresilient_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/otelresilient"
)

// Below the client, otelhttp makes the spans of the attempts, as children of the call's.
func TestOtelhttpInside(t *testing.T) {
	inBoth(t, setting{
		cfg:       resilient.Config{Retry: resilient.RetryConfig{MaxAttempts: 2}},
		telemetry: []otelresilient.Option{otelresilient.WithoutHTTP()},
		opts: func(r *rig) []resilient.Option {
			return []resilient.Option{resilient.WithInner(func(next http.RoundTripper) http.RoundTripper {
				return otelhttp.NewTransport(next, otelhttp.WithTracerProvider(r.tracers), otelhttp.WithMeterProvider(r.meters), otelhttp.WithPropagators(propagation.TraceContext{}))
			})}
		},
	}, func(r *rig) {
		r.server.Next(testserver.Status(503))
		if err := r.get(r.Context()); err != nil {
			r.Error(err)
		}
		all := r.took()
		call := r.one(all, "sber GET")
		r.has(call, map[string]any{"external.system": "sber", "circuit_breaker.state": "closed", "http.response.status_code": int64(200)})
		if len(all) != 3 {
			r.Fatalf("%d spans, want 3", len(all))
		}
		for _, s := range all[:2] {
			if s.Parent.SpanID() != call.SpanContext.SpanID() || s.SpanKind != trace.SpanKindClient {
				r.Errorf("%s: parent %v, kind %v", s.Name, s.Parent.SpanID(), s.SpanKind)
			}
		}
		r.wants(0, "http.client.request.duration")
		r.wants(1, "resilient.client.call.duration")

		r.server.Default(testserver.StallInBody(1))
		r.Do(r.request(r.Context(), "GET")) // and forget the body
		time.Sleep(8 * time.Second)
		synctest.Wait()
		r.has(r.one(r.took(), "sber GET"), map[string]any{"error.type": "timeout"})
	})
}

// Around the client, otelhttp's span is the parent of the call's, also where that is refused.
func TestOtelhttpOutside(t *testing.T) {
	inBoth(t, setting{telemetry: []otelresilient.Option{otelresilient.WithoutHTTP()}}, func(r *rig) {
		c := &http.Client{Transport: otelhttp.NewTransport(r.Client, otelhttp.WithTracerProvider(r.tracers), otelhttp.WithMeterProvider(r.meters))}
		if err := read(c.Do(r.request(r.Context(), "GET"))); err != nil {
			r.Error(err)
		}
		r.ForceOpen(0)
		c.Do(r.request(r.Context(), "GET"))
		all := r.took()
		if len(all) != 4 {
			r.Fatalf("%d spans, want 4", len(all))
		}
		for i := 0; i < len(all); i += 2 {
			call, outer := all[i], all[i+1]
			if outer.SpanKind != trace.SpanKindClient || call.Name != "sber GET" || call.Parent.SpanID() != outer.SpanContext.SpanID() {
				r.Errorf("spans %q and %q", call.Name, outer.Name)
			}
		}
		r.has(all[2], map[string]any{"error.type": "refused_open", "circuit_breaker.state": "forced_open"})
	})
}

// Whatever a system or a caller thinks of, the number of series stays small.
func TestCardinality(t *testing.T) {
	inBoth(t, setting{cfg: resilient.Config{Breaker: resilient.BreakerConfig{FailureRatio: 1, ConsecutiveFailures: resilient.Off, MinRequests: 100000}}}, func(r *rig) {
		for i := range 60 {
			req := r.request(r.Context(), fmt.Sprintf("GET%d", i))
			req.URL.Host = fmt.Sprintf("host%d.example", i)
			if r.server.TLS() != nil {
				req.URL.Host = req.URL.Host[:0] + r.request(r.Context(), "GET").URL.Hostname() + fmt.Sprintf(":%d", 1000+i)
			}
			r.server.Next(testserver.Status(600 + i))
			read(r.Client.RoundTrip(req))
			if i == 0 {
				all := r.took()
				r.has(r.one(all, "HTTP"), map[string]any{"http.request.method": "_OTHER", "http.request.method_original": "GET0", "error.type": "_OTHER"})
			}
		}
		hosts := map[string]bool{}
		series := map[string]int{}
		for key := range r.metrics() {
			fields := strings.Fields(key)
			series[fields[0]]++
			for i, f := range fields {
				if strings.HasPrefix(f, "server.address=") {
					hosts[f+fields[i+1]] = true
				}
			}
		}
		if len(hosts) != 17 {
			r.Errorf("%d servers: %v", len(hosts), hosts)
		}
		for _, name := range []string{"http.client.active_requests", "http.client.connection.duration"} {
			if n := series[name]; n > 17 {
				r.Errorf("%s: %d series", name, n)
			}
		}
	})
}

func TestURL(t *testing.T) {
	for _, row := range [][2]string{
		{"/pay", "/pay"},
		{"/pay?token=secret&id=7#top", "/pay?token=REDACTED&id=REDACTED"},
		{"/pay?secret", "/pay?REDACTED"},
		{"/a%2Fb", "/a%2Fb"},
	} {
		inBoth(t, setting{}, func(r *rig) {
			req := r.request(r.Context(), "GET")
			u, err := url.Parse(r.server.URL() + row[0])
			if err != nil {
				r.Fatal(err)
			}
			u.User = url.UserPassword("me", "mine")
			req.URL = u
			if err := read(r.Do(req)); err != nil {
				r.Error(err)
			}
			for _, s := range r.took() {
				for k, v := range s.attrs {
					if text := fmt.Sprint(v); strings.Contains(text, "secret") || strings.Contains(text, "mine") {
						r.Errorf("%s: %s is %s", s.Name, k, text)
					}
				}
				if s.Name == "GET" {
					want := strings.Replace(r.server.URL(), "://", "://REDACTED:REDACTED@", 1) + row[1]
					r.has(s, map[string]any{"url.full": want})
				}
			}
		})
	}
	own := otelresilient.WithURL(func(u *url.URL) string { return u.Path })
	inBoth(t, setting{telemetry: []otelresilient.Option{own}}, func(r *rig) {
		r.get(r.Context())
		r.has(r.one(r.took(), "GET"), map[string]any{"url.full": "/"})
	})
}

// An upgraded connection is a call to its end, and can be written to.
func TestUpgrade(t *testing.T) {
	r := newRig(t, setting{})
	r.server.Default(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		io.WriteString(conn, line)
	}))
	req := r.request(t.Context(), "GET")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := r.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(resp.Body.(io.Writer), "hello\n")
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); line != "hello\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if _, ok := resp.Body.(interface{ CloseWrite() error }); !ok {
		t.Error("it can't be half-closed")
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil { // a peer that says no more may still listen
		t.Error(err)
	}
	if n := len(r.took()); n != 0 {
		t.Errorf("%d spans have ended", n)
	}
	r.wants(1, "http.client.open_connections", "http.connection.state=active")
	resp.Body.Close()
	all := r.took()
	for _, name := range []string{"sber GET", "GET"} {
		r.has(r.one(all, name), map[string]any{"http.response.status_code": int64(101), "error.type": nil})
	}
}

// Over real sockets: connections are counted however they end, peers are named, and a client without a span costs none.
func TestSockets(t *testing.T) {
	for _, p := range []testserver.Protocol{testserver.HTTP1, testserver.HTTPS, testserver.HTTP2} {
		t.Run(p.String(), func(t *testing.T) {
			r := newRig(t, setting{server: testserver.Options{Protocol: p}})
			for range 3 {
				if err := r.get(t.Context()); err != nil {
					t.Error(err)
				}
			}
			r.has(r.took()[0], map[string]any{"network.peer.address": "127.0.0.1", "server.address": "127.0.0.1"})
			if n := r.sum("http.client.open_connections"); n < 1 {
				t.Errorf("%v connections open", n)
			}
			opened := float64(r.server.Stats().Conns)
			cfg := r.State().Config
			cfg.IdleConnTimeout++
			if err := r.Reconfigure(cfg); err != nil { // another pool
				t.Fatal(err)
			}
			if err := r.get(t.Context()); err != nil {
				t.Error(err)
			}
			if n := r.sum("http.client.connection.duration") + r.sum("http.client.open_connections"); n != float64(r.server.Stats().Conns) || n <= opened {
				t.Errorf("%v connections counted, %d made", n, r.server.Stats().Conns)
			}
			r.server.Close()
			r.get(t.Context())
			last := r.took()
			word, _ := last[len(last)-1].attrs["error.type"].(string)
			if !slices.Contains([]string{"connection_refused", "connection_reset", "unexpected_eof"}, word) {
				t.Errorf("error.type of a call of nobody: %q", word)
			}
		})
	}
}

// The states of all clients are there to be read, whoever made them, until Close.
func TestStates(t *testing.T) {
	inBoth(t, setting{cfg: resilient.Config{Bulkhead: resilient.BulkheadConfig{MaxConcurrent: 1, AcquireTimeout: time.Second}}}, func(r *rig) {
		r.server.Default(testserver.HangBeforeHeaders())
		done := make(chan error)
		for range 2 {
			go func() { done <- r.get(r.Context()) }()
			synctest.Wait()
		}
		time.Sleep(time.Second / 2)
		r.wants(1, "resilient.client.bulkhead.active", "external.system=sber")
		r.wants(1, "resilient.client.bulkhead.limit", "external.system=sber")
		r.wants(1, "resilient.client.bulkhead.waiting", "external.system=sber")
		r.wants(2, "resilient.client.requests.active", "external.system=sber")
		r.wants(0.5, "resilient.client.requests.oldest", "external.system=sber")
		r.wants(1, "resilient.client.breaker.state", "circuit_breaker.state=closed")
		r.wants(1, "resilient.client.breaker.state")
		r.wants(0, "resilient.client.bulkhead.rejections", "resilient.reason=waited")
		<-done // the one that waits in vain
		r.wants(1, "resilient.client.bulkhead.rejections", "resilient.reason=waited")
		r.server.Release()
		<-done
		r.wants(0, "resilient.client.bulkhead.active", "external.system=sber")
	})
}

func TestFaults(t *testing.T) {
	_, err := otelresilient.New(nil, otelresilient.WithURL(nil), otelresilient.WithTracerProvider(nil))
	for _, want := range []string{"no registry", "WithURL: nil", "WithTracerProvider: nil"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
