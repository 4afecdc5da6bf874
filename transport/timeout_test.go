package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// pieces is an upload of n pieces, with a pause before each.
func pieces(n, size int, pause time.Duration) func() io.Reader {
	return func() io.Reader {
		return io.LimitReader(readFunc(func(p []byte) (int, error) {
			time.Sleep(pause)
			return copy(p, strings.Repeat("x", size)), nil
		}), int64(n*size))
	}
}

// Each bound fires at its time to the nanosecond, with its phase.
func TestTimeouts(t *testing.T) {
	const none = time.Duration(0)
	for name, row := range map[string]struct {
		server http.Handler
		do     deed
		after  time.Duration // when it is told; the total if nothing fails
		phase  transport.Phase
		limit  time.Duration
	}{
		"before the headers":       {testserver.HangBeforeHeaders(), get, 5 * sec, transport.PhaseRead, 5 * sec},
		"in the headers":           {testserver.HangInHeaders(), get, 5 * sec, transport.PhaseRead, 5 * sec},
		"just in time":             {testserver.After(5*sec-1, testserver.OK("ok")), get, 5*sec - 1, "", none},
		"in the body":              {testserver.StallInBody(1), get, 5 * sec, transport.PhaseRead, 5 * sec},
		"later in the body":        {testserver.Trickle(1, sec, 1), get, 1 * sec, "", none},
		"a body that moves":        {testserver.Trickle(1, 3*sec, 2), get, 6 * sec, "", none},
		"a body that moves long":   {testserver.Trickle(1, 3*sec, 3), get, 7 * sec, transport.PhaseTotal, 7 * sec},
		"a slow consumer":          {testserver.Trickle(1, sec, 2), slowly(5 * sec), 6 * sec, "", none},
		"a slow consumer's stall":  {testserver.StallInBody(1), slowly(sec), 6 * sec, transport.PhaseRead, 5 * sec},
		"a slower consumer":        {testserver.StallInBody(1), slowly(3 * sec), 7 * sec, transport.PhaseTotal, 7 * sec},
		"an upload that moves":     {testserver.OK("ok"), post(0, pieces(2, 1, 3*sec)), 6 * sec, "", none},
		"and its answer is late":   {testserver.After(4*sec, testserver.OK("ok")), post(0, pieces(2, 1, sec)), 6 * sec, "", none},
		"and then silence":         {testserver.HangBeforeHeaders(), post(0, pieces(1, 1, sec)), 6 * sec, transport.PhaseRead, 5 * sec},
		"an upload that is slow":   {testserver.ReadSlowly(64<<10, 3*sec, testserver.OK("ok")), post(0, pieces(512, 16<<10, 0)), 7 * sec, transport.PhaseTotal, 7 * sec},
		"an upload that stalls":    {testserver.HangUnread(), post(0, hidden(strings.Repeat("x", 8<<20))), 5 * sec, transport.PhaseRead, 5 * sec},
		"a deadline":               {testserver.HangBeforeHeaders(), within(500 * ms), 450 * ms, transport.PhaseDeadline, 450 * ms},
		"a deadline of a second":   {testserver.HangBeforeHeaders(), within(sec), 900 * ms, transport.PhaseDeadline, 900 * ms},
		"a longer deadline":        {testserver.HangBeforeHeaders(), within(4 * sec), 3900 * ms, transport.PhaseDeadline, 3900 * ms},
		"a deadline past read":     {testserver.HangBeforeHeaders(), within(5200 * ms), 5 * sec, transport.PhaseRead, 5 * sec},
		"a deadline near total":    {testserver.Trickle(1, sec, -1), within(7*sec + 50*ms), 6950 * ms, transport.PhaseDeadline, 6950 * ms},
		"a deadline past total":    {testserver.Trickle(1, sec, -1), within(7*sec + 100*ms), 7 * sec, transport.PhaseTotal, 7 * sec},
		"a deadline in the body":   {testserver.StallInBody(1), within(sec), 900 * ms, transport.PhaseDeadline, 900 * ms},
		"a deadline of ten nanos":  {testserver.HangBeforeHeaders(), within(10), 9, transport.PhaseDeadline, 9},
		"informational is no news": {testserver.Informational(testserver.HangBeforeHeaders(), 103), get, 5 * sec, transport.PhaseRead, 5 * sec},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, config.Config{}, func(r *rig) {
				r.server.Default(row.server)
				var err error
				if d := took(func() { err = row.do(r, r.timeouts.Wrap(r.base)) }); d != row.after {
					r.Errorf("after %v, want %v", d, row.after)
				}
				if row.phase == "" {
					if err != nil {
						r.Error(err)
					}
					return
				}
				isTimeout(r.T, err, row.phase, row.limit)
				r.own.CloseIdleConnections()
				r.server.Release()
			})
		})
	}
}

