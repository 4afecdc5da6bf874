package resilient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// Proxies are those of the environment, or of the option.
func TestCase_X09(t *testing.T) {
	cfg, err := resilient.Config{}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	if transport.Base(cfg).Proxy == nil {
		t.Error("the environment's proxies are ignored")
	}
	var server, proxy *testserver.Server
	dial := resilient.WithDialContext(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == "proxy.test:3128" {
			return proxy.Dial(ctx, network, addr)
		}
		return nil, errors.New("past the proxy")
	})
	by := resilient.WithProxy(func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.test:3128") })
	inBoth(t, setting{cfg: permits(1), opts: []resilient.Option{dial, by}}, func(r *rig) {
		server = r.server
		proxy, err = testserver.Start(testserver.Options{Memory: true, Handler: testserver.Tunnel(server.Dial)})
		if err != nil {
			r.Fatal(err)
		}
		defer proxy.Close()
		defer r.CloseIdleConnections()
		for range 3 {
			r.works()
		}
		want := map[config.Protocol]int{config.HTTP1: 3, config.HTTP2: 1}[r.State().Config.Protocol] // each forwarded, or one CONNECT
		if n := proxy.Stats().Requests; n != want || server.Stats().Requests != 3 {
			r.Errorf("%d at the proxy, %d at the server", n, server.Stats().Requests)
		}
	})
}

// Headers above the limit are the system's failure, and hold nothing up.
func TestCase_X10(t *testing.T) {
	many := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 100 {
			w.Header().Add("X-Many", strings.Repeat("x", 40))
		}
	})
	cfg := trips(2, permits(1))
	cfg.MaxResponseHeaderBytes = 1 << 10
	for name, handler := range map[string]http.Handler{"one": testserver.HugeHeaders(4 << 10), "many": many} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{cfg: cfg, server: testserver.Options{Handler: handler}}, func(r *rig) {
				for range 2 {
					if d := took(func() {
						if _, err := r.get(r.Context()); err == nil {
							r.Error("no error")
						}
					}); d != 0 {
						r.Errorf("after %v", d)
					}
					r.held(0)
				}
				r.breaker("open")
				r.outcomes(map[string]float64{"transport_error": 2})
			})
		})
	}
}

// Two systems at one address share nothing.
func TestCase_X11(t *testing.T) {
	inBoth(t, setting{cfg: trips(3, permits(2))}, func(r *rig) {
		other, err := r.reg.NewClient("insurer", r.State().Config, resilient.WithDialContext(r.server.Dial), resilient.WithTLSConfig(tlsOf(r)))
		if err != nil {
			r.Fatal(err)
		}
		defer other.Close()
		fine := func(when string) {
			if d := took(func() {
				if resp, err := other.Do(r.to(r.Context(), "/insurer")); err != nil {
					r.Errorf("%s: %v", when, err)
				} else {
					io.Copy(io.Discard, resp.Body)
				}
			}); d != 0 {
				r.Errorf("%s: after %v", when, d)
			}
			if s := other.State(); s.Breaker.State != "closed" || s.Bulkhead.Active != 0 || s.Bulkhead.Rejected != 0 {
				r.Errorf("%s: %+v", when, s)
			}
		}
		r.server.On("/insurer", testserver.OK("ok"))
		fine("before")
		conns := r.server.Stats().Conns
		r.server.Default(testserver.HangBeforeHeaders())
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { r.get(r.Context()) })
		}
		synctest.Wait()
		fine("while the other is full")
		wg.Wait()
		r.trip()
		fine("while the other is open")
		all := r.server.Stats().Conns
		r.CloseIdleConnections()
		r.Close()
		fine("when the other is closed")
		synctest.Wait()
		if n := r.server.Stats(); n.OpenConns != 1 || conns != 1 || n.Conns != all {
			r.Errorf("%d connections before, %d now, %d of them new", conns, n.OpenConns, n.Conns-all)
		}
	})
}

// The bulkhead is the system's, whatever hosts it has.
func TestCase_X12(t *testing.T) {
	inBoth(t, setting{cfg: permits(4)}, func(r *rig) {
		r.server.Default(testserver.After(time.Second, testserver.OK("ok")))
		scheme, _, _ := strings.Cut(r.server.URL(), ":")
		for i := range 10 {
			go func() {
				req := r.request(r.Context(), "GET", nil)
				req.URL, _ = url.Parse(scheme + "://" + []string{"a", "b", "c"}[i%3] + ".test/")
				if resp, err := r.Do(req); err == nil {
					io.Copy(io.Discard, resp.Body)
				}
			}()
		}
		time.Sleep(2 * time.Second)
		if n := r.server.Stats(); n.MaxConcurrent != 4 || n.Requests != 4 {
			r.Errorf("%d at once, %d in all", n.MaxConcurrent, n.Requests)
		}
		r.outcomes(map[string]float64{"success": 4, "refused_full": 6})
	})
}
