package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
)

// hostile is what a probe may come back with.
const hostile = `"></span></p><script>console.error("ran")</script><img src=x onerror="console.error('ran')">{{.}}`

// cut is no status: the connection is cut.
const cut = -1

// A rig is a registry of real clients of one real partner, and the handler, served.
type rig struct {
	*testing.T
	reg     *resilient.Registry
	partner *testserver.Server
	url     string
	polls   atomic.Int64
	down    atomic.Int64 // what is answered instead, if it is not 0
}

func newRig(t *testing.T, names ...string) *rig {
	t.Helper()
	r := &rig{T: t, reg: resilient.NewRegistry()}
	partner, err := testserver.Start(testserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.partner = partner
	t.Cleanup(func() { partner.Close() })
	mux := http.NewServeMux()
	page := http.StripPrefix("/debug/resilient", r.reg.Handler())
	mux.HandleFunc("/debug/resilient/", func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Query().Get("format") == "live" {
			r.polls.Add(1)
		}
		switch status := r.down.Load(); status {
		case 0:
		case cut:
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(int(status))
			return
		}
		page.ServeHTTP(w, req)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	r.url = server.URL + "/debug/resilient/"
	for _, name := range names {
		r.add(name)
	}
	return r
}

// add makes a client that opens after 3 failures, for 2 s, and is closed by one probe.
func (r *rig) add(name string, opts ...resilient.Option) *resilient.Client {
	r.Helper()
	cfg := resilient.Config{Breaker: config.Breaker{ConsecutiveFailures: 3, OpenFor: 2 * time.Second, HalfOpenProbes: 1}}
	c, err := r.reg.NewClient(name, cfg, append(opts, resilient.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	return c
}

func (r *rig) client(name string) *resilient.Client {
	r.Helper()
	c, err := r.reg.Client(name)
	if err != nil {
		r.Fatal(err)
	}
	return c
}

// send makes a request, and reads what comes.
func (r *rig) send(c *resilient.Client) error {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.partner.URL(), nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// keepSending makes about a hundred requests a second until the test, or what it returns, ends.
func (r *rig) keepSending(c *resilient.Client) (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = r.send(c)
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	stop = func() { cancel(); <-done }
	r.Cleanup(stop)
	return stop
}

// hold keeps a permit of c until it is given back.
func (r *rig) hold(c *resilient.Client) (giveBack func()) {
	r.Helper()
	r.partner.Next(testserver.StallInBody(1))
	req, err := http.NewRequestWithContext(resilient.WithBounds(r.Context(), resilient.Bounds{Total: resilient.Unbounded, Read: resilient.Unbounded}), http.MethodGet, r.partner.URL(), nil)
	if err != nil {
		r.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	return func() { resp.Body.Close() }
}

func hostileProbe() resilient.Option {
	return resilient.WithHealth(func(context.Context) error { return errors.New(hostile) })
}

// card is a selector within a system's card.
func card(name, selector string) string { return fmt.Sprintf("#system-%s %s", name, selector) }
