package resilient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// Shutdown admits nobody, wakes the queue, and waits for what is under way.
func TestShutdownDrains(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.server.Default(testserver.After(2*time.Second, testserver.OK("ok")))
		var wg sync.WaitGroup
		errs := make(chan error, 20)
		for range 20 {
			wg.Go(func() { _, err := r.get(r.Context()); errs <- err })
		}
		synctest.Wait()
		if d := took(func() {
			if err := r.Shutdown(r.Context()); err != nil {
				r.Error(err)
			}
		}); d != 2*time.Second {
			r.Errorf("after %v", d)
		}
		wg.Wait()
		close(errs)
		closed := 0
		for err := range errs {
			if errors.Is(err, resilient.ErrClosed) && resilient.NotSent(err) {
				closed++
			} else if err != nil {
				r.Error(err)
			}
		}
		if closed != 4 {
			r.Errorf("%d refused", closed)
		}
		if _, err := r.get(r.Context()); !errors.Is(err, resilient.ErrClosed) {
			r.Error(err)
		}
		if err := r.Shutdown(r.Context()); err != nil {
			r.Error(err)
		}
		time.Sleep(2 * time.Second) // HTTP/2 closes its connection a second later, if it was not idle yet
		synctest.Wait()
		if n := r.server.Stats().OpenConns; n != 0 {
			r.Errorf("%d connections left", n)
		}
	})
}

// At the end of its context Shutdown cancels what is left: in the round trip, in a Read, idle, and upgraded.
func TestShutdownCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setting{server: testserver.Options{Memory: true}})
		r.server.On("/hang", testserver.HangBeforeHeaders())
		r.server.On("/stall", testserver.StallInBody(1))
		r.server.On("/upgrade", testserver.Upgrade())
		send := func(path string) (*http.Response, error) {
			req := r.request(r.Context(), "GET", nil)
			req.URL.Path = path
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "echo")
			return r.RoundTrip(req)
		}
		var wg sync.WaitGroup
		check := func(err error) {
			if !errors.Is(err, resilient.ErrClosed) || errors.Is(err, resilient.ErrUnavailable) || resilient.NotSent(err) {
				t.Errorf("%v, NotSent %v", err, resilient.NotSent(err))
			}
		}
		wg.Go(func() { _, err := send("/hang"); check(err) })
		wg.Go(func() {
			resp, err := send("/stall")
			if err == nil {
				_, err = io.ReadAll(resp.Body)
			}
			check(err)
		})
		idle, err := send("/stall")
		if err != nil {
			t.Fatal(err)
		}
		upgrade, err := send("/upgrade")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.held(4)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if d := took(func() { r.Shutdown(ctx) }); d != time.Second {
			t.Errorf("after %v", d)
		}
		wg.Wait()
		synctest.Wait()
		r.held(0)
		for _, resp := range []*http.Response{idle, upgrade} {
			_, err := io.ReadAll(resp.Body)
			check(err)
		}
		if n := r.server.Stats().Concurrent; n != 0 {
			t.Errorf("%d exchanges left at the server", n)
		}
		r.breaker("closed")
	})
}

// The name is free when the last exchange has ended, not before.
func TestNameAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		reg := resilient.NewRegistry()
		stubborn := roundTripper(func(*http.Request) (*http.Response, error) { <-release; return nil, errBoom })
		c, err := reg.NewClient("sber", resilient.Config{}, resilient.WithBase(&stubborn))
		if err != nil {
			t.Fatal(err)
		}
		req, _ := http.NewRequest("GET", "http://sber.test/", nil)
		go c.RoundTrip(req)
		synctest.Wait()
		c.Close()
		if _, err := reg.NewClient("sber", resilient.Config{}); !errors.Is(err, resilient.ErrDuplicate) {
			t.Errorf("the name is free with a permit out: %v", err)
		}
		close(release)
		synctest.Wait()
		c2, err := reg.NewClient("sber", resilient.Config{}, resilient.WithBase(&stubborn))
		if err != nil {
			t.Fatal(err)
		}
		c2.Close()
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f *roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return (*f)(r) }

