package testserver

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
)

// HangBeforeHeaders reads the request and is silent until Release, then answers 200.
func HangBeforeHeaders() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Hang(r)
		io.WriteString(w, "ok")
	})
}

// HangUnread is HangBeforeHeaders without reading the request, so that a large upload gets stuck.
// Over HTTP/1 it does not notice that a client with an unread body has gone.
func HangUnread() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hang(r)
		io.WriteString(w, "ok")
	})
}

// HangInHeaders sends half a header block and is silent until Release, then sends the rest and closes the connection.
// net/http can't send half a block over HTTP/2: there it is HangBeforeHeaders.
func HangInHeaders() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor >= 2 {
			HangBeforeHeaders().ServeHTTP(w, r)
			return
		}
		drain(r)
		// Written below net/http rather than after a hijack, so that it goes on watching the client.
		x := from(r)
		io.WriteString(x.conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Half: ")
		Hang(r)
		x.end()
		io.WriteString(x.conn, "whole\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
		panic(http.ErrAbortHandler)
	})
}

// CloseBeforeHeaders reads the request and closes the connection, in good order but without an answer.
func CloseBeforeHeaders() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		x := from(r)
		x.end()
		x.conn.Close()
		panic(http.ErrAbortHandler)
	})
}

// Reset reads the request and resets the connection (RST), under HTTP/2 with all its streams.
// Of a client that both reads and writes, as HTTP/2 does, one side gets ECONNRESET and the other EPIPE or io.EOF.
func Reset() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		x := from(r)
		x.end()
		x.reset()
		panic(http.ErrAbortHandler)
	})
}

// Abort reads the request and breaks off without an answer: over HTTP/1 the connection, over HTTP/2 only the stream.
func Abort() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		panic(http.ErrAbortHandler)
	})
}

// Upgrade answers 101 to an HTTP/1.1 request for an upgrade and echoes what the client sends until it closes.
func Upgrade() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocol := r.Header.Get("Upgrade")
		if protocol == "" || r.ProtoMajor != 1 {
			w.WriteHeader(http.StatusUpgradeRequired)
			return
		}
		c, buf := hijack(w, r, "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+protocol)
		io.Copy(c, buf)
		from(r).end()
		c.Close()
	})
}

// Tunnel makes the server a proxy: it connects CONNECT requests by dial and forwards others; a nil dial is net.Dialer's.
func Tunnel(dial func(ctx context.Context, network, addr string) (net.Conn, error)) http.Handler {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	forward := &httputil.ReverseProxy{
		Rewrite:   func(*httputil.ProxyRequest) {},
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			forward.ServeHTTP(w, r)
			return
		}
		there, err := dial(r.Context(), "tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		here, buf := hijack(w, r, "200 Connection Established")
		back := make(chan struct{})
		go func() {
			defer close(back)
			io.Copy(here, there)
			from(r).end()
			here.Close()
		}()
		io.Copy(there, buf)
		from(r).end()
		there.Close()
		<-back
	})
}

// hijack takes the connection over and writes a header block. Server.Close closes it.
func hijack(w http.ResponseWriter, r *http.Request, head string) (net.Conn, *bufio.Reader) {
	c, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	io.WriteString(c, "HTTP/1.1 "+head+"\r\n\r\n")
	return c, buf.Reader
}
