package testserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Default sets what requests get from now on, unless Next or On says otherwise.
func (s *Server) Default(h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fallback = h
}

// On sets what requests for a path get from now on; "CONNECT" is the path of CONNECT requests, nil gives the path back to the default.
func (s *Server) On(path string, h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h == nil {
		delete(s.paths, path)
		return
	}
	s.paths[path] = h
}

// Next adds handlers that serve one request each, in the order of arrival and before all others.
func (s *Server) Next(h ...http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = append(s.next, h...)
}

func (s *Server) handler(path string) http.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.next) > 0 {
		h := s.next[0]
		s.next = s.next[1:]
		return h
	}
	if h, ok := s.paths[path]; ok {
		return h
	}
	return s.fallback
}

// Release lets every request that hangs now go on: it gets its answer. Stats.Hanging tells how many there are.
func (s *Server) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.release)
	s.release = make(chan struct{})
}

type (
	connKey     struct{} // of the net.Conn in a connection's context
	exchangeKey struct{} // of the *exchange in a request's context
)

// exchange is one request from its arrival to its end.
type exchange struct {
	server *Server
	conn   net.Conn // below net/http: a *conn, or a *tls.Conn over one
	ctx    context.Context
	ended  bool // guarded by server.mu
}

func from(r *http.Request) *exchange {
	x, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		panic("testserver: a request that no Server serves")
	}
	return x
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if r.Method == http.MethodConnect {
		path = http.MethodConnect
	}
	x := &exchange{server: s, ctx: r.Context()}
	x.conn, _ = r.Context().Value(connKey{}).(net.Conn)
	if !s.begin(path) {
		panic(http.ErrAbortHandler)
	}
	defer func() {
		x.end()
		s.mu.Lock()
		s.running--
		s.idle.Broadcast()
		s.mu.Unlock()
	}()
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	if r.ContentLength != 0 {
		r.Body = &countedBody{ReadCloser: r.Body, server: s}
	}
	s.handler(path).ServeHTTP(w, r)
}

// end takes the request out of Concurrent. What lets the client see the end of its exchange before the handler returns
// calls it first, or a client at its limit could send the next request and be found above it.
func (x *exchange) end() {
	x.server.update(func(s *Stats) {
		if x.ended {
			return
		}
		x.ended = true
		s.Concurrent--
		if x.ctx.Err() != nil && !x.server.closed {
			s.Aborted++
		}
	})
}

// Hang reads the request body and blocks until Release. If the client goes away or the server is closed it panics
// with http.ErrAbortHandler, which ends the handler as net/http means it.
func Hang(r *http.Request) {
	// Over HTTP/1, net/http notices that a client has gone only once the body has been read.
	drain(r)
	hang(r)
}

func hang(r *http.Request) {
	s := from(r).server
	var release chan struct{}
	s.update(func(st *Stats) { release = s.release; st.Hanging++ })
	defer s.update(func(st *Stats) { st.Hanging-- })
	select {
	case <-release:
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	case <-s.done:
		panic(http.ErrAbortHandler)
	}
}

// Sleep waits; if the client goes away or the server is closed it panics as Hang does.
func Sleep(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	case <-from(r).server.done:
		panic(http.ErrAbortHandler)
	}
}

// drain reads the request body to its end.
func drain(r *http.Request) {
	// Over HTTP/1, net/http has read and closed the body once headers are out.
	if _, err := io.Copy(io.Discard, r.Body); err != nil && !errors.Is(err, http.ErrBodyReadAfterClose) {
		panic(http.ErrAbortHandler)
	}
}
