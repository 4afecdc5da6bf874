package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-cleanhttp"

	"github.com/resilient-go/resilient/config"
)

// Base returns the transport for one system, never to be shared with another:
// go-cleanhttp's pooled one with the limits of cfg, which must be complete.
//
// As many idle connections are kept as there may be: net/http keeps 2, and
// throws the others away in every burst. HTTP/2 is off unless cfg asks for it,
// since it does not keep MaxConnsPerHost (golang/go#34941). Proxies are those
// of the environment, as net/http reads them.
//
// Dialling, the TLS handshake and a proxy's part of making a connection are
// bounded by ConnectTimeout each. The dial goes on when its request has ended,
// and keeps its place among MaxConnsPerHost that long. Behind a proxy with an
// https address it may do so for net/http's own minute.
func Base(cfg config.Config) *http.Transport {
	t := cleanhttp.DefaultPooledTransport()
	t.DialContext = (&Dialer{Timeout: cfg.ConnectTimeout}).DialContext
	t.TLSHandshakeTimeout = cfg.ConnectTimeout
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	t.MaxConnsPerHost = cfg.MaxConnsPerHost
	t.MaxIdleConnsPerHost = cfg.MaxIdleConnsPerHost
	t.MaxIdleConns = 0 // no limit over all hosts: it would win over the one per host
	t.IdleConnTimeout = cfg.IdleConnTimeout
	t.MaxResponseHeaderBytes = cfg.MaxResponseHeaderBytes
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	if cfg.Protocol == config.HTTP2 {
		t.Protocols.SetHTTP2(true)
		// Without pings a dead connection stays until the kernel gives up on it. Without a bound on writes one whose peer
		// sends, but takes nothing, stays for ever, with a goroutine for each request that it cost; the read bound comes
		// first, and says what it was.
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: cfg.ReadTimeout, WriteByteTimeout: 2 * cfg.ReadTimeout}
	}
	return t
}

// A Dialer makes the connections of a Base. It is exported for transports that
// set DialContext themselves and want the same bounds.
type Dialer struct {
	Timeout time.Duration // for the dial, and for a proxy's answer; 0 = none
	// Dial is used in place of a net.Dialer, if not nil. It should heed its context.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Opened, if not nil, is called for each connection made.
	Opened func()
}

// DialContext makes a connection. Its errors, which say the same as those of
// Dial, are known to [NotSent].
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := d.Dial
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	conn, err := dial(ctx, network, addr)
	if err != nil {
		return nil, &dialError{err: err, limit: d.Timeout}
	}
	if d.Opened != nil {
		d.Opened()
	}
	return &proxyConn{Conn: conn, timeout: d.Timeout}, nil
}

// A dialError says what err says, and that no connection was made.
type dialError struct {
	err    error
	limit  time.Duration
	unsent bool // it proves that nothing of the request was sent: see Timeouts.failed
}

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

func (e *dialError) Timeout() bool {
	t, ok := errors.AsType[net.Error](e.err)
	return ok && t.Timeout()
}

// Temporary is false; it makes a dialError a [net.Error].
func (e *dialError) Temporary() bool { return false }

// A proxyConn bounds how long a proxy may take for its part: net/http waits a
// minute for the answer to CONNECT, for ever in SOCKS, and meanwhile the
// connection has its place among MaxConnsPerHost. The deadline is set when
// something is said to a proxy, and cleared at the first word that is not for it.
// What is said inside TLS, to a proxy with an https address, it can't see.
type proxyConn struct {
	net.Conn
	timeout time.Duration
	talk    atomic.Int32
}

const (
	talkNew    = iota // nothing has been said
	talkHeader        // part of a CONNECT
	talkProxy         // the last word was for a proxy: its answer has to come in time
	talkOn            // the rest is for the system
)

func (c *proxyConn) Write(p []byte) (int, error) {
	if talk := c.talk.Load(); talk != talkOn && c.timeout > 0 && len(p) > 0 {
		c.look(talk, p)
	}
	n, err := c.Conn.Write(p)
	return n, c.dialing(err)
}

func (c *proxyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.talk.Load() == talkProxy && bytes.Contains(p[:n], []byte("\r\n\r\n")) {
		c.talk.Store(talkOn) // the answer is complete, whoever asked: CONNECT may be a request of the caller's
		_ = c.Conn.SetDeadline(time.Time{})
	}
	return n, c.dialing(err)
}

// CloseWrite is what an upgraded connection needs.
func (c *proxyConn) CloseWrite() error {
	if cw, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *proxyConn) look(talk int32, p []byte) {
	const greeting, auth, handshake = 5, 1, 22 // how SOCKS and TLS begin; HTTP does with a letter
	next := int32(talkOn)
	switch connect := talk == talkNew && bytes.HasPrefix(p, []byte("CONNECT ")) || talk == talkHeader && p[0] != handshake; {
	case connect && bytes.HasSuffix(p, []byte("\r\n\r\n")), p[0] == greeting, talk == talkProxy && p[0] == auth:
		next = talkProxy
	case connect:
		next = talkHeader
	}
	c.talk.Store(next)
	if next != talkOn {
		_ = c.Conn.SetDeadline(time.Now().Add(c.timeout))
	} else if talk != talkNew {
		_ = c.Conn.SetDeadline(time.Time{})
	}
}

// dialing makes err, if it is a proxy's silence, the dial's timeout that it is.
func (c *proxyConn) dialing(err error) error {
	if talk := c.talk.Load(); err == nil || talk == talkNew || talk == talkOn || !os.IsTimeout(err) {
		return err
	}
	return &dialError{err: err, limit: c.timeout}
}
