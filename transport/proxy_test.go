package transport_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// A detour is a rig whose base goes through a proxy of r.server's kind to system.
type detour struct {
	*rig
	system *testserver.Server
}

func through(t *testing.T, system testserver.Protocol) *detour {
	t.Helper()
	cfg := oneProbe
	cfg.MaxConnsPerHost = 1
	d := &detour{rig: newRig(t, testserver.Options{Memory: true}, cfg)}
	var err error
	if d.system, err = testserver.Start(testserver.Options{Protocol: system, Memory: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.own.CloseIdleConnections(); d.server.Close(); d.system.Close() })
	d.own.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(d.server.URL()) }
	d.own.TLSClientConfig = d.system.TLS()
	d.server.Default(testserver.Tunnel(d.system.Dial))
	return d
}

func (d *detour) get(ctx context.Context) error {
	d.Helper()
	_, err := read(d.all().RoundTrip(newRequest(d.T, ctx, "GET", d.system.URL()+"/", nil)))
	return err
}

// A proxy that says nothing, or half of its answer, is given up after
// ConnectTimeout, and its connection's place is free at once.
func TestProxyThatHangs(t *testing.T) {
	for name, h := range map[string]http.Handler{
		"before its answer": testserver.HangBeforeHeaders(),
		"within its answer": testserver.HangInHeaders(),
		"after its answer": http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { // then it is the handshake's bound
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := through(t, testserver.HTTPS)
				d.server.Next(h)
				var err error
				var after time.Duration
				if got := d.verdict(func() { after = took(func() { err = d.get(t.Context()) }) }); got != failure || after != sec {
					t.Errorf("%s after %v", got, after)
				}
				phase := transport.PhaseConnect
				if name == "after its answer" {
					phase = transport.PhaseTLS
				}
				isTimeout(t, err, phase, sec)
				if after = took(func() { err = d.get(t.Context()) }); err != nil || after != 0 {
					t.Errorf("the next one: after %v, %v", after, err)
				}
			})
		})
	}
}

// A caller that gives up leaves the place taken for ConnectTimeout at most.
func TestProxyThatHangsAndACallerThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := through(t, testserver.HTTPS)
		d.server.Next(testserver.HangBeforeHeaders())
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		isTimeout(t, d.get(ctx), transport.PhaseDeadline, 90*ms)
		var err error
		if after := took(func() { err = d.get(t.Context()) }); err != nil || after != sec-90*ms {
			t.Errorf("after %v, %v", after, err)
		}
	})
}

// A proxy that does its part is not harmed: neither by a slow system behind it
// nor by idle time, and the connection is kept.
func TestProxyThatWorks(t *testing.T) {
	for _, p := range []testserver.Protocol{testserver.HTTP1, testserver.HTTPS, testserver.HTTP2} {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := through(t, p)
				d.server.Next(testserver.After(900*ms, testserver.Tunnel(d.system.Dial)))
				for _, h := range []http.Handler{
					testserver.OK("ok"), testserver.After(4*sec, testserver.OK("ok")), testserver.Trickle(1, 3*sec, 2), testserver.OK("ok"),
				} {
					d.system.Default(h)
					if err := d.get(t.Context()); err != nil {
						t.Error(err)
					}
					time.Sleep(40 * sec)
				}
				if n := d.server.Stats().Conns; n != 1 {
					t.Errorf("%d connections to the proxy", n)
				}
			})
		})
	}
}

// What a proxy refuses is the system's failure, and no timeout.
func TestProxyThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := through(t, testserver.HTTPS)
		d.server.Default(testserver.Status(502))
		var err error
		if got := d.verdict(func() { err = d.get(t.Context()) }); got != failure || err == nil || errors.Is(err, transport.ErrTimeout) {
			t.Errorf("%s, %v", got, err)
		}
		d.dial(func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		})
		if err = d.get(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error(err)
		}
		d.dial(testserver.BlackHole)
		time.Sleep(31 * sec)
		isTimeout(t, d.get(t.Context()), transport.PhaseConnect, sec)
	})
}

// A socks server says as much of its part as it is told to, then goes on for
// the system or hangs.
func socks(t *testing.T, system *testserver.Server, words int, auth bool) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			buf := make([]byte, 512)
			answers := [][]byte{{5, 0}, {5, 0, 0, 1, 0, 0, 0, 0, 0, 0}}
			if auth {
				answers = [][]byte{{5, 2}, {1, 0}, answers[1]}
			}
			for i, answer := range answers {
				if _, err := there.Read(buf); err != nil {
					return
				}
				if i == words {
					_, _ = io.Copy(io.Discard, there) // until the client gives up
					return
				}
				if _, err := there.Write(answer); err != nil {
					return
				}
			}
			conn, err := system.Dial(context.WithoutCancel(ctx), "", "")
			if err != nil {
				t.Error(err)
				return
			}
			go func() { _, _ = io.Copy(conn, there); conn.Close() }()
			_, _ = io.Copy(there, conn)
		}()
		return here, nil
	}
}

