package transport_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

func TestBaseFields(t *testing.T) {
	for _, p := range []config.Protocol{config.HTTP1, config.HTTP2} {
		cfg := complete(t, config.Config{
			MaxConnsPerHost: 7, MaxIdleConnsPerHost: 5, IdleConnTimeout: 11 * sec, MaxResponseHeaderBytes: 1234,
			ConnectTimeout: 2 * sec, ReadTimeout: 3 * sec, Protocol: p,
		})
		b := transport.Base(cfg)
		for what, ok := range map[string]bool{
			"MaxConnsPerHost":        b.MaxConnsPerHost == 7,
			"MaxIdleConnsPerHost":    b.MaxIdleConnsPerHost == 5,
			"MaxIdleConns":           b.MaxIdleConns == 0,
			"IdleConnTimeout":        b.IdleConnTimeout == 11*sec,
			"MaxResponseHeaderBytes": b.MaxResponseHeaderBytes == 1234,
			"TLSHandshakeTimeout":    b.TLSHandshakeTimeout == 2*sec,
			"ResponseHeaderTimeout":  b.ResponseHeaderTimeout == 0, // it can't be lifted
			"ExpectContinueTimeout":  b.ExpectContinueTimeout > 0,
			"DisableKeepAlives":      !b.DisableKeepAlives,
			"DisableCompression":     !b.DisableCompression,
			"TLS":                    b.TLSClientConfig.MinVersion == tls.VersionTLS12 && !b.TLSClientConfig.InsecureSkipVerify,
			"Proxy":                  b.Proxy != nil,
			"HTTP/1.1":               b.Protocols.HTTP1(),
			"HTTP/2":                 b.Protocols.HTTP2() == (p == config.HTTP2) && !b.Protocols.UnencryptedHTTP2(),
			"HTTP/2 pings":           p == config.HTTP1 && b.HTTP2 == nil || p == config.HTTP2 && b.HTTP2.SendPingTimeout == 15*sec && b.HTTP2.PingTimeout == 3*sec && b.HTTP2.WriteByteTimeout == 6*sec && !b.HTTP2.StrictMaxConcurrentRequests,
		} {
			if !ok {
				t.Errorf("%s: %s", p, what)
			}
		}
		if other := transport.Base(cfg); other == b || other.TLSClientConfig == b.TLSClientConfig || other.Protocols == b.Protocols {
			t.Error("two bases share something")
		}
	}
	if b := transport.Base(complete(t, config.Config{})); b.MaxConnsPerHost != 20 || b.MaxIdleConnsPerHost != 20 || b.IdleConnTimeout != 50*sec {
		t.Errorf("defaults: %+v", b)
	}
}

// http.DefaultTransport is neither asked nor touched (C-11).
func TestDefaultTransportIsNotTouched(t *testing.T) {
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	http.DefaultTransport = fake(func(*http.Request) (*http.Response, error) {
		t.Error("used")
		return nil, errDown
	})
	r := newRig(t, testserver.Options{}, config.Config{})
	if err := get(r, r.all()); err != nil {
		t.Error(err)
	}
	(&http.Client{Transport: r.all()}).CloseIdleConnections()
}

// The connect bounds, in the phases of a connection.
func TestConnectTimeouts(t *testing.T) {
	for name, row := range map[string]struct {
		o     testserver.Options
		dial  func(context.Context, string, string) (net.Conn, error)
		phase transport.Phase
	}{
		"dial":              {testserver.Options{}, testserver.BlackHole, transport.PhaseConnect},
		"dial for TLS":      {testserver.Options{Protocol: testserver.HTTPS}, testserver.BlackHole, transport.PhaseConnect},
		"handshake":         {testserver.Options{Protocol: testserver.HTTPS, AcceptDelay: -1}, nil, transport.PhaseTLS},
		"handshake, HTTP/2": {testserver.Options{Protocol: testserver.HTTP2, AcceptDelay: -1}, nil, transport.PhaseTLS},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				row.o.Memory = true
				r := newRig(t, row.o, oneProbe)
				if row.dial != nil {
					r.dial(row.dial)
				}
				var err error
				var d time.Duration
				if got := r.verdict(func() { d = took(func() { err = get(r, r.all()) }) }); got != failure || d != sec {
					t.Errorf("%s after %v", got, d)
				}
				isTimeout(t, err, row.phase, sec)
				// over a foreign base the same, of a limit unknown
				if err = get(r, transport.Timeout("sber", transport.Bounds{})(r.own)); row.phase == transport.PhaseTLS {
					isTimeout(t, err, row.phase, 0)
				} else {
					isTimeout(t, err, row.phase, sec)
				}
				d = took(func() { err = within(500*ms)(r, r.all()) }) // the caller's end comes first
				isTimeout(t, err, transport.PhaseDeadline, 450*ms)
				if d != 450*ms {
					t.Error(d)
				}
			})
		})
	}
}

// The handshake on a real socket with a server that never speaks (E-04).
func TestHandshakeTimeoutOnASocket(t *testing.T) {
	r := newRig(t, testserver.Options{Protocol: testserver.HTTPS, AcceptDelay: -1}, config.Config{ConnectTimeout: 300 * ms})
	var err error
	if d := took(func() { err = get(r, r.all()) }); d < 300*ms || d > 20*sec {
		t.Errorf("after %v", d)
	}
	isTimeout(t, err, transport.PhaseTLS, 300*ms)
}

