package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/adapter/sber"
	"github.com/resilient-go/resilient/examples/adapter/web"
)

// maxConns is how many connections all clients together may have: what is left of
// the process's files when its own callers have theirs.
const maxConns = 100

// A service is the process: what it is made of, and how it ends.
type service struct {
	settings
	log      *slog.Logger
	reg      *resilient.Registry
	api, ops *http.Server
	draining atomic.Bool
}

// wire makes the service. Everything that is shared is made here, once, and handed down.
func wire(set settings, log *slog.Logger) (*service, error) {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector())
	s := &service{settings: set, log: log}
	s.reg = resilient.NewRegistry(resilient.WithRegisterer(metrics), resilient.WithMaxTotalConns(maxConns))

	configs, err := resilient.Load(set.clients)
	if err != nil {
		return nil, err
	}
	cfg, ok := configs[sber.Name]
	if !ok {
		return nil, fmt.Errorf("%s: no system %q", set.clients, sber.Name)
	}
	client, err := s.reg.NewClient(sber.Name, cfg, resilient.WithLogger(log), resilient.WithHealthURL(set.sberURL+"/health"))
	if err != nil {
		return nil, err
	}
	bank, err := sber.New(set.sberURL, set.sberKey, client)
	if err != nil {
		return nil, err
	}

	s.api = &http.Server{Handler: web.Handler(bank, log), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	ops := http.NewServeMux()
	ops.Handle("/ready", s.ready(s.reg.Readiness(sber.Name)))
	ops.Handle("/alive", s.reg.Liveness()) // asks nobody: a restart heals no bank
	ops.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	ops.Handle("/debug/resilient/", http.StripPrefix("/debug/resilient", s.reg.Handler()))
	s.ops = &http.Server{Handler: ops, ReadHeaderTimeout: 5 * time.Second}
	return s, nil
}

// ready is not ready once the service drains, and then does not ask the systems any more.
func (s *service) ready(systems http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			http.Error(w, "draining", http.StatusServiceUnavailable)
			return
		}
		systems.ServeHTTP(w, r)
	})
}

// run serves until ctx ends, and then as long as it takes to end well.
func (s *service) run(ctx context.Context) error {
	listeners := make([]net.Listener, 2)
	for i, address := range []string{s.listen, s.opsAt} {
		var err error
		if listeners[i], err = net.Listen("tcp", address); err != nil {
			return err
		}
		defer listeners[i].Close()
	}
	failed := make(chan error, 3)
	go func() { failed <- s.api.Serve(listeners[0]) }()
	go func() { failed <- s.ops.Serve(listeners[1]) }()
	go func() { failed <- s.reg.Watch(ctx, s.clients) }() // nil when ctx ends
	s.log.Info("serving", "api", listeners[0].Addr().String(), "ops", listeners[1].Addr().String())

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.end()
	if err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// end ends the service from the outside in: first nobody new is sent here, then
// nobody is let in, then those inside finish, and what they wait for goes last.
func (s *service) end() {
	s.log.Info("draining")
	s.draining.Store(true)
	time.Sleep(s.drain)

	ctx, cancel := context.WithTimeout(context.Background(), s.grace)
	defer cancel()
	err := s.api.Shutdown(ctx)
	// At the end of ctx this cancels what is under way, so that who still waits for a bank is told.
	err = errors.Join(err, s.reg.Shutdown(ctx))
	told, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.api.Shutdown(told) != nil {
		_ = s.api.Close()
	}
	_ = s.ops.Close() // last: until now it could be asked
	s.log.Info("ended", "cut_off", err != nil)
}
