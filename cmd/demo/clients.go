package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/cmd/demo/api"
	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/transport"
)

// bounds are shorter than the defaults, so that an incident fits into seconds.
// What is not named here has its default: 16 of 20 connections in use at once,
// 100 ms for a permit, 3 probes.
var bounds = resilient.Config{
	ConnectTimeout: 150 * time.Millisecond,
	ReadTimeout:    400 * time.Millisecond,
	TotalTimeout:   700 * time.Millisecond,
	Breaker:        config.Breaker{OpenFor: 2 * time.Second},
}

// clients are what the service calls its partners with.
type clients struct {
	api         [systems]*api.ClientWithResponses
	guards      [systems]*resilient.Client // nil without resilient
	transitions chan resilient.Transition
	close       func()
}

// guarded gives each partner a resilient client of its own.
//
// With count, the exchanges are counted below the library, so that what it
// promises is measured by somebody else, and exactly: a look at
// Client.State now and then would miss peaks, and a server sees exchanges that
// have been given up until it notices. The transport under the count is the one
// that the client would have made itself. A service leaves WithBase out.
func guarded(reg *resilient.Registry, p *partners, count bool) (*clients, error) {
	c := &clients{
		transitions: make(chan resilient.Transition, 64),
		close: func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = reg.Shutdown(ctx) // what is left after that second is cut off
		},
	}
	for i, name := range systemNames {
		options := []resilient.Option{
			resilient.WithLogger(slog.New(slog.DiscardHandler)), // the view tells of transitions
			resilient.OnStateChange(c.transition),
		}
		if count {
			full, err := bounds.Complete()
			if err != nil {
				return nil, err
			}
			options = append(options, resilient.WithBase(newCounting(transport.Base(full), p)))
		}
		client, err := reg.NewClient(name, bounds, options...)
		if err != nil {
			c.close()
			return nil, err
		}
		c.guards[i] = client
		c.api[i], err = api.NewClientWithResponses(p.servers[i].URL(), api.WithHTTPClient(client))
		if err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// transition is called by whose exchange made the transition: it must not wait.
func (c *clients) transition(t resilient.Transition) {
	select {
	case c.transitions <- t:
	default:
	}
}

// unguarded is what many services have: one client for everything. It is not
// made worse than it need be: its Timeout is as short as our total, where the
// usual one is none at all.
func unguarded(p *partners) (*clients, error) {
	base := http.DefaultTransport.(*http.Transport).Clone() // its defaults, but connections of its own
	client := &http.Client{Transport: newCounting(base, p), Timeout: bounds.TotalTimeout}
	c := &clients{close: base.CloseIdleConnections}
	for i, s := range p.servers {
		var err error
		if c.api[i], err = api.NewClientWithResponses(s.URL(), api.WithHTTPClient(client)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// refusing reports whether a partner is known to fail: its breaker is not closed.
func (c *clients) refusing(s system) bool {
	return c.guards[s] != nil && c.guards[s].State().Breaker.State != "closed"
}
