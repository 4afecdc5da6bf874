package resilient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"

	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/transport"
)

const (
	healthFor  = 30 * time.Second // a result is good for
	healthTime = 3 * time.Second  // a probe may take
)

// ErrNoHealthProbe is what Health returns for a client that has no probe: its health is not known.
var ErrNoHealthProbe = errors.New("no health probe")

// WithHealth sets a probe of the system, a light one, for [Client.Health] and
// [Registry.Readiness]. Its context ends after 3 s. It runs outside of the
// bulkhead and the breaker, so it should not use the client: it is to tell what
// the system is like even when the client refuses to call it.
func WithHealth(probe func(context.Context) error) Option {
	return option("WithHealth", probe == nil, func(o *options) { o.probe = probe })
}

// WithHealthURL is WithHealth with a GET of an http or https URL: a status below
// 400 is health. It uses one connection of its own, made as those of the client's
// own transport are (WithTLSConfig, WithProxy, WithDialContext). Redirects are not followed.
func WithHealthURL(rawURL string) Option {
	u, err := url.Parse(rawURL)
	return func(o *options) {
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			o.faults = append(o.faults, errors.New("resilient: WithHealthURL: must be an absolute http or https URL")) // it is not shown, as it may have a password
			return
		}
		o.probeURL = u.String()
	}
}

// health is a probe and its last result.
type health struct {
	system string
	probe  func(context.Context) error
	idle   func()          // closes connections that are not in use
	closed context.Context // ends with the client
	close  context.CancelFunc

	mu      sync.Mutex
	running bool          // the probe
	ready   chan struct{} // closed when the last one has a result
	err     error
	at      time.Time // of the result; zero: unknown
}

// newHealth returns nil if c has no probe.
func newHealth(c *Client) *health {
	h := &health{system: c.name, probe: c.opts.probe, idle: func() {}}
	if c.opts.probeURL != "" {
		cfg := *c.cfg.Load()
		cfg.MaxConnsPerHost, cfg.MaxIdleConnsPerHost = 1, 1
		base := c.newPool(cfg).Transport
		h.probe, h.idle = get(base, c.opts.probeURL), base.CloseIdleConnections
	}
	if h.probe == nil {
		return nil
	}
	h.closed, h.close = context.WithCancel(context.Background())
	return h
}

// get probes by a GET, without the redirects of an http.Client, and its errors, which tell the URL.
func get(rt http.RoundTripper, rawURL string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, nil)
		if err != nil {
			return err
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			return inOurWords(err)
		}
		_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // or the connection can't be used again
		resp.Body.Close()
		if resp.StatusCode >= http.StatusBadRequest {
			return fmt.Errorf("the probe was answered %d", resp.StatusCode)
		}
		return nil
	}
}

// Health returns what the last probe of WithHealth or WithHealthURL found, or
// nil for health. A result is good for 30 s; then the next call makes the probe,
// one at a time, and those who call meanwhile wait for it, to the end of their
// context, or 3 s. Without a probe the error matches ErrNoHealthProbe; after Close it is a ClosedError.
func (c *Client) Health(ctx context.Context) error {
	switch {
	case c.closing.Load():
		return &ClosedError{System: c.name}
	case c.health == nil:
		return fmt.Errorf("resilient: %s: %w: set one with WithHealth", c.name, ErrNoHealthProbe)
	}
	return c.health.check(ctx)
}

func (h *health) check(ctx context.Context) error {
	if ctx.Err() != nil {
		return exchange.CallerError(ctx)
	}
	h.mu.Lock()
	if !h.at.IsZero() && time.Since(h.at) < healthFor {
		defer h.mu.Unlock()
		return h.err
	}
	if !h.running { // one that ignores its context may be running still; its result stands then
		h.running, h.ready = true, make(chan struct{})
		go h.run(context.WithoutCancel(ctx), h.ready)
	}
	ready := h.ready
	h.mu.Unlock()
	select {
	case <-ready:
	case <-ctx.Done():
		return exchange.CallerError(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// end is called when the client is closed.
func (h *health) end() {
	if h != nil {
		h.close()
		h.idle()
	}
}

// run makes the probe. Its result is known after healthTime at the latest, but no other is made until it has returned.
func (h *health) run(ctx context.Context, ready chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	defer context.AfterFunc(h.closed, cancel)()
	once := sync.OnceFunc(func() { close(ready) })
	result := func(err error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if err != nil {
			err = fmt.Errorf("resilient: %s: not healthy: %w", h.system, err)
		}
		h.err, h.at = err, time.Now()
		once()
	}
	ended := func() error {
		if h.closed.Err() != nil {
			return &ClosedError{System: h.system, Started: true}
		}
		return &TimeoutError{System: h.system, Phase: transport.PhaseTotal, Limit: healthTime}
	}
	stop := context.AfterFunc(ctx, func() { result(ended()) })
	err := errors.New("the probe panicked or ended its goroutine")
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the probe panicked: %v", r)
		}
		if stop() {
			if err != nil && ctx.Err() != nil { // a probe that heeds it may be quicker than we
				err = ended()
			}
			result(err)
		}
		if h.closed.Err() != nil {
			h.idle()
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.running = false
	}()
	err = h.probe(ctx)
}

// A noHTTP error does not say what the system answered, which would be its own words on our pages.
type noHTTP struct{ error }

func (noHTTP) Error() string   { return "the answer was no HTTP, or broke off" }
func (e noHTTP) Unwrap() error { return e.error }

func inOurWords(err error) error {
	_, network := errors.AsType[net.Error](err)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	if network || certificate || errors.Is(err, io.EOF) {
		return err
	}
	return noHTTP{err}
}

// urls are in the errors of an http.Client, which a probe of the user's may return. They may have a token.
var urls = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"]+`)

func withoutURLs(err error) string { return urls.ReplaceAllString(err.Error(), "(URL)") }

// A HealthState is what is known of a system's health.
type HealthState struct {
	Status  string    // unknown (no probe, or none was made), healthy or unhealthy
	Checked time.Time // when; zero if unknown
	Err     error     // nil unless unhealthy
}

// state returns what the last probe found, and makes none.
func (h *health) state() HealthState {
	if h == nil {
		return HealthState{Status: "unknown"}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.at.IsZero():
		return HealthState{Status: "unknown"}
	case h.err != nil:
		return HealthState{"unhealthy", h.at, h.err}
	}
	return HealthState{"healthy", h.at, nil}
}
