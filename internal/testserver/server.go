// Package testserver is a scripted external system: it answers, hangs, breaks off and recovers on command, and knows what reached it.
//
// What it answers is an [http.Handler], so a behaviour of one's own is a plain handler func, and the ones here compose:
//
//	s, err := testserver.Start(testserver.Options{Memory: true})
//	s.Default(testserver.After(2*time.Second, testserver.OK("late")))
//	s.Next(testserver.Burst(3, 503, testserver.HangBeforeHeaders()))
//
// A server whose default is [Tunnel] is a CONNECT proxy; HangBeforeHeaders, HangInHeaders and Status make it a sick one.
// A server with a negative AcceptDelay is a peer that takes connections and says nothing; [BlackHole] is a dial that ends in nothing.
// For redirects there is http.RedirectHandler.
package testserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Protocol is what a Server speaks.
type Protocol int

// The protocols.
const (
	HTTP1 Protocol = iota // HTTP/1.1 in clear
	HTTPS                 // HTTP/1.1 over TLS
	HTTP2                 // HTTP/2 over TLS, by ALPN; a client that offers only HTTP/1.1 gets that
)

var protocolNames = [...]string{HTTP1: "HTTP1", HTTPS: "HTTPS", HTTP2: "HTTP2"}

// String returns the constant's name.
func (p Protocol) String() string {
	if p < 0 || int(p) >= len(protocolNames) {
		return fmt.Sprintf("Protocol(%d)", int(p))
	}
	return protocolNames[p]
}

// Options say what a Server is; the zero value speaks HTTP/1.1 in clear on a loopback socket and answers OK("ok").
type Options struct {
	Protocol Protocol

	// Memory replaces sockets by an in-memory network. Inside a testing/synctest bubble everything on it blocks
	// durably, so that fake time is exact.
	Memory bool

	// AcceptDelay is how long after it was opened a connection is first read from; the dial itself succeeds at once,
	// as it does with a real backlog. Negative is never.
	AcceptDelay time.Duration

	// MaxStreams bounds the concurrent streams of an HTTP/2 connection; 0 is net/http's default.
	MaxStreams int

	// Handler is what requests get until Server.Default says otherwise; nil is OK("ok").
	Handler http.Handler
}

// Server is one external system. Its methods may be called concurrently.
type Server struct {
	options  Options
	listener net.Listener
	memory   *memoryListener // nil on sockets
	http     *http.Server
	done     chan struct{} // closed when Close begins
	served   chan struct{} // closed when the accept loop has returned

	mu      sync.Mutex
	idle    sync.Cond // signalled when running or serving sinks
	closed  bool
	conns   map[*conn]struct{}
	serving int // connections that net/http has not let go of
	running int // handlers that have not returned; Stats.Concurrent may sink earlier
	stats   Stats
	changed chan struct{} // closed at the next change of stats; nil while nobody awaits one
	release chan struct{} // closed by Release, then replaced

	fallback http.Handler
	paths    map[string]http.Handler
	next     []http.Handler
}

// Start starts a Server; inside a synctest bubble it must be a Memory one.
func Start(o Options) (*Server, error) {
	if o.Protocol < HTTP1 || o.Protocol > HTTP2 {
		return nil, fmt.Errorf("testserver: unknown protocol %d", int(o.Protocol))
	}
	if o.Handler == nil {
		o.Handler = OK("ok")
	}
	s := &Server{
		options:  o,
		done:     make(chan struct{}),
		served:   make(chan struct{}),
		conns:    make(map[*conn]struct{}),
		release:  make(chan struct{}),
		fallback: o.Handler,
		paths:    make(map[string]http.Handler),
	}
	s.idle.L = &s.mu
	if err := s.listen(); err != nil {
		return nil, err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(o.Protocol == HTTP2)
	s.http = &http.Server{
		Handler:     http.HandlerFunc(s.serve),
		ConnState:   s.connState,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		Protocols:   &protocols,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: o.MaxStreams},
		ErrorLog:    log.New(logFilter{}, "testserver: ", log.LstdFlags),
	}
	if o.Protocol != HTTP1 {
		id, err := identity()
		if err != nil {
			s.listener.Close()
			return nil, fmt.Errorf("testserver: certificate: %w", err)
		}
		s.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{id.certificate}}
	}
	go func() {
		defer close(s.served)
		if l := (listener{s.listener, s}); o.Protocol == HTTP1 {
			s.http.Serve(l)
		} else {
			s.http.ServeTLS(l, "", "")
		}
	}()
	return s, nil
}

func (s *Server) listen() error {
	if s.options.Memory {
		s.memory = newMemoryListener()
		s.listener = s.memory
		return nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("testserver: %w", err)
	}
	s.listener = l
	return nil
}

// URL returns the base URL, without a slash at its end.
func (s *Server) URL() string {
	scheme := "https://"
	if s.options.Protocol == HTTP1 {
		scheme = "http://"
	}
	if s.options.Memory {
		return scheme + memoryHost
	}
	return scheme + s.listener.Addr().String()
}

// Dial opens a connection to the server, whatever addr says; it is a DialContext.
func (s *Server) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if s.memory != nil {
		return s.memory.dial(ctx)
	}
	return new(net.Dialer).DialContext(ctx, network, s.listener.Addr().String())
}

// BlackHole is a DialContext to a host that drops every packet: it waits until ctx ends.
func BlackHole(ctx context.Context, network, addr string) (net.Conn, error) {
	<-ctx.Done()
	return nil, dialError(ctx.Err())
}

// dialError gives err the shape of net.Dialer's errors.
func dialError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		err = os.ErrDeadlineExceeded
	}
	return &net.OpError{Op: "dial", Net: "tcp", Addr: memoryAddr{}, Err: err}
}

// TLS returns a client configuration of the caller's own that trusts the server, nil in clear.
func (s *Server) TLS() *tls.Config {
	if s.options.Protocol == HTTP1 {
		return nil
	}
	id, _ := identity() // Start has seen it without an error
	return &tls.Config{RootCAs: id.pool}
}

// Transport returns a new bare transport that reaches the server; the caller closes its idle connections, or the server does.
func (s *Server) Transport() *http.Transport {
	return &http.Transport{
		DialContext:       s.Dial,
		TLSClientConfig:   s.TLS(),
		ForceAttemptHTTP2: s.options.Protocol == HTTP2,
	}
}

// Close breaks every connection, ends every hang and waits until all handlers have returned.
// A handler of the caller's own that watches neither its request's context nor Hang holds it up.
func (s *Server) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	open := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		open = append(open, c)
	}
	s.mu.Unlock()

	err := s.http.Close()
	for _, c := range open { // hijacked connections too, which net/http forgets
		c.Close()
	}
	<-s.served // only now is serving complete
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running > 0 || s.serving > 0 {
		s.idle.Wait()
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Server) connState(_ net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.serving++
	case http.StateClosed, http.StateHijacked:
		s.serving--
		s.idle.Broadcast()
	}
}

// logFilter drops what net/http logs when a client gives up a handshake, which is what clients here do.
type logFilter struct{}

func (logFilter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "TLS handshake error") {
		return len(p), nil
	}
	return os.Stderr.Write(p)
}
