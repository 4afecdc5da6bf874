package resilient

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// A Client calls one external system. It is made by NewClient, to be kept for
// as long as the system is called, and safe for concurrent use.
//
// It is a Doer (as generated OpenAPI clients take it) and an [http.RoundTripper].
// As a RoundTripper it does one exchange; Do follows redirects as http.Client does.
type Client struct {
	name string
	cfg  Config
	reg  *Registry
	opts *options

	stats    *stats
	sem      *semaphore.Semaphore
	breaker  *transport.Breaker
	timeouts *transport.Timeouts
	base     http.RoundTripper
	chain    http.RoundTripper
	http     *http.Client

	opened  atomic.Uint64 // connections
	closing atomic.Bool
	drained chan struct{} // closed when the last exchange has ended after closing
	drain   sync.Once
}

// NewClient makes a client in DefaultRegistry. See [Registry.NewClient].
func NewClient(name string, cfg Config, opts ...Option) (*Client, error) {
	return DefaultRegistry.NewClient(name, cfg, opts...)
}

func newClient(name string, cfg Config, o *options, reg *Registry) *Client {
	c := &Client{
		name: name, cfg: cfg, reg: reg, opts: o,
		stats: newStats(cfg, o.streams),
		sem: semaphore.New(name, semaphore.Limits{
			MaxConcurrent: cfg.Bulkhead.MaxConcurrent,
			MaxWaiting:    max(0, cfg.Bulkhead.MaxWaiting), // NoQueue is -1
		}),
		breaker:  transport.NewBreaker(name, cfg),
		timeouts: transport.NewTimeouts(name, cfg),
		base:     o.base,
		drained:  make(chan struct{}),
	}
	if c.base == nil {
		c.base = c.ownBase()
		c.chain = c.over(c.base, c.timeouts.Wrap)
	} else {
		c.chain = c.over(c.base, c.foreignTimeouts())
	}
	if o.classify != nil {
		c.breaker.Classify(o.classify)
	}
	c.breaker.OnTransition(c.transition)
	c.stats.idle = c.finish
	c.http = c.HTTPClient()
	return c
}

func (c *Client) ownBase() *http.Transport {
	t := transport.Base(c.cfg)
	t.DialContext = (&transport.Dialer{
		Timeout: c.cfg.ConnectTimeout,
		Dial:    c.opts.dial,
		Opened:  func() { c.opened.Add(1) },
	}).DialContext
	if c.opts.tls != nil {
		t.TLSClientConfig = c.opts.tls
	}
	if c.opts.proxy != nil {
		t.Proxy = c.opts.proxy
	}
	return t
}

// over puts the layers around base.
func (c *Client) over(base http.RoundTripper, timeouts transport.Layer) http.RoundTripper {
	return transport.Chain(base, c.stats.layer.Wrap,
		transport.Bulkhead(c.sem, c.cfg.Bulkhead.AcquireTimeout, c.peek), c.breaker.Wrap, timeouts)
}

// foreignTimeouts are those for a base that is not ours, of whose dials we know nothing.
func (c *Client) foreignTimeouts() transport.Layer {
	return transport.Timeout(c.name, Bounds{Total: c.cfg.TotalTimeout, Read: c.cfg.ReadTimeout})
}

// peek refuses those who would be refused after waiting for a permit.
func (c *Client) peek() error {
	if c.closing.Load() {
		return nil // the bulkhead says so
	}
	return c.breaker.Peek()
}

// Name returns the system's name.
func (c *Client) Name() string { return c.name }

// Do sends a request and follows redirects. It is what http.Client.Do is: err
// is a *url.Error if not nil, and the response's body must be closed.
func (c *Client) Do(req *http.Request) (*http.Response, error) { return c.http.Do(req) }

// RoundTrip does one exchange. See [http.RoundTripper].
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) { return c.chain.RoundTrip(req) }

// CloseIdleConnections closes the connections that are not in use.
func (c *Client) CloseIdleConnections() {
	if ci, ok := c.base.(interface{ CloseIdleConnections() }); ok {
		ci.CloseIdleConnections()
	}
}

// HTTPClient returns a new *http.Client over c, for those that want one, each
// its own, as some change it. Leave its Timeout 0: the bounds are c's, and a
// Timeout hides what ended a request.
func (c *Client) HTTPClient() *http.Client { return &http.Client{Transport: c} }

// Wrap returns the same bulkhead, breaker, bounds and metrics over another
// base, for an SDK whose transport does TLS or authentication. It refuses what
// WithBase would. Of the base's connections c knows nothing: Config's settings
// for them have no effect, and CloseIdleConnections of the result reaches it.
func (c *Client) Wrap(base http.RoundTripper) (http.RoundTripper, error) {
	o, err := collect([]Option{WithBase(base)})
	if err == nil {
		err = use(c, o.base)
	}
	if err != nil {
		return nil, err
	}
	return c.over(base, c.foreignTimeouts()), nil
}

// A State is what a client looked like at one moment.
type State struct {
	Name     string
	Bulkhead semaphore.State
	Breaker  transport.BreakerState
	InFlight int           // exchanges begun and not ended, waiting for a permit included
	Oldest   time.Duration // since the oldest of them began; a forgotten stream shows here
	Config   Config        // in force, with its defaults
}

// State returns what c looks like now.
func (c *Client) State() State {
	s := State{Name: c.name, Bulkhead: c.sem.State(), Breaker: c.breaker.State(), Config: c.cfg}
	s.InFlight, s.Oldest = c.stats.load()
	return s
}

// transition logs a change of the breaker's state, and counts it before anybody's hook can go wrong.
func (c *Client) transition(t Transition) {
	c.stats.transition(t)
	c.log(t)
	if c.opts.transition != nil {
		c.opts.transition(t)
	}
}
