package resilient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/semaphore"
)

// A Registry makes the clients of one process, one for each system, and holds
// them until they are closed. It is safe for concurrent use.
type Registry struct {
	prefix     string
	maxConns   int
	registerer prometheus.Registerer
	bulkheads  *semaphore.Registry

	mu         sync.Mutex
	registered bool
	clients    map[string]*Client // by config.Key
	conns      int                // the sum of their MaxConnsPerHost
}

// DefaultRegistry is the registry of NewClient. In its first NewClient it
// registers its Collector with [prometheus.DefaultRegisterer].
var DefaultRegistry = NewRegistry(WithRegisterer(prometheus.DefaultRegisterer))

// A RegistryOption is a setting of a Registry.
type RegistryOption func(*Registry)

// WithRegisterer has the registry register its Collector with r, in its first
// NewClient, which fails if that does. Without it the caller registers [Registry.Collector].
func WithRegisterer(r prometheus.Registerer) RegistryOption {
	return func(g *Registry) { g.registerer = r }
}

// WithMetricPrefix sets what the names of the metrics begin with, in place of
// "resilient_". "" gives the plain names of the rule book.
func WithMetricPrefix(prefix string) RegistryOption {
	return func(g *Registry) { g.prefix = prefix }
}

// WithMaxTotalConns refuses a client whose MaxConnsPerHost would bring the sum
// over all clients above n. 0 = no limit.
func WithMaxTotalConns(n int) RegistryOption {
	return func(g *Registry) { g.maxConns = n }
}

// NewRegistry returns an empty Registry, for tests or for a part of a process
// that keeps its systems to itself. Its metrics are registered nowhere unless
// WithRegisterer says where.
func NewRegistry(opts ...RegistryOption) *Registry {
	g := &Registry{prefix: "resilient_", bulkheads: semaphore.NewRegistry(), clients: map[string]*Client{}}
	for _, opt := range opts {
		opt(g)
	}
	return g
}

// NewClient makes the client of a system. The name matches
// [a-z][a-z0-9]*([-_][a-z0-9]+)*, is at most 63 long and not "default". A name
// that is in use is a DuplicateError, where "-" and "_" are the same. Every
// fault of name, configuration and options is told at once.
//
// The client stays in the registry until it is closed.
func (g *Registry) NewClient(name string, cfg Config, opts ...Option) (*Client, error) {
	o, optErr := collect(opts)
	full, cfgErr := cfg.Complete()
	nameErr := config.CheckName(name)
	if err := errors.Join(nameErr, cfgErr, optErr); nameErr != nil {
		return nil, fmt.Errorf("resilient: NewClient: %w", err) // which shows the name only if it is no URL
	} else if err != nil {
		return nil, fmt.Errorf("resilient: client %q: %w", name, err)
	}
	c := newClient(name, full, o, g)
	if err := g.add(c); err != nil {
		release(c)
		return nil, err
	}
	if o.observe {
		c.logger().Warn("client observes only: its bulkhead and breaker refuse nothing", slog.String("system", name))
	}
	return c, nil
}

// add lets c in, or says what keeps it out.
func (g *Registry) add(c *Client) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known, ok := g.clients[config.Key(c.name)]; ok {
		return &DuplicateError{Name: c.name, Existing: known.name}
	}
	conns := c.cfg.Load().MaxConnsPerHost
	if err := g.checkSum(c, conns, g.conns+conns); err != nil {
		return err
	}
	if err := use(c, c.opts.base); err != nil {
		return err
	}
	var err error
	if c.disown, err = g.bulkheads.Own(c.sem); err != nil {
		return fmt.Errorf("resilient: client %q: %w; a client needs the name: Unregister that bulkhead, or choose another", c.name, err)
	}
	if !g.registered && g.registerer != nil {
		if err := g.registerer.Register(g.Collector()); err != nil {
			c.disown()
			return fmt.Errorf("resilient: registering the metrics: %w; use one Registry for one registerer, or WithMetricPrefix", err)
		}
		g.registered = true
	}
	g.clients[config.Key(c.name)] = c
	g.conns += conns
	return nil
}

