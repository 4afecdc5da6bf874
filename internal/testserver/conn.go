package testserver

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"time"
)

// listener counts the connections of a server.
type listener struct {
	net.Listener
	server *Server
}

func (l listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s := l.server
	c := &conn{Conn: inner, server: s, closed: make(chan struct{}), opened: time.Now()}
	closed := false
	s.update(func(st *Stats) {
		if closed = s.closed; closed {
			return
		}
		s.conns[c] = struct{}{}
		st.Conns++
		st.OpenConns++
	})
	if closed {
		inner.Close()
		return nil, net.ErrClosed
	}
	return c, nil
}

// conn is a connection as the server sees it.
type conn struct {
	net.Conn
	server *Server
	opened time.Time
	once   sync.Once
	closed chan struct{}
}

func (c *conn) Read(p []byte) (int, error) {
	delay := c.server.options.AcceptDelay
	if delay < 0 {
		io.Copy(io.Discard, c.Conn) // to notice when the client goes
		return 0, io.EOF
	}
	if wait := delay - time.Since(c.opened); delay > 0 && wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.closed:
		}
	}
	return c.Conn.Read(p)
}

func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		// Before the client can see it.
		c.server.update(func(st *Stats) {
			delete(c.server.conns, c)
			st.OpenConns--
		})
	})
	return c.Conn.Close()
}

// CloseWrite is what net/http calls to let a client read the answer to a request that it has not read.
func (c *conn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}

// reset closes the connection below TLS with a RST.
func (x *exchange) reset() {
	c := x.conn
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if l, ok := c.(*conn).Conn.(interface{ SetLinger(int) error }); ok {
		l.SetLinger(0)
	}
	c.Close()
}
