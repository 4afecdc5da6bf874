package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/resilient-go/resilient"
)

// serve plays the script over and over, with the resilient clients only, and
// offers their metrics and the page of their states, until ctx ends.
func serve(ctx context.Context, port uint, out *os.File) error {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector())
	// The first client registers the metrics of all. A program that uses
	// resilient.NewClient and Prometheus's default registry need not even ask.
	reg := resilient.NewRegistry(resilient.WithRegisterer(metrics))

	p, err := startPartners()
	if err != nil {
		return err
	}
	defer p.close()
	c, err := guarded(reg, p, false)
	if err != nil {
		return err
	}
	defer c.close()

	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.Handle("/debug/resilient/", http.StripPrefix("/debug/resilient", reg.Handler()))
	mux.Handle("/{$}", http.RedirectHandler("/debug/resilient/", http.StatusFound))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer server.Close()
	go func() { _ = server.Serve(listener) }() // until Close

	if err := printIntroduction(out); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nthe states live on http://%[1]s/debug/resilient/, metrics on http://%[1]s/metrics, until interrupted\n\n", listener.Addr())
	s, v := newStage(p, c), newView(out)
	for {
		if err := s.play(ctx, v); err != nil {
			return nil // interrupted, as intended
		}
	}
}