// checkSum says whether c may have conns connections, which makes sum with those of the others.
func (g *Registry) checkSum(c *Client, conns, sum int) error {
	if g.maxConns > 0 && sum > g.maxConns {
		return fmt.Errorf("resilient: %s: MaxConnsPerHost %d would bring the sum over all clients to %d, above the registry's limit of %d; lower it, or raise WithMaxTotalConns",
			c.name, conns, sum, g.maxConns)
	}
	return nil
}

// adopt makes cfg c's, if there is room for its connections.
func (g *Registry) adopt(c *Client, cfg *Config) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	sum := g.conns + cfg.MaxConnsPerHost - c.cfg.Load().MaxConnsPerHost
	if err := g.checkSum(c, cfg.MaxConnsPerHost, sum); err != nil {
		return err
	}
	if g.clients[config.Key(c.name)] == c { // not closed meanwhile
		g.conns = sum
	}
	c.cfg.Store(cfg)
	return nil
}

func (g *Registry) remove(c *Client) {
	c.disown()
	g.mu.Lock()
	defer g.mu.Unlock()
	if key := config.Key(c.name); g.clients[key] == c {
		delete(g.clients, key)
		g.conns -= c.cfg.Load().MaxConnsPerHost
	}
}

// Client returns the client of that name, or a NotFoundError.
func (g *Registry) Client(name string) (*Client, error) {
	g.mu.Lock()
	c, ok := g.clients[config.Key(name)]
	g.mu.Unlock()
	if !ok || c.name != name {
		return nil, &NotFoundError{Name: name, Known: g.Names()}
	}
	return c, nil
}

// Bulkheads returns the bulkheads of g: those of the clients, under their systems' names, which only
// Reconfigure changes, and others that are registered there, for what is no HTTP. Those are in its States,
// not in the metrics, and not on the page of Handler.
func (g *Registry) Bulkheads() *semaphore.Registry { return g.bulkheads }

// Names returns the names of the clients, sorted.
func (g *Registry) Names() []string {
	var names []string
	for _, c := range g.all() {
		names = append(names, c.name)
	}
	return names
}

// States returns the states of the clients, sorted by name.
func (g *Registry) States() []State {
	var states []State
	for _, c := range g.all() {
		states = append(states, c.State())
	}
	return states
}

// all returns the clients, sorted by name, so that none is asked anything under g's lock.
func (g *Registry) all() []*Client {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.SortedFunc(maps.Values(g.clients), func(a, b *Client) int { return strings.Compare(a.name, b.name) })
}

// Shutdown shuts all clients down together. See [Client.Shutdown].
func (g *Registry) Shutdown(ctx context.Context) error {
	clients := g.all()
	errs := make([]error, len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			if err := c.Shutdown(ctx); err != nil {
				errs[i] = fmt.Errorf("resilient: %s: %w", c.name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// bases are the foreign transports in use, of all registries: sharing one would
// share its connections. A client's are taken out when it is closed.
var bases = struct {
	sync.Mutex
	user map[http.RoundTripper]*Client
}{user: map[http.RoundTripper]*Client{}}

// use makes base c's, unless it is another's. One that can't be compared can't be known again.
func use(c *Client, base http.RoundTripper) error {
	if base == nil || !hashable(base) {
		return nil
	}
	bases.Lock()
	defer bases.Unlock()
	user := bases.user[base]
	if user != nil && user != c {
		return fmt.Errorf("resilient: %s: its base is that of client %q; give each a transport of its own", c.name, user.name)
	}
	if user == nil {
		bases.user[base], c.foreigners = c, append(c.foreigners, base)
	}
	return nil
}

func release(c *Client) {
	bases.Lock()
	defer bases.Unlock()
	for _, base := range c.foreigners {
		delete(bases.user, base)
	}
	c.foreigners = nil
}