// Other failures of a dial are what they were.
func TestDialErrors(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	r := newRig(t, testserver.Options{}, config.Config{})
	r.dial(func(context.Context, string, string) (net.Conn, error) { return nil, refused })
	err := get(r, r.all())
	op, ok := errors.AsType[*net.OpError](err)
	n, isNet := err.(net.Error)
	if !ok || op != refused || !errors.Is(err, syscall.ECONNREFUSED) || err.Error() != refused.Error() || !isNet || n.Timeout() {
		t.Errorf("%T: %v", err, err)
	}
}

func TestDialerOpened(t *testing.T) {
	r := newRig(t, testserver.Options{}, config.Config{})
	opened := 0
	d := &transport.Dialer{Dial: r.server.Dial, Opened: func() { opened++ }}
	r.own.DialContext = d.DialContext
	for range 3 {
		if err := get(r, r.all()); err != nil {
			t.Fatal(err)
		}
	}
	d.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errDown }
	r.own.CloseIdleConnections()
	if err := get(r, r.all()); !errors.Is(err, errDown) || opened != 1 {
		t.Errorf("%v, %d opened", err, opened)
	}
	conn, err := (&transport.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.server.URL(), "http://")) // net.Dialer's
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// A dial outlives its request and keeps its place, for ConnectTimeout at most:
// so long, and no longer, may the next one wait in net/http's queue.
func TestQueueOfNetHTTP(t *testing.T) {
	cfg := config.Config{MaxConnsPerHost: 1}
	inBoth(t, cfg, func(r *rig) {
		next := testserver.BlackHole
		r.dial(func(ctx context.Context, network, addr string) (net.Conn, error) {
			dial := next
			next = r.server.Dial
			return dial(ctx, network, addr)
		})
		err := within(50*ms)(r, r.timeouts.Wrap(r.base))
		isTimeout(r.T, err, transport.PhaseDeadline, 45*ms)
		waited := took(func() { err = get(r, r.timeouts.Wrap(r.base)) })
		if err != nil || waited != sec-45*ms {
			r.Errorf("the next one waited %v: %v", waited, err)
		}
	})
	inBoth(t, cfg, func(r *rig) { // many callers that give up leave no more dials than there may be
		var mu sync.Mutex
		dials, most := 0, 0
		r.dial(func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			dials++
			most = max(most, dials)
			mu.Unlock()
			defer func() { mu.Lock(); dials--; mu.Unlock() }()
			return testserver.BlackHole(ctx, network, addr)
		})
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() { _ = cancelAfter(20*ms, nil)(r, r.timeouts.Wrap(r.base)) })
		}
		all.Wait()
		r.held(0)
		if most != 1 {
			r.Errorf("%d dials at once", most)
		}
		time.Sleep(2 * sec)
	})
}

func TestMaxResponseHeaderBytes(t *testing.T) {
	cfg := oneProbe
	cfg.MaxResponseHeaderBytes = 1 << 10
	inBoth(t, cfg, func(r *rig) {
		r.server.Default(testserver.HugeHeaders(500))
		if err := get(r, r.all()); err != nil {
			r.Error(err)
		}
		r.server.Default(testserver.HugeHeaders(8 << 10))
		if d := took(func() {
			if err := get(r, r.all()); err == nil {
				r.Error("let through")
			}
		}); d != 0 {
			r.Errorf("after %v", d)
		}
		r.state("open")
	})
}

func TestIdleConnTimeout(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		for i, row := range []struct {
			idle  time.Duration
			conns int
		}{{0, 1}, {50*sec - 1, 1}, {50*sec + 1, 2}} {
			time.Sleep(row.idle)
			synctest.Wait()
			if err := get(r, r.all()); err != nil || r.server.Stats().Conns != row.conns {
				r.Errorf("%d: %v, %d connections", i, err, r.server.Stats().Conns)
			}
		}
	})
}

// HTTP/2 only on demand, even where the server offers it.
func TestProtocol(t *testing.T) {
	for _, p := range []config.Protocol{config.HTTP1, config.HTTP2} {
		s, err := testserver.Start(testserver.Options{Protocol: testserver.HTTP2})
		if err != nil {
			t.Fatal(err)
		}
		b := transport.Base(complete(t, config.Config{Protocol: p}))
		b.TLSClientConfig.RootCAs = s.TLS().RootCAs
		resp, err := b.RoundTrip(newRequest(t, t.Context(), "GET", s.URL(), nil))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if want := map[config.Protocol]int{config.HTTP1: 1, config.HTTP2: 2}[p]; resp.ProtoMajor != want {
			t.Errorf("%s: %s", p, resp.Proto)
		}
		b.CloseIdleConnections()
		s.Close()
	}
}

// A Dial of one's own may word its errors itself.
func TestWrappedDialTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, config.Config{})
		r.dial(func(ctx context.Context, network, addr string) (net.Conn, error) {
			_, err := testserver.BlackHole(ctx, network, addr)
			return nil, fmt.Errorf("ssh tunnel: %w", err)
		})
		_, err := r.get(t.Context(), r.all())
		isTimeout(t, err, transport.PhaseConnect, sec)
	})
}
