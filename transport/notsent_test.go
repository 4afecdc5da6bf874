package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

func refuse(context.Context, string, string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// Whom no connection could be made for: by how that failed, what was to be
// sent, over what, and whether it was the first request of its kind.
func TestNotSentOfAFailedDial(t *testing.T) {
	type shape struct {
		method, key      string
		stream, noBody   bool
		replayed, overH2 bool // net/http may repeat it by itself, over HTTP/1.1 and HTTP/2
	}
	shapes := map[string]shape{
		"GET":                    {method: "GET", noBody: true, replayed: true, overH2: true},
		"method missing":         {method: "", noBody: true, replayed: true, overH2: true},
		"HEAD":                   {method: "HEAD", noBody: true, replayed: true, overH2: true},
		"OPTIONS":                {method: "OPTIONS", noBody: true, replayed: true, overH2: true},
		"TRACE":                  {method: "TRACE", noBody: true, replayed: true, overH2: true},
		"GET with a body":        {method: "GET", replayed: true, overH2: true},
		"GET with a stream":      {method: "GET", stream: true},
		"POST":                   {method: "POST", overH2: true},
		"POST, stream":           {method: "POST", stream: true},
		"POST, nothing":          {method: "POST", noBody: true, overH2: true},
		"DELETE":                 {method: "DELETE", noBody: true, overH2: true},
		"POST, key":              {method: "POST", key: "Idempotency-Key", replayed: true, overH2: true},
		"POST, X-key":            {method: "POST", key: "X-Idempotency-Key", replayed: true, overH2: true},
		"POST, stream and a key": {method: "POST", key: "Idempotency-Key", stream: true},
	}
	for failed, phase := range map[string]transport.Phase{"refused": "", "black hole": transport.PhaseConnect, "handshake": transport.PhaseTLS} {
		for _, p := range []testserver.Protocol{testserver.HTTPS, testserver.HTTP2} {
			for _, own := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) {
					o := testserver.Options{Protocol: p, Memory: true}
					if failed == "handshake" {
						o.AcceptDelay = -1
					}
					r := newRig(t, o, config.Config{Breaker: config.Breaker{MinRequests: 1e6, ConsecutiveFailures: config.Off}})
					switch failed {
					case "refused":
						r.dial(refuse)
					case "black hole":
						r.dial(testserver.BlackHole)
					}
					rt := r.all()
					if !own {
						rt = transport.Chain(r.base, r.breaker.Wrap, transport.Timeout("sber", transport.Bounds{Total: 7 * sec, Read: 5 * sec}))
					}
					for name, s := range shapes {
						for _, hop := range []bool{false, true} {
							var body io.Reader
							switch {
							case s.stream:
								body = hidden("pay")()
							case !s.noBody:
								body = strings.NewReader("pay")
							}
							req := r.request(t.Context(), "GET", body)
							req.Method = s.method
							if s.key != "" {
								req.Header[s.key] = nil
							}
							if hop {
								req.Response = &http.Response{StatusCode: 307}
							}
							_, err := read(rt.RoundTrip(req))
							want := own && !hop && !s.replayed && (p != testserver.HTTP2 || !s.overH2)
							if got := transport.NotSent(err); got != want || err == nil {
								t.Errorf("%s, %s, %s, own %v, hop %v: NotSent = %v of %v", name, failed, p, own, hop, got, err)
							}
							if transport.NotSent(&url.Error{Op: "Post", Err: err}) != want {
								t.Error("not through a *url.Error")
							}
							if phase != "" && !errors.Is(err, transport.ErrTimeout) {
								t.Error(err)
							}
						}
					}
					if n := r.server.Stats().Requests; n != 0 {
						t.Errorf("the server saw %d", n)
					}
				})
			}
		}
	}
}

// What a refusal proves, and what nothing else does.
func TestNotSentOfErrors(t *testing.T) {
	full, open := &semaphore.FullError{System: "sber"}, &transport.OpenError{System: "sber"}
	for err, want := range map[error]bool{
		nil: false, io.EOF: false, context.Canceled: false, context.DeadlineExceeded: false, errDown: false,
		error(full): true, error(open): true, fmt.Errorf("x: %w", open): true, semaphore.ErrUnavailable: true,
		&transport.TimeoutError{Phase: transport.PhaseConnect}:        false, // a foreign base's
		&transport.TimeoutError{Phase: transport.PhaseRead}:           false,
		&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}:           false,
		&url.Error{Op: "Get", Err: &semaphore.FullError{System: "a"}}: true,
	} {
		if transport.NotSent(err) != want {
			t.Errorf("NotSent(%v) is not %v", err, want)
		}
	}
}