// The total begins with admission, not in the queue.
func TestTotalFromAdmission(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		r.server.Default(testserver.Trickle(1, sec, -1))
		for r.sem.TryAcquire() {
		}
		time.AfterFunc(90*ms, r.sem.Release)
		d := took(func() { isTimeout(r.T, get(r, r.all()), transport.PhaseTotal, 7*sec) })
		if d != 7*sec+90*ms {
			r.Errorf("after %v", d)
		}
		for range r.cfg.Bulkhead.MaxConcurrent - 1 {
			r.sem.Release()
		}
	})
}

// slowly reads a byte, pauses, and reads the rest.
func slowly(pause time.Duration) deed {
	return func(r *rig, rt http.RoundTripper) error {
		resp, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.ReadFull(resp.Body, make([]byte, 1))
		time.Sleep(pause)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		return err
	}
}

// A caller that learns of the end by its next Read is told the bound that
// fired, each time; Close is no failure.
func TestTimeoutWhileNobodyReads(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		r.server.Default(testserver.Trickle(1, sec, -1))
		resp, err := r.all().RoundTrip(r.request(r.Context(), "GET", nil))
		if err != nil {
			r.Fatal(err)
		}
		time.Sleep(7*sec - 1)
		r.held(1)
		time.Sleep(1)
		synctest.Wait()
		r.held(0)
		for range 3 {
			n, err := resp.Body.Read(make([]byte, 1))
			isTimeout(r.T, err, transport.PhaseTotal, 7*sec)
			if n != 0 {
				r.Error(n)
			}
		}
		resp.Body.Close()
		_, err = resp.Body.Read(make([]byte, 1))
		isTimeout(r.T, err, transport.PhaseTotal, 7*sec)
	})
}

// Also where net/http, http.Client and *url.Error come between.
func TestTimeoutThroughClient(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		for _, row := range []struct {
			server http.Handler
			do     deed
			phase  transport.Phase
			limit  time.Duration
		}{
			{testserver.HangBeforeHeaders(), get, transport.PhaseRead, 5 * sec},
			{testserver.HangBeforeHeaders(), within(sec), transport.PhaseDeadline, 900 * ms},
		} {
			r.server.Default(row.server)
			c := &http.Client{Transport: r.all()}
			err := row.do(r, fake(func(req *http.Request) (*http.Response, error) { return c.Do(req) }))
			if _, ok := errors.AsType[*url.Error](err); !ok {
				r.Errorf("%T", err)
			}
			isTimeout(r.T, err, row.phase, row.limit)
		}
		err := clientTimeout(sec)(r, r.all())
		if n, ok := err.(interface{ Timeout() bool }); !ok || !n.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
			r.Error(err)
		}
		err = cancelAfter(sec, nil)(r, fake((&http.Client{Transport: r.all()}).Do)) // E-02
		if n, ok := err.(interface{ Timeout() bool }); !ok || n.Timeout() || errors.Is(err, transport.ErrTimeout) || !errors.Is(err, context.Canceled) {
			r.Error(err)
		}
	})
}

