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
	reg  *Registry
	opts *options
	cfg  atomic.Pointer[Config] // in force

	stats    *stats
	sem      *semaphore.Semaphore
	breaker  *transport.Breaker
	retry    *transport.Retry
	timeouts *transport.Timeouts // over the own base
	foreign  *transport.Timeouts // over any other
	base     http.RoundTripper   // WithBase's; nil: the own one, which is a pool of stats
	chain    http.RoundTripper
	layers   http.RoundTripper // chain without WithOuter's, which need not know how to close connections
	health   *health           // nil without a probe
	disown   func()            // takes sem out of the registry's bulkheads

	foreigners []http.RoundTripper // that it uses: WithBase's and Wrap's; guarded by the lock of bases

	reconfiguring sync.Mutex
	opened        atomic.Uint64 // connections
	closing       atomic.Bool
	drained       chan struct{} // closed when the last exchange and the last execution have ended after closing
	drain         sync.Once
}

// NewClient makes a client in DefaultRegistry. See [Registry.NewClient].
func NewClient(name string, cfg Config, opts ...Option) (*Client, error) {
	return DefaultRegistry.NewClient(name, cfg, opts...)
}

func newClient(name string, cfg Config, o *options, reg *Registry) *Client {
	c := &Client{name: name, reg: reg, opts: o, base: o.base, drained: make(chan struct{})}
	c.cfg.Store(&cfg)
	c.stats = newStats(c)
	c.sem = semaphore.New(name, limits(cfg))
	c.breaker = transport.NewBreaker(name, cfg)
	c.breaker.OnTransition(c.transition)
	if o.classify != nil {
		c.breaker.Classify(o.classify)
	}
	c.retry = transport.NewRetry(name, transport.RetryPolicyOf(cfg))
	c.retry.Streams(o.streams)
	c.retry.Peek(c.refusal)
	c.retry.OnEvent(c.retried)
	c.timeouts, c.foreign = transport.NewTimeouts(name, cfg), transport.NewForeignTimeouts(name, cfg)
	if c.base == nil {
		c.stats.swap(c.newPool(cfg))
		c.layers = transport.Chain((*ownBase)(c), c.retry.Wrap, c.stats.pooled.Wrap, c.guard(), c.breaker.Wrap, c.timeouts.Wrap)
	} else {
		c.layers = c.over(c.base)
	}
	c.chain = transport.Chain(c.layers, o.outer...)
	c.health = newHealth(c)
	return c
}

func limits(cfg Config) semaphore.Limits {
	return semaphore.Limits{MaxConcurrent: cfg.Bulkhead.MaxConcurrent, MaxWaiting: max(0, cfg.Bulkhead.MaxWaiting)} // NoQueue is -1
}

// over puts the layers around a base that is not ours.
func (c *Client) over(base http.RoundTripper) http.RoundTripper {
	return transport.Chain(c.opts.wrap(base), c.retry.Wrap, c.stats.layer.Wrap, c.guard(), c.breaker.Wrap, c.foreign.Wrap)
}

// guard is the bulkhead, or what only observes it.
func (c *Client) guard() transport.Layer {
	if c.opts.observe {
		return c.observer()
	}
	return transport.Bulkhead((*waiting)(c), 0, c.peek)
}

// waiting is the client's semaphore with the wait that is in force.
type waiting Client

func (w *waiting) Acquire(ctx context.Context, _ time.Duration) (semaphore.Permit, error) {
	return w.sem.Acquire(ctx, w.cfg.Load().Bulkhead.AcquireTimeout)
}

// peek refuses those who would be refused after waiting for a permit.
func (c *Client) peek() error {
	if c.closing.Load() {
		return nil // the bulkhead says so
	}
	return c.breaker.Peek()
}

// refusal says why a request that begins now would be refused at once: nothing is given up for such an attempt.
func (c *Client) refusal() error {
	switch {
	case c.closing.Load():
		return &ClosedError{System: c.name}
	case c.opts.observe:
		return nil
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
func (c *Client) CloseIdleConnections() {
	(&http.Client{Transport: c.layers}).CloseIdleConnections()
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
	switch {
	case base == nil:
		return nil, errors.New("resilient: Wrap: nil; give it a transport")
	case c.closing.Load():
		return nil, &ClosedError{System: c.name}
	}
	if err := cmp.Or(checkBase("Wrap", base), use(c, base)); err != nil {
		return nil, err
	}
	layers := c.over(base)
	if len(c.opts.outer) == 0 {
		return layers, nil
	}
	return &inside{transport.Chain(layers, c.opts.outer...), layers}, nil
}

// logger returns where c logs.
func (c *Client) logger() *slog.Logger { return cmp.Or(c.opts.logger, slog.Default()) }

// Shutdown ends c: from now on requests are refused with a ClosedError, also
// those that wait for a permit. It returns when the exchanges under way have
// ended. If ctx ends first it cancels them, upgraded connections included, and
// returns ctx.Err() unless that ended them all.
//
// Executions under way count like exchanges: see [Execute]. The name is free, and
// the series are gone, when the last of them has ended.
func (c *Client) Shutdown(ctx context.Context) error {
	c.closing.Store(true)
	c.health.end()
	c.retry.Close()
	c.sem.Close(&ClosedError{System: c.name})
	if c.stats.close() {
		c.finish()
	}
	c.CloseIdleConnections()
	select {
	case <-c.drained:
	case <-ctx.Done():
		closed := &ClosedError{System: c.name, Started: true}
		exchanges, executions := c.stats.all()
		for _, x := range exchanges {
			x.Interrupt(exchange.Owner, closed, context.Canceled)
		}
		for _, e := range executions {
			e.cancel(closed)
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
// that returns, which with net/http is at once; an execution, when its func does.
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
		closeIdle(c.layers, c.cfg.Load().Protocol)
	})
}
