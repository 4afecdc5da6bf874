package resilient_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// Grants race callers' deadlines and cancels, at the same instants, and no permit is lost or made. Some callers are cancelled
// just before a permit is given back, so that it is granted to one who has ended and does not know it yet.
func TestCase_W02(t *testing.T) {
	cfg := trips(1<<20, permits(3))
	cfg.Bulkhead.MaxWaiting = 40 // less than there are callers
	inOne(t, setting{cfg: cfg}, func(r *rig) {
		var inside atomic.Int32
		var cancels [64]atomic.Pointer[context.CancelFunc]
		rt := r.over(func(req *http.Request) (*http.Response, error) {
			if n := inside.Add(1); n > 3 {
				r.Errorf("%d at once", n)
			}
			defer inside.Add(-1)
			select {
			case <-time.After(rand.N[time.Duration](3)):
				if cancel := cancels[rand.IntN(len(cancels))].Load(); cancel != nil {
					(*cancel)()
				}
				return answer(req, 204, http.NoBody), nil
			case <-req.Context().Done():
				return nil, context.Cause(req.Context())
			}
		})
		var wg sync.WaitGroup
		for i := range cancels {
			wg.Go(func() {
				for range 100 {
					ctx, cancel := context.WithTimeout(r.Context(), rand.N[time.Duration](20))
					cancels[i].Store(&cancel)
					rt.RoundTrip(r.request(ctx, "GET", nil))
					cancel()
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		r.held(0)
		r.server.Default(testserver.HangBeforeHeaders())
		for range 10 {
			go r.get(r.Context())
		}
		synctest.Wait()
		if s := r.State().Bulkhead; s.Active != 3 || s.Waiting != 7 {
			r.Errorf("%+v", s)
		}
		r.server.Release()
		synctest.Wait()
		r.server.Release()
		time.Sleep(10 * time.Second)
	})
}

// The head of the queue leaves at the instant in which the permit comes free: the one behind gets it.
func TestCase_W03(t *testing.T) {
	const wait = 100 * time.Millisecond
	for name, leave := range map[string]func(ctx context.Context) (context.Context, func()){
		"cancelled": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(wait, cancel)
			return ctx, cancel
		},
		"deadline": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, wait)
			return ctx, cancel
		},
		"acquire timeout": func(ctx context.Context) (context.Context, func()) { return ctx, func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			inOne(t, setting{cfg: trips(1<<20, permits(1))}, func(r *rig) {
				rt := r.over(func(req *http.Request) (*http.Response, error) { return answer(req, 200, hooked{}), nil })
				for i := range 500 {
					holder, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
					if err != nil {
						r.Fatal(err)
					}
					release := func() { time.AfterFunc(wait, func() { holder.Body.Close() }) }
					if i%2 == 0 { // of timers for one instant the first made is the first to fire
						release()
					}
					call := func(ctx context.Context) error {
						resp, err := rt.RoundTrip(r.request(ctx, "GET", nil))
						if err == nil {
							resp.Body.Close()
						}
						return err
					}
					var wg sync.WaitGroup
					wg.Go(func() {
						ctx, stop := leave(r.Context())
						defer stop()
						call(ctx)
					})
					synctest.Wait()
					if i%2 == 1 {
						release()
					}
					time.Sleep(1)
					wg.Go(func() {
						if err := call(r.Context()); err != nil {
							r.Errorf("the second in the queue: %v", err)
						}
					})
					wg.Wait()
					synctest.Wait()
					r.held(0)
				}
			})
		})
	}
}

// A caller that waits hears at once of its own end, whatever that is, but for Request.Cancel: transport.Bulkhead says so.
func TestCase_W04(t *testing.T) {
	const soon = 10 * time.Millisecond
	cfg := permits(1)
	cfg.Bulkhead.AcquireTimeout = time.Second
	for _, c := range []struct {
		name string
		call func(r *rig) error
		want error
	}{
		{"cancel", func(r *rig) error {
			ctx, cancel := context.WithCancel(r.Context())
			time.AfterFunc(soon, cancel)
			_, err := r.get(ctx)
			return err
		}, context.Canceled},
		{"deadline", func(r *rig) error {
			ctx, cancel := context.WithTimeout(r.Context(), soon)
			defer cancel()
			_, err := r.get(ctx)
			return err
		}, context.DeadlineExceeded},
		{"http.Client.Timeout", func(r *rig) error {
			c := r.HTTPClient()
			c.Timeout = soon
			_, err := c.Get(r.server.URL())
			return err
		}, context.DeadlineExceeded},
		{"Close", func(r *rig) error {
			time.AfterFunc(soon, func() { r.Close() })
			_, err := r.get(r.Context())
			return err
		}, resilient.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, setting{cfg: cfg, server: testserver.Options{Handler: testserver.StallInBody(1)}}, func(r *rig) {
				holder := r.send(r.Context(), "/")
				defer func() { holder.Body.Close(); synctest.Wait() }()
				var err error
				if d := took(func() { err = c.call(r) }); d != soon || err == nil {
					r.Errorf("after %v: %v", d, err)
				}
				if c.want != nil {
					r.is(err, c.want)
				}
				if errors.Is(err, resilient.ErrBulkheadFull) {
					r.Errorf("told that it is full: %v", err)
				}
				if s := r.State().Bulkhead; s.Waiting != 0 || s.Rejected != 0 {
					r.Errorf("%+v", s)
				}
				if n := r.server.Stats().Requests; n != 1 {
					r.Errorf("%d requests were sent", n)
				}
			})
		})
	}
}

