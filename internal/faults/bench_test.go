package faults_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/faultproxy"
	"github.com/resilient-go/resilient/internal/testserver"
)

// The bounds of the clients here: short, but far enough apart for a busy machine.
var bounds = resilient.Config{
	MaxConnsPerHost: 1, // so that whoever waits in net/http's queue is seen to
	ConnectTimeout:  500 * ms,
	ReadTimeout:     time.Second,
	TotalTimeout:    3 * time.Second,
	Bulkhead:        config.Bulkhead{MaxConcurrent: 1},
	// Open after one failure, half-open almost at once, closed after one success: each exchange shows what it said.
	Breaker: config.Breaker{ConsecutiveFailures: 1, MinRequests: 1_000_000, HalfOpenProbes: 1, OpenFor: ms},
}

// A bench is a client of a system behind a sick network.
type bench struct {
	cell
	proxy   *faultproxy.Proxy
	tunnel  *testserver.Server // a CONNECT proxy, in that phase
	server  *testserver.Server
	url     string      // the system's
	tls     *tls.Config // to reach it; nil in clear
	addr    string      // to dial in its place
	harms   func() error
	client  *resilient.Client
	prom    *prometheus.Registry
	dials   atomic.Int32
	dialled chan time.Time // when they began
	open    atomic.Int32   // connections

	mu          sync.Mutex
	transitions []string

	struck   sync.Once
	received sync.Once
	goOn     chan struct{} // closed when the client has the first part of the body
}

func (c cell) newBench() (*bench, error) {
	b := &bench{cell: c, prom: prometheus.NewRegistry(), dialled: make(chan time.Time, 100), goOn: make(chan struct{})}
	for _, start := range []func() error{b.startServer, b.startProxy, b.startClient, b.halfOpen} {
		if err := start(); err != nil {
			return nil, errors.Join(err, b.stop())
		}
	}
	return b, nil
}

func (b *bench) startServer() (err error) {
	b.server, err = testserver.Start(testserver.Options{Protocol: b.protocol, Handler: http.HandlerFunc(b.answer)})
	if err != nil {
		return err
	}
	b.url, b.tls = b.server.URL(), b.server.TLS()
	if b.phase == connect {
		b.tunnel, err = testserver.Start(testserver.Options{Handler: testserver.Tunnel(nil)})
	}
	return err
}

// startProxy puts the fault proxy next to the client.
func (b *bench) startProxy() error {
	behind := b.server
	if b.tunnel != nil {
		behind = b.tunnel
	}
	at, err := url.Parse(behind.URL())
	if err != nil {
		return err
	}
	if b.proxy, err = faultproxy.Start(at.Host); err != nil {
		return err
	}
	b.addr, b.harms = b.proxy.Addr(), func() error { return b.harm.strike(b.proxy, b.phase) }
	return nil
}

func (b *bench) startClient() (err error) {
	cfg := bounds
	opts := []resilient.Option{
		resilient.WithDialContext(b.dial),
		resilient.WithLogger(slog.New(slog.DiscardHandler)),
		resilient.OnStateChange(func(t resilient.Transition) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.transitions = append(b.transitions, t.To)
		}),
	}
	if b.protocol == testserver.HTTP2 {
		cfg.Protocol = resilient.HTTP2
	}
	if b.tls != nil {
		opts = append(opts, resilient.WithTLSConfig(b.tls))
	}
	if b.tunnel != nil {
		opts = append(opts, resilient.WithProxy(func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.test:3128") }))
	}
	b.client, err = resilient.NewRegistry(resilient.WithRegisterer(b.prom)).NewClient("sber", cfg, opts...)
	return err
}

// dial connects to where the fault is; not the first time, which makes the failure that halfOpen needs.
func (b *bench) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	b.dialled <- time.Now()
	if b.dials.Add(1) == 1 {
		return nil, errors.New("not the first time")
	}
	c, err := new(net.Dialer).DialContext(ctx, network, b.addr)
	if err != nil {
		return nil, err
	}
	if b.phase == upload {
		_ = c.(*net.TCPConn).SetWriteBuffer(64 << 10) // of what the kernel holds we hear nothing
	}
	b.open.Add(1)
	return &conn{TCPConn: c.(*net.TCPConn), bench: b}, nil
}

// A conn counts itself out.
type conn struct {
	*net.TCPConn
	bench *bench
	once  sync.Once
}

func (c *conn) Close() error {
	err := c.TCPConn.Close()
	c.once.Do(func() { c.bench.open.Add(-1) })
	return err
}

// halfOpen makes the breaker half-open: then a success closes it, a failure opens it, and what is neutral does neither.
func (b *bench) halfOpen() error {
	if _, err := b.client.Do(b.request(context.Background(), 1)); err == nil {
		return errors.New("a dial that fails made no failure")
	}
	<-b.dialled
	return b.await("the breaker is not half-open", func() bool {
		b.client.State() // makes it so
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.transitions) == 2
	})
}

func (b *bench) await(what string, ok func() bool) error {
	for range 2000 {
		if ok() {
			return nil
		}
		time.Sleep(5 * ms)
	}
	return errors.New(what)
}

// request is a payment: a POST that net/http does not repeat by itself.
func (b *bench) request(ctx context.Context, size int) *http.Request {
	body := struct{ io.Reader }{io.LimitReader(zeros{}, int64(size))}
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/pay", body)
	req.ContentLength = int64(size)
	return req
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

const firstPart, wholeBody = 100, 1000

// answer is the system. It does the harm of the phases that it can see begin, once.
func (b *bench) answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case b.phase == upload:
		b.strike()
		testserver.OK("ok").ServeHTTP(w, r)
	case b.phase == headers:
		_, _ = io.Copy(io.Discard, r.Body)
		b.strike()
		testserver.Status(http.StatusOK, "X-Pad", strings.Repeat("x", 200)).ServeHTTP(w, r)
	case b.phase == upgrade && r.Header.Get("Upgrade") != "":
		testserver.Upgrade().ServeHTTP(w, r)
	case b.phase == body:
		b.answerInParts(w, r)
	default:
		testserver.OK("ok").ServeHTTP(w, r)
	}
}

// answerInParts waits with the second part until the client has the first one, and then sends it in small pieces: over TLS
// a large one would not be there before its last byte.
func (b *bench) answerInParts(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Length", fmt.Sprint(wholeBody))
	size := firstPart
	for sent := 0; sent < wholeBody; sent += size {
		if sent == firstPart {
			size = 10
			select {
			case <-b.goOn:
			case <-r.Context().Done():
				return
			}
		}
		if _, err := w.Write(make([]byte, size)); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
	}
}

func (b *bench) strike() (err error) {
	b.struck.Do(func() { err = b.harms() })
	return err
}

// stop closes everything, and says if something stays open.
func (b *bench) stop() (err error) {
	if b.client != nil {
		b.client.Close()
		err = b.await("connections are left", func() bool { return b.open.Load() == 0 })
	}
	if b.proxy != nil {
		b.proxy.Close()
	}
	for _, s := range []*testserver.Server{b.tunnel, b.server} {
		if s != nil {
			s.Close()
		}
	}
	return err
}