// Really through http.Client: what fails after a redirect was sent before it.
func TestNotSentAfterARedirect(t *testing.T) {
	for name, spoil := range map[string]func(r *rig){
		"dial":     func(r *rig) { r.dial(refuse) },
		"bulkhead": func(r *rig) { r.sem.Resize(semaphore.Limits{}) },
		"breaker": func(r *rig) {
			r.breaker.Classify(func(*http.Response, error) transport.Verdict { return transport.Failure })
		},
	} {
		for _, code := range []int{302, 307} {
			t.Run(fmt.Sprintf("%s, %d", name, code), func(t *testing.T) {
				inBoth(t, oneProbe, func(r *rig) {
					r.server.Default(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
						_, _ = io.Copy(io.Discard, req.Body)
						w.Header().Set("Location", strings.Replace(r.server.URL(), "sber.test", "other.test", 1)+"/next")
						w.Header().Set("Connection", "close")
						w.WriteHeader(code)
						spoil(r)
					}))
					_, err := read((&http.Client{Transport: r.all()}).Do(r.request(r.Context(), "POST", strings.NewReader("pay"))))
					if n := r.server.Stats().Requests; n != 1 || err == nil {
						r.Fatalf("the server saw %d, %v", n, err)
					}
					if transport.NotSent(err) {
						r.Errorf("NotSent(%v)", err)
					}
					if name != "dial" && !errors.Is(err, semaphore.ErrUnavailable) {
						r.Error(err)
					}
					if n, ok := err.(interface{ Timeout() bool }); !ok || n.Timeout() {
						r.Errorf("%v looks like a timeout", err)
					}
				})
			})
		}
	}
}

// net/http may have written a request to an idle connection that was dying,
// before it dialled anew in vain.
func TestNotSentAfterAnIdleConnection(t *testing.T) {
	for name, shape := range map[string]struct {
		method, key string
		body        func() io.Reader
		sent        int // what the server sees of it
	}{
		"GET":          {"GET", "", func() io.Reader { return nil }, 1},
		"POST":         {"POST", "", func() io.Reader { return strings.NewReader("pay") }, 1},
		"POST, key":    {"POST", "Idempotency-Key", func() io.Reader { return strings.NewReader("pay") }, 1},
		"POST, stream": {"POST", "", hidden("pay"), 1},
	} {
		for _, kill := range []http.Handler{testserver.CloseBeforeHeaders(), testserver.Reset(), testserver.Abort()} {
			t.Run(name, func(t *testing.T) {
				inBoth(t, config.Config{}, func(r *rig) {
					if err := get(r, r.all()); err != nil { // leaves an idle connection
						r.Fatal(err)
					}
					r.dial(refuse)
					r.server.Default(kill)
					req := r.request(r.Context(), shape.method, shape.body())
					if shape.key != "" {
						req.Header.Set(shape.key, "1")
					}
					_, err := read(r.all().RoundTrip(req))
					if n := r.server.Stats().Requests - 1; n != shape.sent || err == nil {
						r.Fatalf("the server saw %d, %v", n, err)
					}
					if transport.NotSent(err) {
						r.Errorf("NotSent(%v)", err)
					}
				})
			})
		}
	}
}

