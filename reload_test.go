package resilient_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

var reloadFor = flag.Duration("reload", 3*time.Second, "how long TestReloadUnderLoad takes")

// A reload every 10 ms under load, each changing MaxConcurrent, TotalTimeout and FailureRatio, every seventh the breaker's
// window, every tenth the pool: no request fails, no state changes, there are never more in flight than the larger number of
// permits allows, and no idle connection of a pool that was replaced is left. `make reload` does it for a minute.
func TestReloadUnderLoad(t *testing.T) {
	for _, p := range []testserver.Protocol{testserver.HTTP1, testserver.HTTP2} {
		t.Run(p.String(), func(t *testing.T) {
			before := runtime.NumGoroutine()
			reloadUnderLoad(t, p, *reloadFor/2)
			for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+2; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
				}
			}
		})
	}
}

// reloads are the permits of each reload, which are in force from some moment between its begin and its end.
type reloads struct {
	permits      []int
	begun, ended atomic.Int64
}

// setting returns the i-th configuration.
func (l *reloads) setting(i int) resilient.Config {
	cfg := resilient.Config{MaxConnsPerHost: 20, TotalTimeout: 7*time.Second + time.Duration(i%5)*time.Second}
	cfg.Bulkhead = resilient.BulkheadConfig{MaxConcurrent: l.permits[i], AcquireTimeout: time.Second}
	cfg.Breaker.FailureRatio = 0.4 + float64(i%6)/10 // of the answers a tenth are failures
	cfg.Breaker.OpenFor = time.Duration(1+i/7%2) * time.Minute
	cfg.IdleConnTimeout = 50*time.Second + time.Duration(i/10%2)
	return cfg
}

// allowed is how many may be in flight for one who came when reload from had ended.
func (l *reloads) allowed(from int) int { return slices.Max(l.permits[from : l.begun.Load()+1]) }

func reloadUnderLoad(t *testing.T, p testserver.Protocol, long time.Duration) {
	const every, workers = 10 * time.Millisecond, 14
	l := &reloads{permits: make([]int, long/every+2)}
	for i := range l.permits {
		l.permits[i] = 3 + (i*7+i/5)%14
	}
	server, err := testserver.Start(testserver.Options{Protocol: p})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var inFlight, served atomic.Int64
	server.Default(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(inFlight.Add(1))
		defer inFlight.Add(-1)
		if from, _ := strconv.Atoi(r.Header.Get("X-From")); n > l.allowed(from) {
			t.Errorf("%d in flight of %d", n, l.allowed(from))
		}
		io.Copy(io.Discard, r.Body)
		k := served.Add(1)
		time.Sleep(time.Duration(k%4) * time.Millisecond)
		if k%10 == 0 {
			w.WriteHeader(500)
		}
		io.WriteString(w, strings.Repeat("x", int(k%3)*1000))
		if r.Method != http.MethodHead { // whose exchange the headers end, before this has returned
			http.NewResponseController(w).Flush()
		}
		io.WriteString(w, "end")
	}))
	if p == testserver.HTTP1 {
		server.On("/upgrade", testserver.Upgrade())
	}

	r := &rig{T: t, server: server, prom: prometheus.NewRegistry()}
	r.reg = resilient.NewRegistry(resilient.WithRegisterer(r.prom))
	setting := func(i int) resilient.Config {
		cfg := l.setting(i)
		if p == testserver.HTTP2 {
			cfg.Protocol = resilient.HTTP2
		}
		return cfg
	}
	opts := []resilient.Option{resilient.WithLogger(discard)}
	if c := server.TLS(); c != nil {
		opts = append(opts, resilient.WithTLSConfig(c))
	}
	r.Client, err = r.reg.NewClient("sber", setting(0), opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	var stop atomic.Bool
	var load sync.WaitGroup
	for i := range workers {
		load.Go(func() {
			for n := i; !stop.Load(); n++ {
				if err := r.oneOfMany(n, l); err != nil {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	load.Go(func() {
		for !stop.Load() {
			r.conserved()
			time.Sleep(7 * time.Millisecond)
		}
	})
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for i := 1; i < len(l.permits); i++ {
		<-ticker.C
		l.begun.Store(int64(i))
		if err := r.Reconfigure(setting(i)); err != nil {
			t.Error(err)
		}
		l.ended.Store(int64(i))
	}
	stop.Store(true)
	load.Wait()
	r.held(0)
	if s := r.State(); len(s.Transitions) != 0 || s.Breaker.State != "closed" || s.Bulkhead.Rejected != 0 || s.Bulkhead.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	m := r.metrics()
	if sum := m["requests_total success"] + m["requests_total error_status"] + m["requests_total upgraded"]; sum != m["requests_started_total"] || sum < 100 {
		t.Errorf("%v requests of %v were answered", sum, m["requests_started_total"])
	}
	stats := server.Stats()
	t.Logf("%d reloads, %v requests, %d connections, at most %d at a time, and %d requests", len(l.permits)-1, m["requests_started_total"],
		stats.Conns, stats.MaxOpenConns, stats.MaxConcurrent)
	if stats.MaxOpenConns > 60 { // of two pools, or three where the machine is slow
		t.Errorf("%d connections open at one time", stats.MaxOpenConns)
	}
	r.CloseIdleConnections() // of the pool in use: those of the others are closed
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := server.Await(ctx, func(s testserver.Stats) bool { return s.OpenConns == 0 }); err != nil {
		t.Errorf("%d connections are left", server.Stats().OpenConns)
	}
}

// oneOfMany does an exchange, or an execution of two, that must succeed; n says of which kind.
func (r *rig) oneOfMany(n int, l *reloads) error {
	from := strconv.FormatInt(l.ended.Load(), 10)
	send := func(ctx context.Context, method string, body io.Reader) error {
		req, err := http.NewRequestWithContext(ctx, method, r.server.URL(), body)
		if err != nil {
			return err
		}
		req.Header.Set("X-From", from)
		resp, err := r.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err == nil && method != "HEAD" && !bytes.HasSuffix(b, []byte("end")) {
			err = fmt.Errorf("%q", b)
		}
		return err
	}
	ctx := context.Background()
	switch kind := n % 8; {
	case kind < 3:
		return send(ctx, "GET", nil)
	case kind == 3:
		return send(ctx, "POST", io.MultiReader(strings.NewReader("to be sent once"))) // not to be repeated by net/http
	case kind == 4:
		return send(ctx, "PUT", strings.NewReader(strings.Repeat("x", 10_000)))
	case kind == 5:
		return send(ctx, "HEAD", nil)
	case kind == 6:
		_, err := resilient.Execute(ctx, r.Client, func(ctx context.Context) (int, error) {
			return 0, errors.Join(send(ctx, "GET", nil), send(ctx, "POST", strings.NewReader("x")))
		})
		return err
	case r.server.TLS() != nil:
		return send(ctx, "GET", nil)
	}
	req := r.upgrade(ctx)
	req.URL.Path = "/upgrade"
	resp, err := r.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	rw := resp.Body.(io.ReadWriter)
	rw.Write([]byte("ping"))
	_, err = io.ReadFull(rw, make([]byte, 4))
	return err
}
