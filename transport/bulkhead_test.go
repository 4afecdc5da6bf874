package transport_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// The permit is out from admission to the end of the body, however it ends.
func TestPermitToTheEndOfTheBody(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		rt := transport.Bulkhead(r.sem, 0, nil)(r.base)
		open := func(server http.Handler) *http.Response {
			r.Helper()
			r.server.Next(server)
			resp, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
			if err != nil {
				r.Fatal(err)
			}
			return resp
		}
		resp := open(testserver.OK("ok"))
		r.held(1)
		time.Sleep(time.Hour)
		r.held(1) // nothing bounds it here
		_, _ = resp.Body.Read(make([]byte, 1))
		r.held(1)
		if b, err := io.ReadAll(resp.Body); string(b) != "k" || err != nil {
			r.Errorf("%q, %v", b, err)
		}
		r.held(0)
		resp.Body.Close()

		resp = open(testserver.CutInBody(1, 9))
		if _, err := io.ReadAll(resp.Body); err == nil {
			r.Error("not cut")
		}
		r.held(0)

		resp = open(testserver.Trickle(1, time.Second, -1))
		resp.Body.Close()
		r.held(0)
		resp.Body.Close()

		open(testserver.Status(204))
		r.held(0)
	})
}

// An upgraded connection keeps its permit until it is closed (P-09).
func TestPermitOfAnUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		r.server.Default(testserver.Upgrade())
		ctx, cancel := context.WithCancel(t.Context())
		req := r.request(ctx, "GET", nil)
		req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
		r.halfOpen()
		resp, err := r.all().RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		r.state("closed") // the handshake is what the breaker hears
		conn := resp.Body.(io.ReadWriteCloser)
		cancel()
		for range 3 {
			time.Sleep(time.Minute) // beyond every bound
			if _, err := io.WriteString(conn, "hi\n"); err != nil {
				t.Fatal(err)
			}
			if b := make([]byte, 3); true {
				if _, err := io.ReadFull(conn, b); err != nil || string(b) != "hi\n" {
					t.Fatalf("%q, %v", b, err)
				}
			}
			r.held(1)
		}
		conn.Close()
		r.held(0)
	})
}

// Who would be refused anyway is not made to wait for it.
func TestPeekBeforeTheQueue(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		for range r.cfg.Bulkhead.MaxConcurrent {
			_ = r.sem.TryAcquire()
		}
		r.trip()
		var err error
		if d := took(func() { err = get(r, r.all()) }); d != 0 || !errors.Is(err, transport.ErrCircuitOpen) {
			r.Errorf("after %v: %v", d, err)
		}
		if n := r.sem.State().Rejected; n != 0 {
			r.Errorf("%d rejections counted", n)
		}
		time.Sleep(r.cfg.Breaker.OpenFor + 1) // now it is for Allow to say, after the queue
		if d := took(func() { err = get(r, r.all()) }); d != 100*time.Millisecond || !errors.Is(err, semaphore.ErrBulkheadFull) {
			r.Errorf("after %v: %v", d, err)
		}
		r.state("half_open")
		for range r.cfg.Bulkhead.MaxConcurrent {
			r.sem.Release()
		}
		if n := r.server.Stats().Requests; n != 0 {
			r.Errorf("the server saw %d requests", n)
		}
	})
}