func TestRegistry(t *testing.T) {
	reg := resilient.NewRegistry(resilient.WithMaxTotalConns(50))
	a, err := reg.NewClient("sber", resilient.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reg.NewClient("sber", resilient.Config{}); !errors.Is(err, resilient.ErrDuplicate) {
		t.Error(err)
	}
	b, err := reg.NewClient("pay-gw", resilient.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reg.NewClient("pay_gw", resilient.Config{}); !errors.Is(err, resilient.ErrDuplicate) || !strings.Contains(err.Error(), "pay-gw") {
		t.Error(err)
	}
	if _, err := reg.NewClient("insurer", resilient.Config{}); err == nil || !strings.Contains(err.Error(), "60") {
		t.Errorf("above the limit of connections: %v", err)
	}
	if names := strings.Join(reg.Names(), " "); names != "pay-gw sber" {
		t.Error(names)
	}
	if s := reg.States(); len(s) != 2 || s[1].Name != "sber" || s[1].Bulkhead.MaxConcurrent != 16 {
		t.Errorf("%+v", s)
	}
	for range 32 {
		if c, err := reg.Client("sber"); c != a || err != nil {
			t.Error(c, err)
		}
	}
	var missing *resilient.NotFoundError
	if _, err := reg.Client("sbre"); !errors.As(err, &missing) || !errors.Is(err, resilient.ErrNotFound) || len(missing.Known) != 2 {
		t.Error(err)
	}
	if _, err := reg.Client("pay_gw"); !errors.Is(err, resilient.ErrNotFound) {
		t.Error(err)
	}
	if err := reg.Shutdown(t.Context()); err != nil || len(reg.Names()) != 0 {
		t.Error(err, reg.Names())
	}
	for _, c := range []*resilient.Client{a, b} {
		if _, err := c.Do(mustRequest(t)); !errors.Is(err, resilient.ErrClosed) {
			t.Error(err)
		}
	}
}

func mustRequest(t *testing.T) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// Everything that is wrong is told at once, and nothing is left behind.
func TestFaults(t *testing.T) {
	reg := resilient.NewRegistry()
	shared := &http.Transport{}
	other, err := reg.NewClient("other", resilient.Config{}, resilient.WithBase(shared))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, c := range []struct {
		name string
		cfg  resilient.Config
		opts []resilient.Option
		want []string
	}{
		{"Default!", resilient.Config{ReadTimeout: -1, TotalTimeout: time.Hour}, []resilient.Option{resilient.WithLogger(nil)},
			[]string{"Default!", "ReadTimeout", "TotalTimeout", "WithLogger"}},
		{"default", resilient.Config{}, nil, []string{"default"}},
		{"", resilient.Config{}, nil, []string{"name"}},
		{"sber", resilient.Config{}, []resilient.Option{resilient.WithBase(http.DefaultTransport)}, []string{"http.DefaultTransport"}},
		{"sber", resilient.Config{}, []resilient.Option{resilient.WithBase(shared)}, []string{`"other"`}},
		{"sber", resilient.Config{}, []resilient.Option{resilient.WithBase(other)}, []string{"two permits"}},
		{"sber", resilient.Config{}, []resilient.Option{resilient.WithTLSConfig(&tls.Config{MinVersion: tls.VersionTLS10})}, []string{"TLS 1.2"}},
		{"sber", resilient.Config{}, []resilient.Option{nil}, []string{"Option"}},
		{"sber", resilient.Config{}, []resilient.Option{resilient.WithBase(&http.Transport{}), resilient.WithProxy(http.ProxyFromEnvironment)}, []string{"WithProxy", "WithBase"}},
		{"sber", resilient.Config{}, []resilient.Option{resilient.WithBase(nil), resilient.WithTLSConfig(nil), resilient.WithProxy(nil),
			resilient.WithDialContext(nil), resilient.WithClassifier(nil), resilient.WithStreams(nil), resilient.OnStateChange(nil)},
			[]string{"WithBase", "WithTLSConfig", "WithProxy", "WithDialContext", "WithClassifier", "WithStreams", "OnStateChange"}},
	} {
		client, err := reg.NewClient(c.name, c.cfg, c.opts...)
		if err == nil || client != nil {
			t.Errorf("%q: %v, %v", c.name, client, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not tell of %s", err, want)
			}
		}
	}
	if names := reg.Names(); len(names) != 1 {
		t.Error(names)
	}
	if _, err := other.Wrap(http.DefaultTransport); err == nil {
		t.Error("Wrap took http.DefaultTransport")
	}
	if _, err := other.Wrap(nil); err == nil {
		t.Error("Wrap took nil")
	}
}

// Wrap shares the bulkhead, the breaker and the metrics with the client.
func TestWrap(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		base := r.server.Transport()
		wrapped, err := r.Wrap(base)
		if err != nil {
			r.Fatal(err)
		}
		r.server.Default(testserver.HangBeforeHeaders())
		for range 8 {
			go r.get(r.Context())
			go wrapped.RoundTrip(r.request(r.Context(), "GET", nil))
		}
		synctest.Wait()
		r.held(16)
		if _, err := wrapped.RoundTrip(r.request(r.Context(), "GET", nil)); !errors.Is(err, resilient.ErrBulkheadFull) {
			r.Error(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if _, err := wrapped.RoundTrip(r.request(r.Context(), "GET", nil)); !errors.Is(err, resilient.ErrCircuitOpen) {
			r.Error(err)
		}
		reg := resilient.NewRegistry()
		if _, err := reg.NewClient("thief", resilient.Config{}, resilient.WithBase(base)); err == nil {
			r.Error("another client took a base that is in use")
		}
		http.DefaultClient.CloseIdleConnections()
		wrapped.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	})
}

// Closed clients leave nothing behind, nor do those that could not be made.
func TestNothingIsLeft(t *testing.T) {
	server, err := testserver.Start(testserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	reg := resilient.NewRegistry()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	round := func(n int) {
		for range n {
			c, err := reg.NewClient("sber", resilient.Config{})
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.HTTPClient().Get(server.URL())
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			c.Close()
		}
	}
	round(20)
	before, goroutines := heap(), runtime.NumGoroutine()
	round(500)
	settles(t, goroutines)
	if after := heap(); after > before+1<<20 {
		t.Errorf("the heap grew from %d to %d", before, after)
	}
}

// settles waits until there are no more goroutines than before, but for a few of the runtime's.
func settles(t *testing.T, before int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+2; {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestProxyOption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := false
		r := newRig(t, setting{server: testserver.Options{Memory: true}, opts: []resilient.Option{
			resilient.WithProxy(func(*http.Request) (*url.URL, error) { asked = true; return nil, nil })}})
		if _, err := r.get(t.Context()); err != nil || !asked {
			t.Error(err, asked)
		}
	})
}
