package resilient_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/semaphore"
)

// BH-1: a semaphore for each system, apart from the limit of its pool. Nothing that is data takes it away; what does is loud.
func TestRule_BH1(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		insurer := r.beside("insurer", resilient.Config{})
		r.server.Default(testserver.HangBeforeHeaders())
		for range 16 {
			go r.get(r.Context())
		}
		synctest.Wait()
		_, err := r.get(r.Context()) // while the pool of 20 has room
		if full, ok := errors.AsType[*resilient.FullError](err); !ok || full.System != "sber" || full.Max != 16 {
			r.Errorf("the 17th: %v", err)
		}
		if s := r.server.Stats(); s.Concurrent != 16 || s.OpenConns >= 20 {
			r.Errorf("the server sees %d requests on %d connections", s.Concurrent, s.OpenConns)
		}
		r.server.Default(testserver.OK("ok"))
		if resp, err := insurer.Do(r.request(r.Context(), "GET", nil)); err != nil {
			r.Errorf("another system: %v", err)
		} else {
			resp.Body.Close()
		}
		r.server.Release()
		synctest.Wait()
	})
	for _, n := range []int{-1, 20, 1 << 40} { // none, the whole pool, no limit
		refused(t, resilient.Config{Bulkhead: config.Bulkhead{MaxConcurrent: n}}, "Bulkhead.MaxConcurrent")
	}
	for _, variable := range []string{"BULKHEAD_ENABLED", "BULKHEAD_DISABLED", "BULKHEAD_MAX_CONCURRENT"} {
		t.Setenv(config.EnvPrefix("sber")+variable, "0")
		if _, err := resilient.FromEnv("sber"); err == nil {
			t.Errorf("%s=0 is taken", variable)
		}
		t.Setenv(config.EnvPrefix("sber")+variable, "")
	}
	var log bytes.Buffer
	c, err := resilient.NewRegistry().NewClient("sber", resilient.Config{}, resilient.Observe(), resilient.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if line := log.String(); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "system=sber") {
		t.Errorf("Observe is not loud: %q", line)
	}
}

// BH-2: a semaphore and no pool of workers: the call runs in the caller's goroutine, and the library has none of its own.
func TestRule_BH2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type caller struct{}
		release := make(chan struct{})
		base := roundTripper(func(q *http.Request) (*http.Response, error) {
			if mine, its := goroutine(), q.Context().Value(caller{}); mine != its {
				t.Errorf("the call of goroutine %v runs in %v", its, mine)
			}
			<-release
			return answer(q, 200, http.NoBody), nil
		})
		c, err := resilient.NewRegistry().NewClient("sber", resilient.Config{}, resilient.WithBase(&base))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle := ownGoroutines()
		var callers sync.WaitGroup
		for range 16 + 160 {
			callers.Go(func() {
				ctx := context.WithValue(t.Context(), caller{}, goroutine())
				_, err := resilient.Execute(ctx, c, func(ctx context.Context) (*http.Response, error) {
					if mine, its := goroutine(), ctx.Value(caller{}); mine != its {
						t.Errorf("the func of goroutine %v runs in %v", its, mine)
					}
					req, _ := http.NewRequestWithContext(ctx, "GET", "http://sber.test/", nil)
					return c.Do(req)
				})
				if err != nil && !errors.Is(err, resilient.ErrBulkheadFull) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if s := c.State(); s.Bulkhead.Active != 16 || s.Bulkhead.Waiting != 160 {
			t.Errorf("%+v", s.Bulkhead)
		}
		if n := ownGoroutines(); idle != 0 || n != 0 {
			t.Errorf("%d goroutines of the library's when idle, %d under load", idle, n)
		}
		time.Sleep(100 * time.Millisecond)
		close(release)
		callers.Wait()
	})
}

// BH-X1: the caller's context survives: its values, its trace, its deadline and its cancellation reach the call, in the queue too.
func TestRule_BHX1(t *testing.T) {
	inOne(t, setting{cfg: permits(1)}, func(r *rig) {
		type key struct{}
		traced := false
		ctx := context.WithValue(r.Context(), key{}, "span")
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { traced = true }})
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		if _, err := r.get(ctx); err != nil || !traced {
			r.Errorf("traced: %t, %v", traced, err)
		}
		deadline, _ := ctx.Deadline()
		seen := func(ctx context.Context) {
			r.Helper()
			if d, ok := ctx.Deadline(); ctx.Value(key{}) != "span" || !ok || d.After(deadline) {
				r.Errorf("value %v, deadline %v of %v", ctx.Value(key{}), d, deadline)
			}
		}
		r.over(func(q *http.Request) (*http.Response, error) {
			seen(q.Context())
			return answer(q, 200, http.NoBody), nil
		}).RoundTrip(r.request(ctx, "GET", nil))
		resilient.Execute(ctx, r.Client, func(ctx context.Context) (int, error) { seen(ctx); return 0, nil })
		semaphore.Do(ctx, semaphore.New("printer", semaphore.Limits{MaxConcurrent: 1}), 0, func(ctx context.Context) (int, error) { seen(ctx); return 0, nil })

		r.server.Default(testserver.HangBeforeHeaders())
		for _, after := range []time.Duration{80 * time.Millisecond, 50 * time.Millisecond} { // in the call, and in the queue for its permit
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(after, func() { cancel(errBoom) })
			go func() {
				d := took(func() {
					_, err := r.get(ctx)
					r.is(err, context.Canceled, errBoom)
				})
				if d != after {
					r.Errorf("cancelled after %v, returned after %v", after, d)
				}
			}()
			synctest.Wait()
		}
		if s := r.State().Bulkhead; s.Active != 1 || s.Waiting != 1 {
			r.Errorf("%+v", s)
		}
		time.Sleep(80 * time.Millisecond)
		synctest.Wait()
		if n := r.State().Bulkhead.Rejected; n != 0 {
			r.Errorf("%d callers that left are counted as rejected", n)
		}
	})
}

// BH-3: about 0.8 of the pool at once; a wait of 100 ms, and never of more than 1 s.
func TestRule_BH3(t *testing.T) {
	for pool, want := range map[int]int{1: 1, 2: 1, 5: 4, 9: 7, 10: 8, 20: 16, 100: 80, 1000: 800} {
		full, err := resilient.Config{MaxConnsPerHost: pool}.Complete()
		if err != nil || full.Bulkhead.MaxConcurrent != want || full.Bulkhead.AcquireTimeout != 100*time.Millisecond {
			t.Errorf("of %d connections: %+v, %v", pool, full.Bulkhead, err)
		}
	}
	refused(t, resilient.Config{Bulkhead: config.Bulkhead{AcquireTimeout: time.Second + 1}}, "Bulkhead.AcquireTimeout")
	for wait, want := range map[time.Duration]time.Duration{0: 100 * time.Millisecond, time.Second: time.Second, resilient.NoWait: 0} {
		cfg := permits(1)
		cfg.Bulkhead.AcquireTimeout = wait
		inOne(t, setting{cfg: cfg}, func(r *rig) {
			r.server.Default(testserver.HangBeforeHeaders())
			go r.get(r.Context())
			synctest.Wait()
			d := took(func() {
				_, err := r.get(r.Context())
				r.is(err, resilient.ErrBulkheadFull, resilient.ErrUnavailable)
			})
			if d != want {
				r.Errorf("AcquireTimeout %v: refused after %v", wait, d)
			}
			r.server.Release()
			synctest.Wait()
		})
	}
}
