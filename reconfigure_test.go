package resilient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
)

// change reconfigures r to what it has but for what f changes.
func (r *rig) change(f func(cfg *resilient.Config)) {
	r.Helper()
	cfg := r.State().Config
	f(&cfg)
	if err := r.Reconfigure(cfg); err != nil {
		r.Fatal(err)
	}
	if diff := cmp.Diff(cfg, r.State().Config); diff != "" {
		r.Errorf("in force: %s", diff)
	}
}

// logged returns what f has c log, line by line, where c logs to log.
func logged(log *bytes.Buffer, f func()) string {
	log.Reset()
	f()
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	for i, line := range lines {
		_, lines[i], _ = strings.Cut(line, " ") // without its time
	}
	return strings.Join(lines, "\n")
}

// textLog logs to log.
func textLog(log *bytes.Buffer) resilient.Option {
	return resilient.WithLogger(slog.New(slog.NewTextHandler(log, nil)))
}

// An invalid configuration is refused, with every fault, and what was goes on: settings, permits, window and connections.
func TestReconfigureRefuses(t *testing.T) {
	var log bytes.Buffer
	inBoth(t, setting{cfg: trips(3, permits(2)), opts: []resilient.Option{textLog(&log)}}, func(r *rig) {
		r.server.Next(testserver.Status(500), testserver.Status(500))
		r.get(r.Context())
		r.get(r.Context())
		before, conns := r.State(), r.server.Stats().Conns
		bad := resilient.Config{MaxConnsPerHost: -1, ReadTimeout: time.Hour, Breaker: config.Breaker{FailureRatio: 2}}
		said := logged(&log, func() {
			err := r.Reconfigure(bad)
			if err == nil {
				r.Fatal("no error")
			}
			for _, want := range []string{`resilient: client "sber": `, "Config.MaxConnsPerHost", "Config.ReadTimeout", "Config.Breaker.FailureRatio"} {
				if !strings.Contains(err.Error(), want) {
					r.Errorf("no %s in %v", want, err)
				}
			}
			if _, ok := errors.AsType[*config.FieldError](err); !ok {
				r.Errorf("%v holds no FieldError", err)
			}
		})
		if diff := cmp.Diff(before, r.State()); diff != "" || said != "" {
			r.Errorf("changed: %s, logged: %s", diff, said)
		}
		r.server.Next(testserver.Status(500))
		r.get(r.Context())
		r.breaker("open") // the window is the old one
		if n := r.server.Stats().Conns; n != conns {
			r.Errorf("%d connections, %d before", n, conns)
		}
	})
}

// A zero field is its default, not what it was.
func TestReconfigureTakesAWholeConfig(t *testing.T) {
	cfg := bounds(time.Second, 2*time.Second, 10*time.Second, trips(3, permits(4)))
	inOne(t, setting{cfg: cfg}, func(r *rig) {
		if err := r.Reconfigure(resilient.Config{MaxConnsPerHost: 10}); err != nil {
			r.Fatal(err)
		}
		want, err := resilient.Config{MaxConnsPerHost: 10}.Complete()
		if err != nil {
			r.Fatal(err)
		}
		s := r.State()
		if diff := cmp.Diff(want, s.Config); diff != "" || s.Bulkhead.MaxConcurrent != 8 || s.Bulkhead.MaxWaiting != 80 {
			r.Errorf("%s; %+v", diff, s.Bulkhead)
		}
		r.server.Default(testserver.HangBeforeHeaders())
		if d := took(func() { _, err := r.get(r.Context()); r.timeout(err, "read") }); d != 5*time.Second {
			r.Errorf("after %v", d)
		}
	})
}

// A closed client, or one that is being closed, is not reconfigured.
func TestReconfigureClosed(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.server.Default(testserver.After(time.Second, testserver.OK("ok")))
		before := r.State().Config
		done := make(chan error, 1)
		go func() { _, err := r.get(r.Context()); done <- err }()
		synctest.Wait()
		go r.Shutdown(r.Context())
		synctest.Wait()
		refused := func() {
			err := r.Reconfigure(resilient.Config{MaxConnsPerHost: 7})
			if e, ok := errors.AsType[*resilient.ClosedError](err); !ok || e.System != "sber" || e.Started || r.State().Config != before {
				r.Errorf("%v, %+v", err, r.State().Config)
			}
		}
		refused()
		if err := <-done; err != nil {
			r.Error(err)
		}
		synctest.Wait()
		refused()
	})
}

