package testserver_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/testserver"
)

func TestScript(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.Default(OK("default"))
		b.On("/x", OK("path"))
		b.Next(OK("first"), OK("second"))
		for _, want := range []string{"first", "second", "path", "path"} {
			b.wantOK(b.do(background, nil), want)
		}
		b.On("/x", nil)
		b.wantOK(b.do(background, nil), "default")
		b.Default(Status(500))
		if a := b.do(background, nil); a.StatusCode != 500 {
			b.Errorf("got %+v", a)
		}
		if st := b.Stats(); st.Requests != 6 || st.ByPath["/x"] != 6 || st.Conns != 1 {
			b.Errorf("stats %+v", st)
		}
	})
}

// A client that never has more than a few requests under way must never be counted above that.
func TestConcurrencyIsExact(t *testing.T) {
	t.Parallel()
	const limit, requests = 4, 16
	each(t, func(b *bench) {
		handlers := []http.Handler{
			OK("small"), OK(strings.Repeat("x", 100_000)), Echo(), Trickle(5000, 0, 3),
			CutInBody(5000, 6000), CutInBody(5000, 0), Abort(),
		}
		if b.protocol != HTTP2 { // there they take other requests with them, which count on until they notice
			handlers = append(handlers, Reset(), CloseBeforeHeaders())
		}
		for _, h := range handlers {
			b.Default(h)
			b.ResetPeaks()
			before := b.Stats()
			var clients sync.WaitGroup
			for range limit {
				clients.Go(func() {
					for range requests / limit {
						// net/http would send a GET again that broke off on a used connection.
						b.do(background, strings.NewReader("in"))
					}
				})
			}
			clients.Wait()
			st := b.Stats()
			if n := st.Requests - before.Requests; n != requests || st.Concurrent != 0 || st.MaxConcurrent > limit {
				b.Errorf("%d requests, want %d; stats %+v", n, requests, st)
			}
		}
	})
}

func TestPeaks(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.Default(HangBeforeHeaders())
		var hung []<-chan answer
		for i := range 5 {
			hung = append(hung, b.start(background, nil))
			b.await(func(st Stats) bool { return st.Hanging == i+1 })
		}
		conns := 5
		if b.protocol == HTTP2 {
			conns = 1
		}
		if st := b.Stats(); st.Concurrent != 5 || st.MaxConcurrent != 5 || st.OpenConns != conns || st.MaxOpenConns != conns {
			b.Errorf("stats %+v", st)
		}
		b.Release()
		for _, got := range hung {
			b.wantOK(<-got, "ok")
		}
		b.client.CloseIdleConnections()
		b.await(func(st Stats) bool { return st.OpenConns == 0 })
		b.ResetPeaks()
		if st := b.Stats(); st.MaxConcurrent != 0 || st.MaxOpenConns != 0 || st.Conns != conns {
			b.Errorf("after ResetPeaks: %+v", st)
		}
	})
}

func TestMaxStreams(t *testing.T) {
	t.Parallel()
	eachOf(t, Options{MaxStreams: 2}, []Protocol{HTTP2}, func(b *bench) {
		b.wantOK(b.do(background, nil), "ok") // the settings are known now
		b.Default(HangBeforeHeaders())
		var hung []<-chan answer
		for i := range 3 {
			hung = append(hung, b.start(background, nil))
			b.await(func(st Stats) bool { return st.Hanging == i+1 })
		}
		if st := b.Stats(); st.Conns != 2 {
			b.Errorf("stats %+v", st)
		}
		b.Release()
		for _, got := range hung {
			b.wantOK(<-got, "ok")
		}
	})
}

func TestAcceptDelay(t *testing.T) {
	t.Parallel()
	eachOf(t, Options{AcceptDelay: tick}, protocols, func(b *bench) {
		a := b.do(background, nil)
		b.wantOK(a, "ok")
		b.lasted(a.took, tick)
		if a := b.do(background, nil); b.memory && a.took != 0 {
			b.Errorf("second request took %v", a.took)
		}
	})
}

