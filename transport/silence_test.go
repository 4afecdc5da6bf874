package transport_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// callers starts one with the deadline each interval, for so long.
func (r *rig) callers(deadline, interval, long time.Duration) *sync.WaitGroup {
	var all sync.WaitGroup
	rt := r.all()
	for start := time.Now(); time.Since(start) < long; time.Sleep(interval) {
		all.Go(func() { _ = within(deadline)(r, rt) })
	}
	return &all
}

// Callers with deadlines too short for any bound of ours still show a hang: 16
// in a row once the system has been silent to all of them for ReadTimeout/2.
func TestImpatientCallersShowAHang(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		r.server.Default(testserver.HangBeforeHeaders())
		r.callers(time.Second, 100*time.Millisecond, 2500*time.Millisecond).Wait()
		r.state("closed")
		r.callers(time.Second, 100*time.Millisecond, 6*time.Second).Wait()
		r.state("open")
	})
}

// The same callers of a partner that is slow for all but a few.
func TestImpatientCallersOfASlowPartner(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		r.server.Default(testserver.HangBeforeHeaders())
		r.server.On("/alive", testserver.OK("ok"))
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Second):
					_, _ = read(r.breaker.Wrap(r.base).RoundTrip(newRequest(r.T, r.Context(), "GET", r.server.URL()+"/alive", nil)))
				}
			}
		}()
		r.callers(time.Second, 100*time.Millisecond, time.Minute).Wait()
		r.state("closed")
		close(stop)
	})
}

// What is heard in a body counts for everybody.
func TestAnyByteEndsTheSilence(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		r.server.Default(testserver.HangBeforeHeaders())
		r.server.On("/drip", testserver.Trickle(1, 2*time.Second, 3))
		go func() {
			_, _ = read(r.breaker.Wrap(r.base).RoundTrip(newRequest(r.T, r.Context(), "GET", r.server.URL()+"/drip", nil)))
		}()
		r.callers(time.Second, 50*time.Millisecond, 7*time.Second).Wait()
		r.state("closed") // silent since 6s
		r.callers(time.Second, 50*time.Millisecond, 1500*time.Millisecond).Wait()
		r.state("closed") // nobody waited in between, so the silence began anew
	})
}

// After idle time nobody has been waiting, however long ago the last byte came.
func TestIdleTimeIsNoSilence(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		_ = get(r, r.all())
		time.Sleep(time.Hour)
		r.server.Default(testserver.HangBeforeHeaders())
		for range 10 {
			_ = cancelAfter(time.Second, nil)(r, r.all())
			_ = within(2*time.Second)(r, r.all())
			time.Sleep(time.Hour)
		}
		r.state("closed")
		_ = cancelAfter(2500*time.Millisecond, nil)(r, r.all())
		r.state("open")
	})
}

// Nor has one who holds a body without reading it.
func TestSlowConsumerIsNoSilence(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		r.server.Next(testserver.Trickle(1<<10, 10*time.Millisecond, -1))
		resp, err := r.all().RoundTrip(r.request(r.Context(), "GET", nil))
		if err != nil {
			r.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		r.server.Default(testserver.HangBeforeHeaders())
		_ = cancelAfter(time.Second, nil)(r, r.all())
		r.state("closed")
		resp.Body.Close()
		synctest.Wait() // for the Read that it ended
	})
}

// A user interface that cancels each request for the next one is no failure (B-01).
func TestTenThousandCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		rt := r.chain(fake(hang), []string{"bulkhead", "breaker", "timeout"})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for i := range 1000 {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(time.Duration(i%100)*time.Microsecond, cancel)
					_, err := r.get(ctx, rt)
					cancel()
					if err == nil {
						t.Error("answered")
					}
				}
			})
		}
		all.Wait()
		r.state("closed")
		r.halfOpen()
		for range 200 { // each a probe that frees its slot
			_ = cancelAfter(time.Millisecond, nil)(r, rt)
		}
		r.state("half_open")
		if err := r.probe(); err != nil {
			t.Error(err)
		}
		r.state("closed")
	})
}

