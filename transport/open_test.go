package transport_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// A hook that ends its goroutine (t.FailNow does) while a probe is let through takes the probe's slot with it.
func TestOpenHookGoexitAtBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		r.breaker.OnTransition(func(tr transport.Transition) {
			if tr.To == "half_open" {
				runtime.Goexit()
			}
		})
		r.trip()
		time.Sleep(r.cfg.Breaker.OpenFor + 1)
		done := make(chan struct{})
		go func() { defer close(done); _ = r.probe() }()
		<-done
		time.Sleep(time.Hour)
		if err := r.probe(); err != nil {
			t.Errorf("an hour later: %v", err)
		}
	})
}

// Requests that net/http refuses to write are their caller's mistake.
func TestOpenInvalidRequests(t *testing.T) {
	for name, spoil := range map[string]func(*http.Request){
		"control character in the query":  func(r *http.Request) { r.URL.RawQuery = "q=a\nb" },
		"control character in the opaque": func(r *http.Request) { r.URL.Opaque = "//a/\x01" },
		"invalid Host":                    func(r *http.Request) { r.Host = "a b\n" },
		"length without a body":           func(r *http.Request) { r.Method, r.ContentLength = "POST", 5 },
		"transfer encoding": func(r *http.Request) {
			r.Method = "POST"
			r.Body = io.NopCloser(strings.NewReader("x"))
			r.TransferEncoding = []string{"gzip"}
		},
		"trailer key": func(r *http.Request) {
			r.Method = "POST"
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("x")))
			r.ContentLength = -1
			r.Trailer = http.Header{"Content-Length": nil}
		},
		"port":              func(r *http.Request) { r.URL.Host = "sber.test:99999" },
		"connection header": func(r *http.Request) { r.Header["Connection"] = []string{"a", "b"} },
		"upgrade header":    func(r *http.Request) { r.Header["Upgrade"] = []string{"a", "b"} },
		"nonascii host":     func(r *http.Request) { r.URL.Host = "h\xff.test" },
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, oneProbe, func(r *rig) {
				got := r.verdict(func() {
					req := r.request(r.Context(), "GET", nil)
					spoil(req)
					_, err := read(r.all().RoundTrip(req))
					r.Log(err)
				})
				if got != neutral {
					r.Errorf("%s", got)
				}
			})
		})
	}
}

// An idle stream waits for events, which is no sign that the system hangs.
func TestOpenIdleStreamIsNoSilence(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		r.server.On("/stream", testserver.StallInBody(3))
		ctx := transport.WithBounds(r.Context(), transport.Bounds{Total: transport.Unbounded, Read: transport.Unbounded})
		resp, err := r.all().RoundTrip(newRequest(r.T, ctx, "GET", r.server.URL()+"/stream", nil))
		if err != nil {
			r.Fatal(err)
		}
		go io.Copy(io.Discard, resp.Body)
		time.Sleep(10 * time.Second)
		for range 20 {
			ctx, cancel := context.WithTimeout(r.Context(), time.Millisecond)
			r.server.Next(testserver.HangBeforeHeaders())
			_, err = r.get(ctx, r.all())
			cancel()
		}
		r.state("closed")
		r.Log(err)
		resp.Body.Close()
	})
}

// A system that stalls in its body is failing, though the caller's upload is open.
func TestOpenStallWithOpenUpload(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		r.server.Default(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			rc := http.NewResponseController(w)
			rc.EnableFullDuplex()
			io.WriteString(w, "abc")
			rc.Flush()
			testserver.Sleep(req, time.Hour)
		}))
		got := r.verdict(func() {
			pr, pw := io.Pipe()
			resp, err := r.all().RoundTrip(r.request(r.Context(), "POST", pr))
			_, err = read(resp, err)
			isTimeout(r.T, err, transport.PhaseRead, 5*time.Second)
			pw.Close()
		})
		if got != failure {
			r.Errorf("%s", got)
		}
	})
}

// A producer that fails and a caller that cancels for that reason (errgroup) say nothing about the system.
func TestOpenBadBodyThenCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		base := fake(func(req *http.Request) (*http.Response, error) {
			_, err := io.Copy(io.Discard, req.Body)
			req.Body.Close()
			time.Sleep(time.Millisecond)
			return nil, err
		})
		got := r.verdict(func() {
			ctx, cancel := context.WithCancel(t.Context())
			pr, pw := io.Pipe()
			go func() {
				for range 4 {
					time.Sleep(time.Second)
					pw.Write([]byte("x"))
				}
				pw.CloseWithError(errors.New("producer"))
				cancel()
			}()
			_, err := read(transport.Chain(base, r.breaker.Wrap, r.timeouts.Wrap).RoundTrip(r.request(ctx, "POST", pr)))
			t.Log(err)
		})
		if got != neutral {
			t.Error(got)
		}
	})
}