func TestSilentPeer(t *testing.T) {
	t.Parallel()
	eachOf(t, Options{AcceptDelay: -1}, []Protocol{HTTPS}, func(b *bench) {
		tr := b.Transport()
		tr.TLSHandshakeTimeout = tick
		b.client.Transport = tr
		a := b.do(background, nil)
		b.wantIn(a.err, "TLS handshake timeout")
		b.lasted(a.took, tick)
		b.await(func(st Stats) bool { return st.Conns == 1 && st.OpenConns == 0 && st.Requests == 0 })
	})
}

func TestBlackHole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := BlackHole(ctx, "tcp", "sber.test:443")
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "dial" || !op.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error %#v", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err := BlackHole(ctx, "tcp", ""); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

func TestDial(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx, cancel := context.WithCancel(background)
		cancel()
		if _, err := b.Dial(ctx, "tcp", "x:1"); !errors.Is(err, context.Canceled) {
			b.Errorf("with a done context: %v", err)
		}
		b.Close()
		if _, err := b.Dial(background, "tcp", "x:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			b.Errorf("after Close: %v", err)
		}
		if err := b.Close(); err != nil {
			b.Errorf("second Close: %v", err)
		}
	})
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	if _, err := Start(Options{Protocol: 7}); err == nil || err.Error() != "testserver: unknown protocol 7" {
		t.Errorf("error %v", err)
	}
}

// Close while connections are being opened and requests begun must neither block nor leave anything.
func TestCloseUnderLoad(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.Default(Trickle(10_000, time.Millisecond, -1))
		var clients sync.WaitGroup
		for range 10 {
			clients.Go(func() {
				for {
					if a := b.do(background, nil); a.err != nil {
						return
					}
				}
			})
		}
		b.await(func(st Stats) bool { return st.Requests >= 5 })
		b.Close()
		clients.Wait()
		if st := b.Stats(); st.Concurrent != 0 || st.OpenConns != 0 || st.Aborted != 0 {
			b.Errorf("stats %+v", st)
		}
	})
}

// L-08: Close waits for nobody, whatever a test has left open: an idle connection, bodies, hangs, and an upgraded connection.
func TestCase_L08(t *testing.T) {
	for _, p := range []Protocol{HTTP1, HTTPS, HTTP2} {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Start(Options{Memory: true, Protocol: p})
				if err != nil {
					t.Fatal(err)
				}
				for path, h := range map[string]http.Handler{
					"/hang": HangBeforeHeaders(), "/headers": HangInHeaders(), "/unread": HangUnread(), "/stall": StallInBody(1),
					"/endless": Trickle(1, time.Second, -1), "/upgrade": Upgrade(), "/": OK("ok"),
				} {
					if p == HTTP2 && path == "/upgrade" { // which it has not
						continue
					}
					s.On(path, h)
					go func() {
						req, _ := http.NewRequestWithContext(t.Context(), "POST", s.URL()+path, strings.NewReader("data"))
						if path == "/upgrade" {
							req.Header.Set("Connection", "Upgrade")
							req.Header.Set("Upgrade", "echo")
						}
						if resp, err := s.Transport().RoundTrip(req); err == nil && path == "/" {
							io.Copy(io.Discard, resp.Body) // the others are left open
						}
					}()
				}
				time.Sleep(time.Minute)
				start := time.Now()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if st := s.Stats(); time.Since(start) != 0 || st.OpenConns != 0 || st.Concurrent != 0 {
					t.Errorf("closed after %v: %+v", time.Since(start), st)
				}
			})
		})
	}
}

func TestTLSIsTheCallers(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Protocol: HTTPS})
	s.TLS().RootCAs = nil
	if s.TLS().RootCAs == nil {
		t.Error("the configuration is shared")
	}
	c, err := tls.Dial("tcp", strings.TrimPrefix(s.URL(), "https://"), &tls.Config{})
	if err == nil {
		c.Close()
		t.Error("trusted without TLS")
	}
}

func TestRequestOfAnotherServer(t *testing.T) {
	t.Parallel()
	defer func() {
		if p := recover(); p != "testserver: a request that no Server serves" {
			t.Errorf("panic %v", p)
		}
	}()
	r, _ := http.NewRequest(http.MethodGet, "http://sber.test", http.NoBody)
	Hang(r)
}
