package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/faultproxy"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A call is one that the service was asked for: when, and what came of it.
type call struct {
	system int
	at     time.Duration // since the beginning
	took   time.Duration // with the wait for a worker
	err    error
}

// A result is what was measured of one run.
type result struct {
	guarded, fault bool
	calls          []call
	dead, well     time.Duration // when the partner died and when it was back; 0: it was well all the time
	busy           int           // workers, at most
	held           int           // of the sick system's callers within the client, at most
	goroutines     int           // at most
}

// A service has a number of workers, who make the calls that it is asked for, first come first served.
type service struct {
	plan    plan
	do      []func(*http.Request) (*http.Response, error) // by system
	url     []string
	jobs    chan call
	begun   time.Time
	busy    atomic.Int64
	gone    atomic.Bool // the sick system
	mu      sync.Mutex
	calls   []call
	clients []*resilient.Client
}

// measure runs the plan once. System 0 is the sick one, if there is a fault.
func measure(ctx context.Context, p plan, guarded, fault bool) (r result, err error) {
	r = result{guarded: guarded, fault: fault}
	s := &service{plan: p, jobs: make(chan call, 1<<20)}
	var proxy *faultproxy.Proxy
	reg := resilient.NewRegistry()
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DialContext = s.dial
	shared := &http.Client{Transport: base, Timeout: 7 * time.Second} //resilient:ignore what is measured against: one client for all systems
	defer base.CloseIdleConnections()
	for i := range p.Systems {
		server, err := testserver.Start(testserver.Options{Handler: testserver.After(p.Takes, testserver.OK(strings.Repeat("ok", 500)))})
		if err != nil {
			return r, err
		}
		defer server.Close()
		url := server.URL()
		if i == 0 {
			if proxy, err = faultproxy.Start(strings.TrimPrefix(url, "http://")); err != nil {
				return r, err
			}
			defer proxy.Close()
			url = "http://" + proxy.Addr()
		}
		s.url = append(s.url, url+"/")
		if !guarded {
			s.do = append(s.do, shared.Do)
			continue
		}
		c, err := reg.NewClient(fmt.Sprintf("partner-%d", i), p.Config, resilient.WithDialContext(s.dial), resilient.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			return r, err
		}
		defer c.Close()
		s.do, s.clients = append(s.do, c.Do), append(s.clients, c)
	}

	s.begun = time.Now()
	over, end := context.WithTimeout(ctx, p.Well+p.Dead+p.After)
	defer end()
	var wg sync.WaitGroup
	for range p.Workers {
		wg.Go(func() { s.work(ctx) })
	}
	var sources sync.WaitGroup
	for i := range p.Systems {
		sources.Go(func() { s.ask(over, i, p.Rate, 0) })
	}
	if fault {
		sources.Go(func() { // nine times its load more, from its death on
			s.ask(over, 0, p.Rate*(p.Times-1), p.Well)
		})
		sources.Go(func() { err = s.fall(over, proxy, &r) })
	}
	sources.Go(func() { s.watch(over, &r) })
	sources.Wait()
	if err == nil {
		err = ctx.Err()
	}
	close(s.jobs)
	wg.Wait()
	r.calls = s.calls
	return r, err
}

// ask asks for calls of a system at an even rate, whatever becomes of them, from a moment on.
func (s *service) ask(ctx context.Context, system, rate int, from time.Duration) {
	every := time.Second / time.Duration(rate)
	for at := from + every*time.Duration(system)/time.Duration(s.plan.Systems); ; at += every {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(s.begun.Add(at))):
		}
		s.jobs <- call{system: system, at: at}
	}
}

// work makes calls until there are none.
func (s *service) work(ctx context.Context) {
	for c := range s.jobs {
		s.busy.Add(1)
		c.err = s.one(ctx, c)
		s.busy.Add(-1)
		c.took = time.Since(s.begun) - c.at
		s.mu.Lock()
		s.calls = append(s.calls, c)
		s.mu.Unlock()
	}
}

var (
	errLate   = errors.New("nobody waits for it any more")
	errStatus = errors.New("not 200")
)

func (s *service) one(ctx context.Context, c call) error {
	if time.Since(s.begun)-c.at > s.plan.Patience {
		return errLate // before it is begun
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url[c.system], nil)
	if err != nil {
		return err
	}
	resp, err := s.do[c.system](req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errStatus
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// fall has the sick system vanish, and come back: nothing passes, and nobody can connect.
func (s *service) fall(ctx context.Context, proxy *faultproxy.Proxy, r *result) error {
	if !wait(ctx, s.plan.Well) {
		return nil
	}
	hole := faultproxy.Fault{End: faultproxy.Silence}
	s.gone.Store(true)
	proxy.Set(faultproxy.ToServer, hole)
	proxy.Set(faultproxy.ToClient, hole)
	r.dead = time.Since(s.begun)
	if !wait(ctx, s.plan.Dead) {
		return nil
	}
	s.gone.Store(false)
	err := proxy.Heal()
	r.well = time.Since(s.begun)
	return err
}

// dial connects to a system; nobody answers at the sick one's address while it is gone.
func (s *service) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if s.gone.Load() && s.url[0] == "http://"+addr+"/" {
		return testserver.BlackHole(ctx, network, addr)
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// wait reports whether ctx has not ended before d has passed.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// watch looks at what is held.
func (s *service) watch(ctx context.Context, r *result) {
	for wait(ctx, 10*time.Millisecond) {
		r.goroutines = max(r.goroutines, runtime.NumGoroutine())
		r.busy = max(r.busy, int(s.busy.Load()))
		if s.clients != nil {
			b := s.clients[0].State().Bulkhead
			r.held = max(r.held, b.Active+b.Waiting)
		}
	}
}