// The sum over all clients stays below the registry's limit, whoever reconfigures at once.
func TestReconfigureWithinTheSum(t *testing.T) {
	reg := resilient.NewRegistry(resilient.WithMaxTotalConns(50))
	with := func(n int) resilient.Config { return resilient.Config{MaxConnsPerHost: n} }
	var clients []*resilient.Client
	for i := range 4 {
		c, err := reg.NewClient(fmt.Sprint("system-", i), with(10), resilient.WithLogger(discard))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	err := clients[0].Reconfigure(with(21))
	if err == nil || clients[0].State().Config.MaxConnsPerHost != 10 || !strings.Contains(err.Error(), "resilient: system-0: MaxConnsPerHost 21 would bring the sum over all clients to 51, above the registry's limit of 50") {
		t.Error(err)
	}
	for _, n := range []int{20, 5, 20} { // 20 + 3×10 are allowed
		if err := clients[0].Reconfigure(with(n)); err != nil {
			t.Error(err)
		}
	}
	if err := clients[1].Reconfigure(with(11)); err == nil {
		t.Error("51 are allowed")
	}
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			for i := range 200 {
				_ = c.Reconfigure(with(5 + i%20))
				sum := 0
				for _, c := range clients { // not at one moment; each is below it at any
					sum = max(sum, c.State().Config.MaxConnsPerHost)
				}
				if sum > 50 {
					t.Errorf("%d", sum)
				}
			}
		})
	}
	all.Wait()
	sum := 0
	for _, s := range reg.States() {
		sum += s.Config.MaxConnsPerHost
	}
	if sum > 50 {
		t.Errorf("%d in all", sum)
	}
}

// What was changed is logged once, at level Info, and is no transition.
func TestReconfigureLogs(t *testing.T) {
	var log bytes.Buffer
	inBoth(t, setting{cfg: trips(1, permits(2)), opts: []resilient.Option{textLog(&log)}}, func(r *rig) {
		is := func(want string, change func(cfg *resilient.Config)) {
			r.Helper()
			if got := logged(&log, func() { r.change(change) }); got != want {
				r.Errorf("logged %s\nwant %s", got, want)
			}
		}
		const start = `level=INFO msg="client reconfigured" system=sber changed=`
		is(start+`"[TotalTimeout Bulkhead.MaxConcurrent]" new_pool=false breaker_pending=false`,
			func(cfg *resilient.Config) { cfg.TotalTimeout, cfg.Bulkhead.MaxConcurrent = 8*time.Second, 3 })
		is(start+"[IdleConnTimeout] new_pool=true breaker_pending=false", func(cfg *resilient.Config) { cfg.IdleConnTimeout = time.Second })
		is(start+"[Breaker.OpenFor] new_pool=false breaker_pending=false", func(cfg *resilient.Config) { cfg.Breaker.OpenFor = time.Second })
		r.trip()
		is(start+"[Breaker.OpenFor] new_pool=false breaker_pending=true", func(cfg *resilient.Config) { cfg.Breaker.OpenFor = time.Minute })
		if n := len(r.State().Transitions); n != 1 {
			r.Errorf("%d transitions", n)
		}
		time.Sleep(time.Second + 1)
		r.works()
		r.trip()
		if d := time.Until(r.State().Breaker.OpenUntil); d != time.Minute {
			r.Errorf("open for %v", d)
		}
	})
}

// mustSend has n requests under way, to be ended by the func returned, which checks that they succeeded.
func (r *rig) mustSend(n int, path string) (end func()) {
	r.Helper()
	errs := make(chan error, n)
	for range n {
		go func() {
			resp, err := r.RoundTrip(r.to(context.Background(), path))
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					err = errors.Join(err, errors.New(resp.Status))
				}
			}
			errs <- err
		}()
	}
	synctest.Wait()
	return func() {
		r.Helper()
		for range n {
			if err := <-errs; err != nil {
				r.Error(err)
			}
		}
	}
}