// Refusals and callers that leave the queue are nothing to the breaker (B-11),
// close the request's body, and cost no permit.
func TestQueue(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		for range r.cfg.Bulkhead.MaxConcurrent {
			_ = r.sem.TryAcquire()
		}
		r.breaker.OnTransition(func(transport.Transition) { r.Error("the breaker heard of it") })
		for name, row := range map[string]struct {
			do    deed
			after time.Duration
			want  error
		}{
			"waited":         {get, 100 * time.Millisecond, semaphore.ErrBulkheadFull},
			"gone":           {cancelAfter(30*time.Millisecond, nil), 30 * time.Millisecond, context.Canceled},
			"gone, a reason": {cancelAfter(30*time.Millisecond, errMine), 30 * time.Millisecond, errMine},
			"deadline":       {within(50 * time.Millisecond), 50 * time.Millisecond, context.DeadlineExceeded},
			"client timeout": {clientTimeout(50 * time.Millisecond), 50 * time.Millisecond, context.DeadlineExceeded},
		} {
			var err error
			d := took(func() { err = row.do(r, r.all()) })
			if d != row.after || !errors.Is(err, row.want) || errors.Is(err, semaphore.ErrUnavailable) != (name == "waited") {
				r.Errorf("%s: after %v: %v", name, d, err)
			}
		}
		body := &closedBody{Reader: strings.NewReader("x")}
		if _, err := r.all().RoundTrip(r.request(r.Context(), "POST", body)); err == nil || body.closed != 1 {
			r.Errorf("%v, body closed %d times", err, body.closed)
		}
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		for range r.cfg.Bulkhead.MaxConcurrent {
			r.sem.Release()
		}
		if _, err := r.get(ctx, r.all()); !errors.Is(err, context.Canceled) || r.base.calls.Load() != 0 { // W-05
			r.Error(err, r.base.calls.Load())
		}
	})
}

// 200 callers against an open breaker: each refused at once (B-12).
func TestOpenUsesNoPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := oneProbe
		cfg.MaxConnsPerHost = 1
		r := newRig(t, testserver.Options{Memory: true}, cfg)
		r.trip()
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				body := &closedBody{Reader: strings.NewReader("x")}
				var err error
				d := took(func() { _, err = r.all().RoundTrip(r.request(t.Context(), "POST", body)) })
				if d != 0 || !errors.Is(err, transport.ErrCircuitOpen) || body.closed != 1 {
					t.Errorf("after %v: %v, closed %d times", d, err, body.closed)
				}
			})
		}
		all.Wait()
		if s := r.sem.State(); s.Rejected != 0 {
			t.Error(s)
		}
	})
}

// In a wrong order things are worse, but none is wrong: the wait counts against
// the total, a refusal is nothing to the breaker, and nothing is kept.
func TestWrongOrder(t *testing.T) {
	for _, order := range []string{"timeout bulkhead breaker", "timeout breaker bulkhead", "breaker timeout bulkhead", "breaker bulkhead timeout", "bulkhead timeout breaker"} {
		for _, between := range []string{" ", " pass ", " rebody "} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, testserver.Options{Memory: true}, oneProbe)
				layers := map[string]transport.Layer{
					"bulkhead": transport.Bulkhead(r.sem, sec, r.breaker.Peek), "breaker": r.breaker.Wrap,
					"timeout": transport.Timeout("sber", transport.Bounds{Total: 500 * ms}),
				}
				maps.Copy(layers, foreigners)
				where := strings.ReplaceAll(order, " ", between)
				var chain []transport.Layer
				for name := range strings.FieldsSeq(where) {
					chain = append(chain, layers[name])
				}
				rt := transport.Chain(answer(200), chain...)
				for r.sem.TryAcquire() {
				}
				waited := strings.HasPrefix(order, "timeout") || strings.HasPrefix(order, "breaker timeout")
				for name, do := range map[string]deed{"get": get, "gone": cancelAfter(100*ms, nil)} {
					var err error
					d := took(func() {
						if got := r.verdict(func() { err = do(r, rt) }); got == success {
							t.Errorf("%s, %s: %s", where, name, got)
						}
					}) - r.cfg.Breaker.OpenFor - 1
					if d > r.cfg.Breaker.OpenFor {
						d -= r.cfg.Breaker.OpenFor + 1
					}
					want, wantErr := sec, semaphore.ErrBulkheadFull
					switch {
					case name == "gone":
						want, wantErr = 100*ms, context.Canceled
					case waited:
						want, wantErr = 500*ms, transport.ErrTimeout
					}
					if d != want || !errors.Is(err, wantErr) {
						t.Errorf("%s, %s: after %v: %v", where, name, d, err)
					}
				}
				for range r.cfg.Bulkhead.MaxConcurrent {
					r.sem.Release()
				}
				if s, err := r.get(t.Context(), rt); s != "ok" || err != nil {
					t.Errorf("%s: %q, %v", where, s, err)
				}
			})
		}
	}
}