// At random, with everything going wrong at once: whenever NotSent says so, the
// server has not seen that request.
func TestNotSentNeverLies(t *testing.T) {
	inBoth(t, config.Config{Breaker: config.Breaker{MinRequests: 20, OpenFor: 500 * ms}}, func(r *rig) {
		var dials, proven atomic.Int64
		r.dial(func(ctx context.Context, network, addr string) (net.Conn, error) {
			switch dials.Add(1) % 4 {
			case 0:
				return refuse(ctx, network, addr)
			case 1:
				return testserver.BlackHole(ctx, network, addr)
			}
			return r.server.Dial(ctx, network, addr)
		})
		r.server.Default(testserver.Flap(
			testserver.Phase{For: sec, Do: testserver.OK("ok")}, testserver.Phase{For: sec, Do: testserver.Abort()},
			testserver.Phase{For: sec, Do: testserver.CloseBeforeHeaders()}, testserver.Phase{For: sec, Do: testserver.Reset()},
		))
		done := make(chan struct{})
		for i := range 40 {
			go func() {
				defer func() { done <- struct{}{} }()
				for n := range 30 {
					path := fmt.Sprintf("/%d-%d", i, n)
					body := []io.Reader{nil, strings.NewReader("pay"), hidden("pay")()}[n%3]
					req := newRequest(r.T, r.Context(), []string{"POST", "GET"}[n/3%2], r.server.URL()+path, body)
					_, err := read(r.all().RoundTrip(req))
					if transport.NotSent(err) {
						proven.Add(1)
						if r.server.Stats().ByPath[path] != 0 {
							r.Errorf("NotSent(%v), but the server saw %s", err, path)
						}
					}
					time.Sleep(time.Duration(5*i) * ms)
				}
			}()
		}
		for range 40 {
			<-done
		}
		if proven.Load() == 0 {
			r.Error("nothing was proven")
		}
		time.Sleep(5 * sec)
	})
}

// What a proxy did not come to.
func TestNotSentThroughAProxy(t *testing.T) {
	for name, row := range map[string]struct {
		spoil func(d *detour)
		want  bool
	}{
		"proxy refuses the dial": {func(d *detour) { d.dial(refuse) }, true},
		"proxy in a black hole":  {func(d *detour) { d.dial(testserver.BlackHole) }, true},
		"CONNECT hangs":          {func(d *detour) { d.server.Default(testserver.HangBeforeHeaders()) }, true},
		"CONNECT, half":          {func(d *detour) { d.server.Default(testserver.HangInHeaders()) }, true},
		"CONNECT refused":        {func(d *detour) { d.server.Default(testserver.Status(502)) }, false}, // it says nothing that we know
		"system aborts":          {func(d *detour) { d.system.Default(testserver.Abort()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := through(t, testserver.HTTPS)
				row.spoil(d)
				_, err := read(d.all().RoundTrip(newRequest(t, t.Context(), "POST", d.system.URL()+"/", hidden("pay")())))
				if err == nil || transport.NotSent(err) != row.want {
					t.Errorf("NotSent(%v) is not %v", err, row.want)
				}
				if row.want && d.system.Stats().Requests != 0 {
					t.Error("the system saw it")
				}
			})
		})
	}
}

// A layer that sends a request, hears 401, and is then refused a token.
func TestNotSentByAForeignLayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		r.server.Default(testserver.Status(401))
		auth := newJudge(t, oneFailure)
		_ = auth.do("f")
		digest := func(next http.RoundTripper) http.RoundTripper {
			return fake(func(req *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(req)
				if err == nil && resp.StatusCode == 401 {
					resp.Body.Close()
					return nil, auth.do("s")
				}
				return resp, err
			})
		}
		rt := transport.Chain(r.own, r.breaker.Wrap, digest, r.timeouts.Wrap)
		_, err := read(rt.RoundTrip(r.request(t.Context(), "POST", strings.NewReader("pay"))))
		if n := r.server.Stats().Requests; n != 1 || err == nil {
			t.Fatal(n, err)
		}
		if transport.NotSent(err) {
			t.Errorf("NotSent(%v), but the server saw it", err)
		}
	})
}

// The errors of several attempts, joined.
func TestNotSentOfSeveral(t *testing.T) {
	if err := errors.Join(io.EOF, &transport.OpenError{System: "sber"}); transport.NotSent(err) {
		t.Errorf("NotSent(%v)", err)
	}
}

// A refusal that a foreign base reports proves nothing, whatever is around it.
func TestNotSentOfAForeignRefusal(t *testing.T) {
	refusing := fake(func(*http.Request) (*http.Response, error) { return nil, &semaphore.FullError{System: "other"} })
	for name, layer := range map[string]transport.Layer{
		"bulkhead": transport.Bulkhead(semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1}), 0, nil),
		"breaker":  transport.NewBreaker("sber", complete(t, config.Config{})).Wrap,
		"timeout":  transport.NewTimeouts("sber", complete(t, config.Config{})).Wrap,
	} {
		_, err := layer(refusing).RoundTrip(newRequest(t, t.Context(), "POST", "http://sber.test/", nil))
		full, ok := errors.AsType[*semaphore.FullError](err)
		if transport.NotSent(err) || !errors.Is(err, semaphore.ErrUnavailable) || !ok || full.System != "other" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
