package transport_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// On real sockets, with everything at once: the server sees at most the calls and
// the budget, and all is given back.
func TestRetryUnderLoad(t *testing.T) {
	for _, protocol := range []testserver.Protocol{testserver.HTTP1, testserver.HTTP2} {
		t.Run(protocol.String(), func(t *testing.T) {
			cfg := calm
			cfg.MaxConnsPerHost, cfg.Bulkhead = 4, config.Bulkhead{AcquireTimeout: 20 * ms}
			r := newRig(t, testserver.Options{Protocol: protocol}, cfg)
			r.server.Default(testserver.Flap(
				testserver.Phase{For: 20 * ms, Do: testserver.Status(503)}, testserver.Phase{For: 20 * ms, Do: testserver.OK("ok")},
				testserver.Phase{For: 20 * ms, Do: testserver.Status(502, "Retry-After", "0")}, testserver.Phase{For: 20 * ms, Do: dripping(503, 2*ms)},
			))
			p := attempts(4)
			p.BaseDelay, p.BudgetRatio, p.BudgetFloor, p.BudgetWindow = 2*ms, 0.1, 5, time.Hour
			retry := transport.NewRetry("sber", p)
			told := eventsOf(retry)
			rt := retry.Wrap(r.all())
			const callers, calls = 8, 40
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					for n := range calls {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+(i*calls+n)%100)*ms)
						body := &bodies{}
						req := body.request(r, ctx)
						resp, err := rt.RoundTrip(req)
						if err == nil {
							_, _ = io.CopyN(io.Discard, resp.Body, 10)
							resp.Body.Close()
						}
						cancel()
					}
				})
			}
			all.Wait()
			s := r.server.Stats()
			if float64(s.Requests) > 1.1*callers*calls+5 {
				t.Errorf("%d requests for %d calls", s.Requests, callers*calls)
			}
			if !strings.Contains(told.String(), "failure") && !strings.Contains(told.String(), "success") || !strings.Contains(told.String(), "budget_exhausted") {
				t.Errorf("%d requests; told %v", s.Requests, told)
			}
		})
	}
}

// With retries as without them: whenever NotSent says so, the server has not seen that request.
func TestNotSentNeverLiesOfRetries(t *testing.T) {
	cfg := config.Config{Breaker: config.Breaker{MinRequests: 100, FailureRatio: 0.9, ConsecutiveFailures: 30, OpenFor: 100 * ms}}
	inBoth(t, cfg, func(r *rig) {
		var dials, proven, repeated atomic.Int64
		r.dial(func(ctx context.Context, network, addr string) (net.Conn, error) {
			switch dials.Add(1) % 3 {
			case 0:
				return refuse(ctx, network, addr)
			case 1:
				return testserver.BlackHole(ctx, network, addr)
			}
			return r.server.Dial(ctx, network, addr)
		})
		r.server.Default(testserver.Flap(
			testserver.Phase{For: sec, Do: testserver.Status(503)}, testserver.Phase{For: sec, Do: testserver.Abort()},
			testserver.Phase{For: sec, Do: testserver.CloseBeforeHeaders()}, testserver.Phase{For: sec, Do: testserver.OK("ok")},
		))
		p := attempts(3)
		p.PutDelete, p.Gate = true, true
		retry := transport.NewRetry("sber", p)
		retry.Peek(r.breaker.Peek)
		retry.OnEvent(func(transport.RetryEvent) { repeated.Add(1) })
		rt := retry.Wrap(r.all())
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				for n := range 30 {
					path := fmt.Sprintf("/%d-%d", i, n)
					req := newRequest(r.T, r.Context(), []string{"POST", "PUT", "GET"}[n%3], r.server.URL()+path, strings.NewReader("pay"))
					resp, err := rt.RoundTrip(req)
					if _, err2 := read(resp, err); err == nil {
						err = err2
					}
					if transport.NotSent(err) {
						proven.Add(1)
						if r.server.Stats().ByPath[path] != 0 {
							r.Errorf("NotSent(%v), but the server saw %s", err, path)
						}
					}
					time.Sleep(time.Duration(7*i) * ms)
				}
			})
		}
		all.Wait()
		if proven.Load() == 0 || repeated.Load() == 0 {
			r.Errorf("%d proven, %d repeated", proven.Load(), repeated.Load())
		}
		time.Sleep(5 * sec)
	})
}
