package transport_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// All that WithBounds can say, over all that a layer can have: what ends a hang
// and what ends a body that trickles.
func TestBounds(t *testing.T) {
	const u, hour = transport.Unbounded, 20 * sec // as good as an hour
	layers := []transport.Bounds{{}, {Total: 7 * sec}, {Read: 5 * sec}, {Total: 7 * sec, Read: 5 * sec}, {Total: 3 * sec, Read: 5 * sec}, {Total: -7, Read: -7}}
	asked := []time.Duration{0, u, -9, sec, 9 * sec}
	effective := func(own, asked time.Duration) time.Duration { // hour = unbounded
		if asked != 0 {
			own = asked
		}
		if own <= 0 {
			return hour
		}
		return own
	}
	synctest.Test(t, func(t *testing.T) {
		trickle := fake(func(req *http.Request) (*http.Response, error) {
			return response(req, 200, readFunc(func(p []byte) (int, error) {
				select {
				case <-time.After(500 * ms):
					return copy(p, "x"), nil
				case <-req.Context().Done():
					return 0, req.Context().Err()
				}
			})), nil
		})
		for _, layer := range layers {
			for _, total := range asked {
				for _, readBound := range asked {
					wantTotal, wantRead := effective(layer.Total, total), effective(layer.Read, readBound)
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(hour, cancel)
					ctx = transport.WithBounds(ctx, transport.Bounds{Total: 1, Read: 1}) // the innermost counts, whole
					ctx = transport.WithBounds(ctx, transport.Bounds{Total: total, Read: readBound})
					for _, row := range []struct {
						base fake
						want time.Duration
					}{{hang, min(wantTotal, wantRead)}, {trickle, wantTotal}} {
						var err error
						d := took(func() {
							_, err = read(transport.Timeout("sber", layer)(row.base).RoundTrip(newRequest(t, ctx, "GET", "http://sber.test/", nil)))
						})
						if row.want == hour && errors.Is(err, context.Canceled) {
							break // that caller is gone
						}
						if d != row.want || !errors.Is(err, transport.ErrTimeout) {
							t.Errorf("%+v with %v, %v: after %v, %v; want %v", layer, total, readBound, d, err, row.want)
						}
					}
					cancel()
				}
			}
		}
	})
}

// Nothing bounded is nothing at all: not even a context of its own.
func TestNoBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := transport.Timeout("sber", transport.Bounds{})(fake(func(req *http.Request) (*http.Response, error) {
			if _, ok := req.Context().Deadline(); ok {
				t.Error("has a deadline")
			}
			time.Sleep(1000 * time.Hour)
			return answer(200)(req)
		}))
		if s, err := read(rt.RoundTrip(newRequest(t, context.Background(), "GET", "http://sber.test/", nil))); s != "ok" || err != nil {
			t.Error(s, err)
		}
	})
}

// A stream is not bounded, siblings are (T-04); and the connect bounds stay.
func TestStream(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		r.server.On("/watch", testserver.Trickle(1, 20*sec, 30))
		ctx := transport.WithBounds(r.Context(), transport.Bounds{Total: transport.Unbounded, Read: transport.Unbounded})
		done := make(chan error)
		go func() {
			s, err := read(r.all().RoundTrip(newRequest(r.T, ctx, "GET", r.server.URL()+"/watch", nil)))
			if len(s) != 30 {
				r.Errorf("%d bytes", len(s))
			}
			done <- err
		}()
		for range 10 {
			time.Sleep(30 * sec)
			r.held(1)
			if err := get(r, r.all()); err != nil {
				r.Error(err)
			}
		}
		if err := <-done; err != nil {
			r.Error(err)
		}
		synctest.Wait()
		r.own.CloseIdleConnections()
		r.dial(testserver.BlackHole)
		d := took(func() {
			_, err := r.get(ctx, r.all())
			isTimeout(r.T, err, transport.PhaseConnect, sec)
		})
		if d != sec {
			r.Error(d)
		}
	})
}

