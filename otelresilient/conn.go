package otelresilient

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// watchDials has t, the client's own transport, which nobody uses yet, count its connections.
func (s *system) watchDials(t *http.Transport) {
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return s.opened(c, addr), nil
	}
}

// A conn is a connection that is counted: as active while attempts use it, and idle otherwise.
type conn struct {
	net.Conn
	s            *system
	begun        time.Time
	all          attribute.Set
	idle, active metric.MeasurementOption

	mu     sync.Mutex
	users  int
	closed bool
}

func (s *system) opened(inner net.Conn, addr string) *conn {
	host, text, _ := net.SplitHostPort(addr)
	port, _ := strconv.Atoi(text)
	attrs := append(s.serverAttributes(hostPort{host, port}), s.name)
	// NewSet sorts what it is given.
	state := func(word string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(append(slices.Clone(attrs), semconv.HTTPConnectionStateKey.String(word))...))
	}
	c := &conn{Conn: inner, s: s, begun: time.Now(), all: attribute.NewSet(slices.Clone(attrs)...), idle: state("idle"), active: state("active")}
	s.openConnections.Add(background, 1, c.idle)
	return c
}

// use counts n more users. A connection that is not known is nil.
func (c *conn) use(n int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.users > 0
	c.users += n
	is := c.users > 0
	if was == is || c.closed {
		return
	}
	c.count(was, -1)
	c.count(is, 1)
}

func (c *conn) count(active bool, n int64) {
	state := c.idle
	if active {
		state = c.active
	}
	c.s.openConnections.Add(background, n, state)
}

// Close closes the connection. It may be called again.
func (c *conn) Close() error {
	defer c.gone()
	return c.Conn.Close()
}

func (c *conn) gone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	c.count(c.users > 0, -1)
	c.s.connectionDuration.Record(background, time.Since(c.begun).Seconds(), metric.WithAttributeSet(c.all))
}

// CloseWrite is what an upgraded connection needs.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return http.ErrNotSupported
}

// ours returns the conn below what net/http uses, which may be TLS over it, or nil.
func ours(c net.Conn) *conn {
	for c != nil {
		if own, ok := c.(*conn); ok {
			return own
		}
		outer, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = outer.NetConn()
	}
	return nil
}