// A caller that gives up an upload that moves has no hung system.
func TestOpenCancelledMovingUpload(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		r.server.Default(testserver.ReadSlowly(64<<10, time.Second, testserver.OK("ok")))
		got := r.verdict(func() {
			ctx, cancel := context.WithTimeout(r.Context(), 4*time.Second)
			defer cancel()
			_, err := read(r.all().RoundTrip(r.request(ctx, "POST", strings.NewReader(strings.Repeat("x", 2<<20)))))
			r.Log(err)
		})
		if got != neutral {
			r.Error(got)
		}
	})
}

// Timeouts outside a bulkhead: a caller that cancels while it waits.
func TestOpenCancelInQueueBelowTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 1})
		p, _ := sem.Acquire(t.Context(), 0)
		rt := transport.Chain(answer(200), transport.Timeout("sber", transport.Bounds{Total: time.Minute}), transport.Bulkhead(sem, 10*time.Second, nil))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		var err error
		d := took(func() { _, err = read(rt.RoundTrip(newRequest(t, ctx, "GET", "http://sber.test/", nil))) })
		if d != time.Second || !errors.Is(err, context.Canceled) {
			t.Errorf("after %v: %v", d, err)
		}
		p.Release()
	})
}

// A shorter Timeout outside of a longer one is no caller's deadline.
func TestOpenTwoTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := transport.Chain(fake(hang), transport.Timeout("sber", transport.Bounds{Total: time.Second}), transport.Timeout("sber", transport.Bounds{Total: 5 * time.Second}))
		var err error
		d := took(func() { _, err = read(rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))) })
		if d != time.Second {
			t.Errorf("after %v", d)
		}
		isTimeout(t, err, transport.PhaseTotal, time.Second)
	})
}

// A CONNECT of more than one write (a Kerberos token) is still the proxy's.
func TestOpenLargeConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, config.Config{})
		r.server.Default(testserver.HangBeforeHeaders())
		r.own.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(r.server.URL()) }
		r.own.ProxyConnectHeader = http.Header{"Proxy-Authorization": {"Negotiate " + strings.Repeat("x", 8000)}}
		var err error
		d := took(func() { _, err = read(r.all().RoundTrip(newRequest(t, t.Context(), "GET", "https://sber.test/", nil))) })
		if d != time.Second {
			t.Errorf("after %v", d)
		}
		isTimeout(t, err, transport.PhaseConnect, time.Second)
	})
}

// A Dial of one's own that words its errors itself.
func TestOpenWrappedDialTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, config.Config{})
		r.dial(func(ctx context.Context, network, addr string) (net.Conn, error) {
			_, err := testserver.BlackHole(ctx, network, addr)
			return nil, fmt.Errorf("ssh tunnel: %w", err)
		})
		_, err := r.get(t.Context(), r.all())
		isTimeout(t, err, transport.PhaseConnect, time.Second)
	})
}

// A base or a layer that sends a request twice: the refusal of the second proves nothing.
func TestOpenNotSentBelowForeign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		r.server.Default(testserver.Status(401))
		var breaker = transport.NewBreaker("auth", r.cfg)
		_, _ = breaker.Wrap(fake(func(*http.Request) (*http.Response, error) { return nil, errDown })).RoundTrip(r.request(t.Context(), "GET", nil))
		digest := func(next http.RoundTripper) http.RoundTripper {
			return fake(func(req *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(req)
				if err != nil || resp.StatusCode != 401 {
					return resp, err
				}
				resp.Body.Close()
				_, err = breaker.Wrap(answer(200)).RoundTrip(r.request(t.Context(), "GET", nil)) // the token server
				return nil, err
			})
		}
		_, err := read(transport.Chain(r.own, r.breaker.Wrap, digest, r.timeouts.Wrap).RoundTrip(r.request(t.Context(), "POST", strings.NewReader("pay"))))
		if n := r.server.Stats().Requests; n != 1 || err == nil {
			t.Fatal(n, err)
		}
		if transport.NotSent(err) {
			t.Errorf("NotSent(%v), but the server saw it", err)
		}
		if err := errors.Join(errors.New("first attempt: EOF"), &transport.OpenError{System: "sber"}); transport.NotSent(err) {
			t.Errorf("NotSent of two joined attempts")
		}
	})
}

// An upgraded connection can be half-closed, as over a bare net/http.
func TestOpenCloseWrite(t *testing.T) {
	for _, own := range []bool{true, false} {
		r := newRig(t, testserver.Options{}, config.Config{})
		r.server.Default(testserver.Upgrade())
		if !own {
			r.own.DialContext = r.server.Dial
		}
		req := r.request(t.Context(), "GET", nil)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := r.all().RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(resp.Body.(io.Writer), "hi\n")
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		t.Log(own, line, err)
		if err := resp.Body.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Errorf("own %v: %v", own, err)
		}
		resp.Body.Close()
	}
}

// A hook needs no permit of the chain whose exchange has ended.
func TestOpenBreakerAloneAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		r.halfOpen()
		resp, err := r.breaker.Wrap(answer(200)).RoundTrip(r.request(context.Background(), "GET", nil))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp
		time.Sleep(time.Hour)
		if err := r.probe(); err != nil {
			t.Error(err)
		}
	})
}
