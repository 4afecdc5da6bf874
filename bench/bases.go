package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
)

var silent = slog.New(slog.DiscardHandler)

// noNetwork is a base that does of http.Transport's work what layers can make dearer: it derives a context for each
// request, which ends with the body, and makes a response. Its header and the bytes of its body are everybody's.
type noNetwork struct {
	status  int
	content string
}

func newNoNetwork(status int, content string) *noNetwork { return &noNetwork{status, content} }

var noHeader = http.Header{}

// CloseIdleConnections has nothing to do.
func (*noNetwork) CloseIdleConnections() {}

func (b *noNetwork) RoundTrip(req *http.Request) (*http.Response, error) {
	_, cancel := context.WithCancelCause(req.Context())
	if req.Body != nil {
		_, err := io.Copy(io.Discard, req.Body)
		req.Body.Close()
		if err != nil {
			cancel(err)
			return nil, err
		}
	}
	return &http.Response{
		Status: "200 OK", StatusCode: b.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: noHeader,
		ContentLength: int64(len(b.content)), Body: &noNetworkBody{left: b.content, cancel: cancel}, Request: req,
	}, nil
}

type noNetworkBody struct {
	left   string
	cancel context.CancelCauseFunc
}

func (b *noNetworkBody) Read(p []byte) (int, error) {
	if b.left == "" {
		b.cancel(context.Canceled)
		return 0, io.EOF
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

func (b *noNetworkBody) Close() error {
	b.cancel(context.Canceled)
	return nil
}

// A site is an HTTP server on the loopback interface, in this process, as plain as net/http makes it.
type site struct {
	url    string
	server *http.Server
	conns  atomic.Int64 // accepted
}

func startSite(h http.Handler) (*site, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("no server on the loopback interface: %w", err)
	}
	s := &site{url: "http://" + l.Addr().String() + "/"}
	s.server = &http.Server{Handler: h, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}}
	go func() { _ = s.server.Serve(l) }()
	return s, nil
}

func (s *site) close() { _ = s.server.Close() }

// ok reads the request and answers with two bytes.
func ok(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, "ok")
}
