package resilienttest

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// patience bounds the waits for what should take no time. It is generous, for
// machines that are busy; in a bubble it costs nothing.
const patience = 10 * time.Second

// A Partner is a scripted external system. It lives until the end of its test.
// Until it is told otherwise it answers 200 to everything.
//
// It may be called concurrently, but for Client and Await, which end the test
// when they fail: call these as [testing.T.FailNow] wants to be called.
type Partner struct {
	// Script is for all requests that neither Next nor On speaks of.
	Script

	t        testing.TB
	server   *testserver.Server
	registry *resilient.Registry

	mu      sync.Mutex
	all     http.Handler            // what Script says
	paths   map[string]http.Handler // what On says
	seen    []*Request
	arrived chan struct{} // closed, and replaced, at each arrival
	release chan struct{} // closed, and replaced, by Release
}

// An Option is a setting of a Partner.
type Option func(*options)

type options = testserver.Options

// Loopback puts the partner on a real socket, 127.0.0.1 and any free port.
// In a bubble of testing/synctest there is no use for that: time does not pass
// there while somebody waits for a socket.
func Loopback() Option { return func(o *options) { o.Memory = false } }

// TLS has the partner speak https, HTTP/2 to a client whose Config.Protocol is
// that. The clients of Client, and those with Options, trust it.
func TLS() Option { return func(o *options) { o.Protocol = testserver.HTTP2 } }

// NewPartner starts a partner, on an in-memory network unless there is Loopback.
func NewPartner(t testing.TB, opts ...Option) *Partner {
	t.Helper()
	o := options{Memory: true}
	for _, opt := range opts {
		opt(&o)
	}
	p := &Partner{t: t, all: ok, paths: map[string]http.Handler{}, arrived: make(chan struct{}), release: make(chan struct{})}
	o.Handler = p.record(ok)
	server, err := testserver.Start(o)
	if err != nil {
		t.Fatal("resilienttest:", err)
	}
	p.server = server
	p.Script = Script{p, func(h http.Handler) {
		p.keep(func() { p.all = h })
		server.Default(p.record(h))
	}}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error("resilienttest:", err)
		}
	})
	p.registry = NewRegistry(t) // after that, so that it ends before
	return p
}

// URL returns the partner's base URL, without a slash at its end.
func (p *Partner) URL() string { return p.server.URL() }

// Client returns a client of the partner, in the partner's Registry, as
// [resilient.NewClient] makes it. Its breaker's transitions are in the test's log.
func (p *Partner) Client(name string, cfg resilient.Config, opts ...resilient.Option) *resilient.Client {
	p.t.Helper()
	log := resilient.WithLogger(slog.New(slog.NewTextHandler(p.t.Output(), nil)))
	c, err := p.registry.NewClient(name, cfg, append(append(p.Options(), log), opts...)...)
	if err != nil {
		p.t.Fatal("resilienttest:", err)
	}
	return c
}

// Registry returns the registry of Client: one of the partner's own, made by NewRegistry.
func (p *Partner) Registry() *resilient.Registry { return p.registry }

// Options returns what makes a client reach the partner, whatever host its
// requests name: for a client that your own code makes, or one in a registry
// with those of other partners.
func (p *Partner) Options() []resilient.Option {
	opts := []resilient.Option{resilient.WithDialContext(p.server.Dial)}
	if c := p.server.TLS(); c != nil {
		opts = append(opts, resilient.WithTLSConfig(c))
	}
	return opts
}

// A Request is one that has reached a Partner.
type Request struct {
	Method string
	URI    string // as it was sent: "/payments?page=2"
	Header http.Header
	Body   string // what the partner has read of it so far
}

// Requests returns what has reached the partner, in the order of arrival.
func (p *Partner) Requests() []Request {
	seen, _ := p.snapshot()
	return seen
}

// Await waits until n requests have reached the partner since it was started,
// and returns all that have. It is for tests outside of bubbles, where
// [testing/synctest.Wait] is no help. It ends the test if they do not come in 10 s.
func (p *Partner) Await(n int) []Request {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		seen, arrived := p.snapshot()
		if len(seen) >= n {
			return seen
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			p.t.Fatalf("resilienttest: %d requests have reached the partner in %v, want %d", len(seen), patience, n)
		}
	}
}

func (p *Partner) snapshot() ([]Request, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := make([]Request, len(p.seen))
	for i, r := range p.seen {
		seen[i] = *r
		seen[i].Header = maps.Clone(r.Header)
	}
	return seen, p.arrived
}

// InFlight returns how many requests the partner has not done with: it hangs, or
// is sending a body. It notices a caller that has gone a moment later.
func (p *Partner) InFlight() int { return p.server.Stats().Concurrent }

// MaxInFlight returns how many there were at once at most.
func (p *Partner) MaxInFlight() int { return p.server.Stats().MaxConcurrent }
