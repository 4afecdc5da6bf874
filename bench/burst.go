package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const burstConns = 100

// burst counts the connections that are made for bursts of requests.
func burst(ctx context.Context, e effort) (*section, error) {
	s := newSection("Bursts")
	bursts := 16
	if e.quick {
		bursts = 4
	}
	l := limits{permits: burstConns * 4 / 5, waiting: burstConns, wait: time.Second, total: 7 * time.Second}
	s.para("%d bursts of %d requests to a server that takes 5 ms: how many connections are made for these %d requests.", bursts, burstConns, bursts*burstConns)
	rows := [][]string{{"client", "connections made"}}
	for _, c := range []struct {
		name string
		make func() (guarded, error)
	}{
		{"net/http as it is (2 idle connections)", func() (guarded, error) {
			return overBare(l, http.DefaultTransport.(*http.Transport).Clone())
		}},
		{fmt.Sprintf("net/http with %d idle connections", burstConns), func() (guarded, error) { return overBare(l, nil) }},
		{ours, func() (guarded, error) { return overOurs(l, nil) }},
	} {
		n, err := connsOf(ctx, c.make, bursts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		rows = append(rows, []string{c.name, fmt.Sprint(n)})
		if c.name == ours {
			s.atMost(fmt.Sprintf("connections made for %d requests in bursts, at most %d at once", bursts*burstConns, burstConns), float64(n), 1.05*burstConns, "", "")
		}
	}
	s.table(rows...)
	return s, nil
}

func connsOf(ctx context.Context, make func() (guarded, error), bursts int) (int64, error) {
	site, err := startSite(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Millisecond)
		ok(w, r)
	}))
	if err != nil {
		return 0, err
	}
	defer site.close()
	g, err := make()
	if err != nil {
		return 0, err
	}
	defer g.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := get(ctx, g, site.url)
	for range bursts {
		err = errors.Join(err, parallel(burstConns, c.run)(burstConns))
	}
	return site.conns.Load(), err
}