// What a bulkhead inside the breaker says is not the system's, however long it took.
func TestBulkheadInsideBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		rt := transport.Chain(answer(200), r.breaker.Wrap, transport.Bulkhead(failingBulkhead{}, time.Minute, nil))
		for name, do := range map[string]deed{"gone": cancelAfter(10*sec, nil), "deadline": within(10 * sec), "error": get} {
			var err error
			if got := r.verdict(func() { err = do(r, rt) }); got != neutral || err == nil {
				t.Errorf("%s: %s, %v", name, got, err)
			}
		}
	})
}

type failingBulkhead struct{}

func (failingBulkhead) Acquire(ctx context.Context, wait time.Duration) (semaphore.Permit, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(wait):
		return nil, errMine // of a kind that nobody knows
	}
}

// A lease is another implementation of semaphore.Bulkhead: not a pointer, and a permit of its own for each.
type lease struct{ out, asked *atomic.Int64 }

type leased struct {
	l  lease
	id int64
}

func (l lease) Acquire(ctx context.Context, wait time.Duration) (semaphore.Permit, error) {
	if l.asked.Add(1); wait < 0 {
		return nil, errors.New("negative wait")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.out.Load() >= 2 {
		return nil, semaphore.ErrUnavailable
	}
	return leased{l, l.out.Add(1)}, nil
}

func (p leased) Release() { p.l.out.Add(-1) }

func TestAnotherBulkhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		l := lease{new(atomic.Int64), new(atomic.Int64)}
		rt := transport.Chain(r.base, transport.Bulkhead(l, 0, nil), r.breaker.Wrap, r.timeouts.Wrap)
		var open []*http.Response
		for range 2 {
			resp, err := rt.RoundTrip(r.request(t.Context(), "GET", nil))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, resp)
		}
		if err := get(r, rt); !errors.Is(err, semaphore.ErrUnavailable) || !transport.NotSent(err) || r.server.Stats().Requests != 2 {
			t.Error(err)
		}
		r.state("closed")
		for _, resp := range open {
			resp.Body.Close()
			resp.Body.Close()
		}
		for name, a := range acts {
			if err := a.call(transport.Bulkhead(l, 0, nil)(a.base), r.request(t.Context(), "GET", nil)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if n := l.out.Load(); n != 0 {
				t.Fatalf("%s: %d leases out", name, n)
			}
		}
		boom := transport.Bulkhead(panicking{}, 0, nil)(answer(200))
		body := &closedBody{Reader: strings.NewReader("x")}
		swallow(func() { _, _ = boom.RoundTrip(r.request(t.Context(), "POST", body)) })
		if body.closed == 0 {
			t.Error("a panic of Acquire leaves the body open")
		}
	})
}

type panicking struct{}

func (panicking) Acquire(context.Context, time.Duration) (semaphore.Permit, error) { panic("boom") }

// Never more exchanges are between request and end than there are permits, at
// the server too.
func TestLimitAtTheServer(t *testing.T) {
	inBoth(t, config.Config{MaxConnsPerHost: 5, Bulkhead: config.Bulkhead{AcquireTimeout: time.Second, MaxWaiting: 1000}}, func(r *rig) {
		r.server.Default(testserver.Trickle(1, time.Millisecond, 5))
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := get(r, r.all()); err != nil {
					r.Error(err)
				}
			})
		}
		all.Wait()
		if s := r.server.Stats(); s.MaxConcurrent != 4 || s.Requests != 100 {
			r.Errorf("%d at once of %d", s.MaxConcurrent, s.Requests)
		}
	})
}

// An upgraded connection can be half-closed, as over a bare net/http.
func TestCloseWrite(t *testing.T) {
	r := newRig(t, testserver.Options{}, config.Config{})
	r.server.Default(testserver.Upgrade())
	for _, own := range []bool{false, true} {
		if !own {
			r.own.DialContext = r.server.Dial
		} else {
			r.dial(r.server.Dial)
		}
		req := r.request(t.Context(), "GET", nil)
		req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
		resp, err := r.all().RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(resp.Body.(io.Writer), "hi\n")
		if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
			t.Error(err)
		}
		if err := resp.Body.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Errorf("own base %v: %v", own, err)
		}
		resp.Body.Close()
	}
}