// Who waits is counted right, whatever ends the wait: otherwise idle time would
// count as silence, or never.
func TestWaitersAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		for name, a := range acts {
			for _, layers := range [][]string{{"breaker"}, {"breaker", "timeout"}, {"breaker", "rebody", "timeout"}} {
				where := fmt.Sprint(name, layers)
				r.halfOpen()
				if err := a.call(r.chain(a.base, layers), r.request(t.Context(), "GET", nil)); err != nil {
					t.Errorf("%s: %v", where, err)
				}
				r.free(where)
				time.Sleep(time.Hour)
				rt := r.chain(fake(hang), layers)
				if _ = cancelAfter(2499*time.Millisecond, nil)(r, rt); r.breaker.State().State != "closed" {
					t.Errorf("%s: idle time counts", where)
				}
				if _ = cancelAfter(2500*time.Millisecond, nil)(r, rt); r.breaker.State().State != "open" {
					t.Errorf("%s: silence does not count", where)
				}
				time.Sleep(time.Hour)
				_ = r.probe()
			}
		}
	})
}

// All times are monotonic (L-07), and a base that answers with data and error
// at once was not silent.
func TestDataWithError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		got := r.verdict(func() {
			ctx, cancel := context.WithCancel(t.Context())
			step := 0
			body := readFunc(func(p []byte) (int, error) {
				time.Sleep(2 * time.Second)
				if step++; step == 2 {
					cancel()
					return 0, context.Canceled
				}
				return copy(p, "x"), nil
			})
			base := fake(func(req *http.Request) (*http.Response, error) { return response(req, 200, body), nil })
			resp, err := r.breaker.Wrap(base).RoundTrip(r.request(ctx, "GET", nil))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
		})
		if got != neutral {
			t.Error(got)
		}
	})
}

// The wait for events is no sign that the system hangs.
func TestIdleStreamIsNoSilence(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		r.server.On("/stream", testserver.StallInBody(3))
		ctx := transport.WithBounds(r.Context(), transport.Bounds{Total: transport.Unbounded, Read: transport.Unbounded})
		resp, err := r.all().RoundTrip(newRequest(r.T, ctx, "GET", r.server.URL()+"/stream", nil))
		if err != nil {
			r.Fatal(err)
		}
		go io.Copy(io.Discard, resp.Body)
		time.Sleep(10 * sec)
		r.server.Default(testserver.HangBeforeHeaders())
		for range 20 {
			_ = cancelAfter(ms, nil)(r, r.all())
		}
		r.state("closed")
		resp.Body.Close()
		synctest.Wait() // for the Read that it ended
	})
}

// Nor is an idle upgraded connection.
func TestIdleUpgradeIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, config.Config{})
		r.server.Next(testserver.Upgrade())
		req := r.request(t.Context(), "GET", nil)
		req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
		resp, err := r.all().RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, resp.Body)
		time.Sleep(10 * sec)
		r.server.Default(testserver.HangBeforeHeaders())
		for range 20 {
			_ = cancelAfter(ms, nil)(r, r.all())
		}
		r.state("closed")
		resp.Body.Close()
		synctest.Wait() // for the Read that it ended
	})
}

// A caller that gives up a stream before its headers says nothing, as any other.
func TestCancelledStreamIsNoSilence(t *testing.T) {
	lifted := transport.Bounds{Total: transport.Unbounded, Read: transport.Unbounded}
	inBoth(t, oneProbe, func(r *rig) {
		_ = get(r, r.all())
		time.Sleep(time.Hour)
		r.server.Default(testserver.HangBeforeHeaders())
		_ = bounded(lifted, cancelAfter(ms, nil))(r, r.all())
		r.state("closed")
	})
}