func TestSOCKS(t *testing.T) {
	const all = 9
	for _, row := range []struct {
		words int
		auth  bool
	}{{0, false}, {1, false}, {all, false}, {0, true}, {1, true}, {2, true}, {all, true}} {
		for _, p := range []testserver.Protocol{testserver.HTTP1, testserver.HTTPS} {
			synctest.Test(t, func(t *testing.T) {
				d := through(t, p)
				d.own.Proxy = func(*http.Request) (*url.URL, error) {
					if row.auth {
						return url.Parse("socks5://user:word@proxy.test:1080")
					}
					return url.Parse("socks5://proxy.test:1080")
				}
				d.dial(socks(t, d.system, row.words, row.auth))
				var err error
				after := took(func() { err = d.get(t.Context()) })
				if row.words != all {
					if after != sec {
						t.Errorf("%+v, %v: after %v", row, p, after)
					}
					isTimeout(t, err, transport.PhaseConnect, sec)
					if strings.Contains(err.Error(), "word") {
						t.Errorf("a secret in %v", err)
					}
					time.Sleep(31 * sec)
					d.dial(socks(t, d.system, all, row.auth))
					after = took(func() { err = d.get(t.Context()) })
				}
				if err != nil || after != 0 {
					t.Errorf("%+v, %v: after %v, %v", row, p, after, err)
				}
				time.Sleep(40 * sec)
				d.system.Default(testserver.After(4*sec, testserver.OK("ok")))
				if err = d.get(t.Context()); err != nil || d.system.Stats().Conns != 1 {
					t.Errorf("%+v, %v: later: %v, %d connections", row, p, err, d.system.Stats().Conns)
				}
				d.own.CloseIdleConnections()
			})
		}
	}
}

// A CONNECT that needs two writes, with a Kerberos token, is still the proxy's.
func TestLargeConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := through(t, testserver.HTTPS)
		d.own.ProxyConnectHeader = http.Header{"Proxy-Authorization": {"Negotiate " + strings.Repeat("x", 8000)}}
		d.server.Next(testserver.HangBeforeHeaders())
		var err error
		if after := took(func() { err = d.get(t.Context()) }); after != sec {
			t.Errorf("after %v", after)
		}
		isTimeout(t, err, transport.PhaseConnect, sec)
	})
}

// What a proxy with an https address hears is inside TLS: there net/http's own
// minute is all that bounds its answer.
func TestHTTPSProxyThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := through(t, testserver.HTTPS)
		proxy := newRig(t, testserver.Options{Protocol: testserver.HTTPS, Memory: true}, config.Config{MaxConnsPerHost: 1})
		proxy.own.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.server.URL()) }
		proxy.server.Next(testserver.HangBeforeHeaders())
		proxy.server.Default(testserver.Tunnel(d.system.Dial))
		to := func() error {
			_, err := read(proxy.timeouts.Wrap(proxy.base).RoundTrip(newRequest(t, t.Context(), "GET", d.system.URL()+"/", nil)))
			return err
		}
		isTimeout(t, to(), transport.PhaseRead, 5*sec)
		time.Sleep(55*sec - 1)
		var err error
		if after := took(func() { err = to() }); err != nil || after != 1 {
			t.Errorf("after %v, %v", after, err)
		}
	})
}

// However what is said to a proxy is cut into pieces: its answer has to come in
// time, and what the system says later may take longer.
func TestPiecesOfAProxyTalk(t *testing.T) {
	const tls = "\x16\x03\x01"
	for _, pieces := range [][]string{
		{"CONNECT a:1 HTTP/1.1\r\nA: b\r\n\r\n", tls},
		{"CONNECT a:1 HTTP/1.1\r\nA: ", "b\r\n\r\n", tls},
		{"CONNECT a:1 HTTP/1.1\r\nA: b\r\n\r", "\n", tls},
		{"CONNECT a:1 HTTP/1.1\r\nA: b\r\n", "B: c\r\n", "\r\n", tls},
		{"\x05\x01\x00", "\x05\x01\x00\x03", "GET / HTTP/1.1\r\n\r\n"},
		{"\x05\x01\x02", "\x01\x01u\x01w", "\x05\x01\x00\x03", tls},
		{tls, tls},
		{"GET / HTTP/1.1\r\n\r\n", "CONNECT "},
	} {
		for said := 1; said <= len(pieces); said++ {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				defer there.Close()
				go io.Copy(io.Discard, there)
				d := transport.Dialer{Timeout: sec, Dial: func(context.Context, string, string) (net.Conn, error) { return here, nil }}
				conn, err := d.DialContext(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				for _, piece := range pieces[:said] {
					time.Sleep(900 * ms)
					if _, err := io.WriteString(conn, piece); err != nil {
						t.Fatalf("%q: %v", piece, err)
					}
				}
				defer time.AfterFunc(time.Hour, func() { there.Close() }).Stop()
				after := took(func() { _, err = conn.Read(make([]byte, 1)) })
				system := said == len(pieces) || pieces[0][0] != 'C' && pieces[0][0] != 5
				n, isNet := err.(net.Error)
				if timeout := isNet && n.Timeout(); timeout == system || after != map[bool]time.Duration{true: time.Hour, false: sec}[system] {
					t.Errorf("%q: after %v: %v", pieces[:said], after, err)
				}
			})
		}
	}
}