// An alarm rings for its own exchange only, however often it is used again:
// thousands that end just before their bounds, at them, and well before.
func TestNoWrongExchangeIsInterrupted(t *testing.T) {
	const total = 20 * ms
	timeouts := transport.Timeout("sber", transport.Bounds{Total: total, Read: total * 3 / 4})
	var rang, right atomic.Int64
	rt := timeouts(fake(func(req *http.Request) (*http.Response, error) {
		deadline, _ := req.Context().Deadline()
		d, _ := time.ParseDuration(req.Header.Get("For"))
		select {
		case <-req.Context().Done():
			if left := time.Until(deadline); left > total/4 { // before any bound of its own
				t.Errorf("interrupted %v before its total was over", left)
			}
			rang.Add(1)
			return nil, req.Context().Err()
		case <-time.After(d):
			return answer(200)(req)
		}
	}))
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 12 {
				req := newRequest(t, t.Context(), "GET", "http://sber.test/", nil)
				for i := rand.IntN(30); i > 0; i-- { // many short ones between, which reuse the alarms
					if _, err := read(rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))); err != nil && !errors.Is(err, transport.ErrTimeout) {
						t.Error(err)
					}
				}
				req.Header.Set("For", (time.Duration(rand.IntN(20)) * ms).String())
				_, err := read(rt.RoundTrip(req))
				if errors.Is(err, transport.ErrTimeout) {
					right.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if right.Load() == 0 {
		t.Error("no bound fired: nothing was shown")
	}
}

// The same in fake time, where everything coincides: an exchange that ends at
// the very moment of its bound, and the next one with the same alarm.
func TestAlarmAtTheSameMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timeouts := transport.Timeout("sber", transport.Bounds{Total: sec, Read: sec})
		sleep := func(d time.Duration) http.RoundTripper {
			return timeouts(fake(func(req *http.Request) (*http.Response, error) {
				pr, pw := io.Pipe()
				start := time.Now()
				time.AfterFunc(d, func() { pw.Close() })
				context.AfterFunc(req.Context(), func() {
					if time.Since(start) < d && time.Since(start) < sec {
						t.Error("ended early")
					}
					pw.CloseWithError(req.Context().Err())
				})
				return response(req, 200, pr), nil
			}))
		}
		exact, short := sleep(sec), sleep(999*ms)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for range 12 {
					if _, err := read(exact.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))); err != nil {
						isTimeout(t, err, transport.PhaseTotal, sec)
					}
					if _, err := read(short.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
}

// Close, Read, the caller's end and a bound at once: one end, no race (P-06).
func TestEverythingAtOnce(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		r.server.Default(testserver.Trickle(100, 100*ms, -1))
		for i := range 100 {
			end := 900 * ms
			ctx, cancel := context.WithTimeout(transport.WithBounds(r.Context(), transport.Bounds{Total: end, Read: 180 * ms}), sec)
			resp, err := r.all().RoundTrip(r.request(ctx, "GET", nil))
			if err != nil {
				r.Fatal(err)
			}
			start, when := time.Now(), time.Duration(i%10)*100*ms
			go io.Copy(io.Discard, resp.Body)
			time.AfterFunc(when-time.Since(start), cancel)
			time.AfterFunc(when-time.Since(start), func() { resp.Body.Close() })
			time.Sleep(sec)
			resp.Body.Close()
			synctest.Wait()
			r.held(0)
			cancel()
		}
		if err := r.probe(); err != nil {
			r.Error(err)
		}
	})
}

// A Timeout inside a shorter one is not shortened by a caller's deadline.
func TestTwoTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, inner := range []time.Duration{5 * sec, sec} {
			var deadline time.Duration
			base := fake(func(req *http.Request) (*http.Response, error) {
				d, _ := req.Context().Deadline()
				deadline = time.Until(d)
				return hang(req)
			})
			rt := transport.Chain(base, transport.Timeout("sber", transport.Bounds{Total: sec}), transport.Timeout("sber", transport.Bounds{Total: inner}))
			var err error
			d := took(func() { _, err = read(rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))) })
			if d != sec || deadline != sec {
				t.Errorf("after %v, told %v", d, deadline)
			}
			isTimeout(t, err, transport.PhaseTotal, sec)
		}
	})
}
