package resilient

import (
	"net/http"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/transport"
)

// A pool is a transport of the client's own, counted by the exchanges that use
// it: when Reconfigure has put another in its place, the last of them closes its
// idle connections once more, and none after it can revive it.
type pool struct {
	*http.Transport
	send     http.RoundTripper // it, with the layers of WithInner around it
	protocol config.Protocol
	users    int  // guarded by the lock of stats, as is retired
	retired  bool // another is in its place
}

func (c *Client) newPool(cfg Config) *pool {
	t := transport.Base(cfg)
	t.DialContext = (&transport.Dialer{Timeout: cfg.ConnectTimeout, Dial: c.opts.dial, Opened: func() { c.opened.Add(1) }}).DialContext
	if c.opts.tls != nil {
		t.TLSClientConfig = c.opts.tls.Clone() // net/http may change it
	}
	if c.opts.proxy != nil {
		t.Proxy = c.opts.proxy
	}
	return &pool{Transport: t, send: transport.Chain(t, c.opts.inner...), protocol: cfg.Protocol}
}

// RoundTrip is the transport's, seen through the layers of WithInner.
func (p *pool) RoundTrip(req *http.Request) (*http.Response, error) { return p.send.RoundTrip(req) }

// samePool reports whether the transports of a and b are alike.
func samePool(a, b Config) bool {
	settings := func(c Config) Config {
		s := Config{MaxConnsPerHost: c.MaxConnsPerHost, MaxIdleConnsPerHost: c.MaxIdleConnsPerHost, IdleConnTimeout: c.IdleConnTimeout,
			MaxResponseHeaderBytes: c.MaxResponseHeaderBytes, Protocol: c.Protocol, ConnectTimeout: c.ConnectTimeout}
		if c.Protocol == config.HTTP2 {
			s.ReadTimeout = c.ReadTimeout // bounds its pings
		}
		return s
	}
	return settings(a) == settings(b)
}

// lease counts x among the users of the pool. It is called when x is admitted: as many as there
// are permits then find connections in the pool of then, however long they waited.
func (s *stats) lease(_ *exchange.Exchange, h *exchange.Hold) http.RoundTripper {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pool.users++
	h.Token = s.pool
	return s.pool
}

// swap makes p the pool. The old one's idle connections are closed now, and again with its last
// exchange, since one that was given it before may use it only then.
func (s *stats) swap(p *pool) {
	s.mu.Lock()
	old := s.pool
	s.pool = p
	if old != nil {
		old.retired = true
	}
	s.mu.Unlock()
	if old != nil {
		closeIdle(old, old.protocol)
	}
}

func (s *stats) current() *pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pool
}

// closeIdle closes the connections of rt that are not in use. Over HTTP/2 it
// may not have seen yet that the last stream of one has ended.
func closeIdle(rt http.RoundTripper, protocol config.Protocol) {
	c := &http.Client{Transport: rt}
	c.CloseIdleConnections()
	if protocol == config.HTTP2 {
		time.AfterFunc(time.Second, c.CloseIdleConnections)
	}
}

// ownBase is what is below a client's own chain: the pool in use. Exchanges
// bring the one that they are counted in.
type ownBase Client

func (b *ownBase) RoundTrip(req *http.Request) (*http.Response, error) {
	return b.stats.current().RoundTrip(req)
}

func (b *ownBase) CloseIdleConnections() { b.stats.current().CloseIdleConnections() }