// The request that is sent says when its exchange will be over, at the latest.
func TestDeadlineOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			layer         transport.Bounds
			caller, asked time.Duration
			want          time.Duration // 0 = none
		}{
			{transport.Bounds{Total: 7 * sec}, 0, 0, 7 * sec},
			{transport.Bounds{Total: 7 * sec}, 10 * sec, 0, 7 * sec},
			{transport.Bounds{Total: 7 * sec}, 2 * sec, 0, 1900 * ms},
			{transport.Bounds{Total: 7 * sec}, 0, 9 * sec, 9 * sec},
			{transport.Bounds{Total: 7 * sec}, 0, transport.Unbounded, 0},
			{transport.Bounds{Total: 7 * sec}, 2 * sec, transport.Unbounded, 2 * sec},
			{transport.Bounds{Read: sec}, 0, 0, 0},
			{transport.Bounds{Read: sec}, 2 * sec, 0, 2 * sec},
			{transport.Bounds{}, 2 * sec, 0, 2 * sec},
		} {
			var got time.Duration
			var during context.Context
			base := fake(func(req *http.Request) (*http.Response, error) {
				if during = req.Context(); during.Err() != nil {
					t.Error(during.Err())
				}
				if d, ok := req.Context().Deadline(); ok {
					got = time.Until(d)
				}
				return answer(200)(req)
			})
			ctx := t.Context()
			if row.caller > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, row.caller)
				defer cancel()
			}
			ctx = transport.WithBounds(ctx, transport.Bounds{Total: row.asked})
			if _, err := read(transport.Timeout("sber", row.layer)(base).RoundTrip(newRequest(t, ctx, "GET", "http://sber.test/", nil))); err != nil || got != row.want {
				t.Errorf("%+v: %v, %v", row, got, err)
			}
			if row.layer != (transport.Bounds{}) && during.Err() != context.Canceled {
				t.Errorf("%+v: after the end: %v", row, during.Err())
			}
		}
	})
}

// The layer waits for a base that ignores its context: it bounds what it can
// without giving a permit back while work goes on (P-16).
func TestBaseThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, config.Config{})
		var inside, most atomic.Int64
		deaf := fake(func(req *http.Request) (*http.Response, error) {
			most.Store(max(most.Load(), inside.Add(1)))
			defer inside.Add(-1)
			time.Sleep(9 * sec)
			return answer(200)(req)
		})
		rt := r.chain(deaf, []string{"bulkhead", "breaker", "timeout"})
		for range r.cfg.Bulkhead.MaxConcurrent {
			go func() {
				d := took(func() {
					_, err := r.get(t.Context(), rt)
					isTimeout(t, err, transport.PhaseRead, 5*sec)
				})
				if d != 9*sec {
					t.Errorf("after %v", d)
				}
			}()
		}
		time.Sleep(6 * sec)
		r.held(16)
		if _, err := r.get(t.Context(), rt); err == nil {
			t.Error("admitted")
		}
		time.Sleep(4 * sec)
		if n := most.Load(); n != 16 {
			t.Errorf("%d at once", n)
		}
	})
}

// Foreign bases with bounds of their own, live contexts throughout (B-04).
func TestForeignBounds(t *testing.T) {
	cfg := oneProbe
	inBoth(t, cfg, func(r *rig) {
		r.server.Default(testserver.HangBeforeHeaders())
		foreign := r.server.Transport()
		foreign.ResponseHeaderTimeout = 50 * ms
		defer foreign.CloseIdleConnections()
		rt := transport.Chain(foreign, r.breaker.Wrap, transport.Timeout("sber", transport.Bounds{Total: 7 * sec, Read: 5 * sec}))
		var err error
		if got := r.verdict(func() { err = get(r, rt) }); got != failure {
			r.Errorf("%s, %v", got, err)
		}
		if errors.Is(err, transport.ErrTimeout) || !strings.Contains(err.Error(), "timeout awaiting response headers") {
			r.Errorf("the base's own error is not untouched: %v", err)
		}
		foreign.DialContext = testserver.BlackHole
		foreign.CloseIdleConnections()
		foreign.DialTLSContext = nil
		d := took(func() { err = get(r, rt) })
		isTimeout(r.T, err, transport.PhaseRead, 5*sec)
		if d != 5*sec {
			r.Error(d)
		}
	})
}

func TestTimeoutError(t *testing.T) {
	for _, e := range []*transport.TimeoutError{
		{System: "sber", Phase: transport.PhaseTotal, Limit: 7 * sec},
		{System: "sber", Phase: transport.PhaseConnect},
	} {
		isTimeout(t, fmt.Errorf("%w", error(e)).(interface{ Unwrap() error }).Unwrap(), e.Phase, e.Limit)
		if e.LogValue().String() == "" || !e.Temporary() || strings.Contains(e.Error(), " of ") != (e.Limit > 0) {
			t.Error(e)
		}
	}
}