// A context that has ended takes nothing, whatever state the client is in.
func TestCase_W05(t *testing.T) {
	for name, prepare := range map[string]func(r *rig){
		"free": func(*rig) {},
		"full": func(r *rig) {
			r.server.Next(testserver.StallInBody(1))
			body := r.send(r.Context(), "/").Body
			time.AfterFunc(time.Second, func() { body.Close() })
		},
		"open":      (*rig).trip,
		"half open": (*rig).halfOpen,
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{cfg: trips(3, permits(1))}, func(r *rig) {
				prepare(r)
				r.State() // may be what makes it half-open, which is told of in a moment
				synctest.Wait()
				before, requests := r.State(), r.server.Stats().Requests
				expired, stop := context.WithDeadline(r.Context(), time.Now())
				defer stop()
				cancelled, cancel := context.WithCancelCause(r.Context())
				cancel(errBoom)
				for ctx, want := range map[context.Context]error{expired: context.DeadlineExceeded, cancelled: context.Canceled} {
					body := &closeCounter{Reader: strings.NewReader("payment")}
					var err error
					if d := took(func() { _, err = r.Do(r.request(ctx, "POST", body)) }); d != 0 {
						r.Errorf("after %v", d)
					}
					r.is(err, want, context.Cause(ctx))
					if errors.Is(err, resilient.ErrUnavailable) || body.closed.Load() == 0 {
						r.Errorf("%v; body closed %d times", err, body.closed.Load())
					}
				}
				if after := r.State(); !reflect.DeepEqual(after, before) {
					r.Errorf("%+v, before %+v", after, before)
				}
				if n := r.server.Stats().Requests; n != requests {
					r.Errorf("%d requests were sent", n-requests)
				}
				time.Sleep(time.Minute)
				r.works()
			})
		})
	}
}

// A holder that comes back at once does not starve the one who waits.
func TestCase_W10(t *testing.T) {
	inBoth(t, setting{cfg: permits(1), server: testserver.Options{Handler: testserver.After(60*time.Millisecond, testserver.OK("ok"))}}, func(r *rig) {
		running, stop := context.WithCancel(r.Context())
		go func() {
			for running.Err() == nil {
				r.get(r.Context())
			}
		}()
		time.Sleep(7 * time.Millisecond)
		for i := range 20 {
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
			d := took(func() {
				if _, err := r.get(r.Context()); err != nil {
					r.Error(err)
				}
			})
			if d > 120*time.Millisecond {
				r.Errorf("took %v", d)
			}
		}
		stop()
		time.Sleep(time.Second)
	})
}

// The timeouts begin with the permit; the caller's deadline is for all of it.
func TestCase_W11(t *testing.T) {
	const ms = time.Millisecond
	cfg := bounds(10*ms, 80*ms, 100*ms, trips(1, permits(1)))
	for _, c := range []struct {
		name     string
		deadline time.Duration
		held     time.Duration
		want     time.Duration
		outcome  string
	}{
		{"no deadline", 0, 80 * ms, 170 * ms, "success"},
		{"a deadline that suffices", 200 * ms, 80 * ms, 170 * ms, "success"},
		{"a deadline in the call", 100 * ms, 80 * ms, 98 * ms, "cancelled"}, // a tenth of the 20 that remain is margin
		{"a deadline in the queue", 50 * ms, 80 * ms, 50 * ms, "cancelled"},
		{"held for too long", 0, 150 * ms, 100 * ms, "refused_full"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, setting{cfg: cfg}, func(r *rig) {
				r.works() // connected
				holder := r.over(func(req *http.Request) (*http.Response, error) { return answer(req, 200, hooked{}), nil })
				resp, err := holder.RoundTrip(r.request(resilient.WithBounds(r.Context(), resilient.Bounds{Total: time.Hour}), "GET", nil))
				if err != nil {
					r.Fatal(err)
				}
				time.AfterFunc(c.held, func() { resp.Body.Close() })
				r.server.Default(testserver.After(60*ms, testserver.Trickle(1, 30*ms, 1)))
				ctx := r.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				if d := took(func() { _, err = r.get(ctx) }); d != c.want {
					r.Errorf("after %v: %v", d, err)
				}
				time.Sleep(time.Second)
				want := map[string]float64{"success": 2}
				want[c.outcome]++
				r.outcomes(want)
				r.breaker("closed")
			})
		})
	}
}
