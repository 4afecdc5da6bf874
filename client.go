package resilient

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/exchange"
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

	stats   *stats
	sem     *semaphore.Semaphore
	breaker *transport.Breaker
	base    http.RoundTripper
	chain   http.RoundTripper

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
	c := &Client{name: name, cfg: cfg, reg: reg, opts: o, base: o.base, drained: make(chan struct{})}
	c.stats = newStats(cfg, o.streams, c.finish)
	c.sem = semaphore.New(name, semaphore.Limits{MaxConcurrent: cfg.Bulkhead.MaxConcurrent, MaxWaiting: max(0, cfg.Bulkhead.MaxWaiting)}) // NoQueue is -1
	c.breaker = transport.NewBreaker(name, cfg)
	c.breaker.OnTransition(c.transition)
	if o.classify != nil {
		c.breaker.Classify(o.classify)
	}
	if c.base == nil {
		c.base = c.ownBase()
		c.chain = c.over(c.base, transport.NewTimeouts(name, cfg).Wrap)
	} else {
		c.chain = c.over(c.base, c.foreignTimeouts())
	}
	return c
}

func (c *Client) ownBase() *http.Transport {
	t := transport.Base(c.cfg)
	t.DialContext = (&transport.Dialer{Timeout: c.cfg.ConnectTimeout, Dial: c.opts.dial, Opened: func() { c.opened.Add(1) }}).DialContext
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
	bulkhead := transport.Bulkhead(c.sem, c.cfg.Bulkhead.AcquireTimeout, c.peek)
	return transport.Chain(base, c.stats.layer.Wrap, bulkhead, c.breaker.Wrap, timeouts)
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
func (c *Client) Do(req *http.Request) (*http.Response, error) { return c.HTTPClient().Do(req) }

// RoundTrip does one exchange. See [http.RoundTripper].
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) { return c.chain.RoundTrip(req) }

// CloseIdleConnections closes the connections that are not in use.
func (c *Client) CloseIdleConnections() { (&http.Client{Transport: c.base}).CloseIdleConnections() }

// HTTPClient returns a new *http.Client over c, for those that want one, each
// its own, as some change it. Leave its Timeout 0: the bounds are c's, and a
// Timeout hides what ended a request.
func (c *Client) HTTPClient() *http.Client { return &http.Client{Transport: c} }

// Wrap returns the same bulkhead, breaker, bounds and metrics over another
// base, for an SDK whose transport does TLS or authentication. It refuses what
// WithBase would. Of the base's connections c knows nothing: Config's settings
// for them have no effect, and CloseIdleConnections of the result reaches it.
func (c *Client) Wrap(base http.RoundTripper) (http.RoundTripper, error) {
	switch {
	case base == nil:
		return nil, errors.New("resilient: Wrap: nil; give it a transport")
	case c.closing.Load():
		return nil, &ClosedError{System: c.name}
	}
	if err := cmp.Or(checkBase("Wrap", base), use(c, base)); err != nil {
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

// transition counts and logs a change of the breaker's state before anybody's hook can go wrong.
func (c *Client) transition(t Transition) {
	c.stats.transition(t)
	logger := c.opts.logger
	if logger == nil {
		logger = slog.Default()
	}
	attrs := []any{slog.String("system", t.System), slog.String("prev_state", t.From), slog.String("new_state", t.To)}
	switch t.Reason {
	case transport.FailedProbe:
		attrs = append(attrs, slog.Bool("failed_probe", true))
	case transport.FailureRatio, transport.ConsecutiveFailures:
		attrs = append(attrs, slog.String("reason", t.Reason), slog.Float64("failure_rate", t.FailureRate))
	}
	logger.Warn("circuit breaker "+t.To, attrs...)
	if c.opts.transition != nil {
		c.opts.transition(t)
	}
}

// Shutdown ends c: from now on requests are refused with a ClosedError, also
// those that wait for a permit. It returns when the exchanges under way have
// ended. If ctx ends first it cancels them, upgraded connections included, and
// returns ctx.Err() unless that ended them all.
//
// The name is free, and the series are gone, when the last exchange has ended.
func (c *Client) Shutdown(ctx context.Context) error {
	c.closing.Store(true)
	c.sem.Close(&ClosedError{System: c.name})
	if c.stats.close() == 0 {
		c.finish()
	}
	c.CloseIdleConnections()
	select {
	case <-c.drained:
	case <-ctx.Done():
		for _, x := range c.stats.all() {
			x.Interrupt(exchange.Owner, &ClosedError{System: c.name, Started: true}, context.Canceled)
		}
	}
	select {
	case <-c.drained:
		return nil
	default:
		return ctx.Err()
	}
}

// Close ends c at once: it is Shutdown with a context that has ended, and
// returns nil. An exchange in the middle of a round trip or a Read ends when
// that returns, which with net/http is at once.
func (c *Client) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Shutdown(ctx)
	return nil
}

// finish is called when c is closed and nothing is under way any more.
func (c *Client) finish() {
	c.drain.Do(func() {
		defer close(c.drained) // also if a base of the user's panics
		release(c)
		c.reg.remove(c)
		c.CloseIdleConnections()
		if c.cfg.Protocol == config.HTTP2 { // which may not have seen yet that its last stream has ended
			time.AfterFunc(time.Second, (&http.Client{Transport: c.base}).CloseIdleConnections)
		}
	})
}
