package resilient_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A successful exchange beside the bare transport, over a base that does
// nothing and over loopback: compare the rows of one run, never times of two.
func BenchmarkExchange(b *testing.B) {
	server, err := testserver.Start(testserver.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	var nothing roundTripper = func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, ProtoMajor: 1, Body: io.NopCloser(strings.NewReader("ok")), Request: r}, nil
	}
	reg := resilient.NewRegistry()
	for name, base := range map[string]http.RoundTripper{"nothing": &nothing, "loopback": server.Transport()} {
		b.Run(name+"/bare", func(b *testing.B) { exchange(b, base, server.URL()) })
		b.Run(name+"/resilient", func(b *testing.B) {
			c, err := reg.NewClient("sber", resilient.Config{}, resilient.WithBase(base))
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			exchange(b, c, server.URL())
		})
	}
}

func exchange(b *testing.B, rt http.RoundTripper, url string) {
	b.ReportAllocs()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		resp, err := rt.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// A refusal by an open breaker.
func BenchmarkRefusal(b *testing.B) {
	var failing roundTripper = func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 500, ProtoMajor: 1, Body: http.NoBody, Request: r}, nil
	}
	c, err := resilient.NewRegistry().NewClient("sber", resilient.Config{}, resilient.WithBase(&failing), resilient.WithLogger(discard))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	req, err := http.NewRequestWithContext(context.Background(), "GET", "http://sber.test/", nil)
	if err != nil {
		b.Fatal(err)
	}
	for range 20 {
		if resp, err := c.RoundTrip(req); err == nil {
			resp.Body.Close()
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.RoundTrip(req); err == nil {
			b.Fatal("admitted")
		}
	}
}
