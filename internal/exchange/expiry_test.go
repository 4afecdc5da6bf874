package exchange_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

// The total of an execution ends its exchanges as a bound of theirs, in each phase, with its cause.
func TestExecutionExpires(t *testing.T) {
	one := make([]byte, 1)
	for phase, c := range map[string]struct {
		answer http.Handler
		act    func(b io.ReadCloser) error // nil if RoundTrip is to fail
		idle   time.Duration
	}{
		"in RoundTrip": {answer: testserver.HangBeforeHeaders()},
		"unread": {testserver.StallInBody(3), func(b io.ReadCloser) error {
			time.Sleep(4 * time.Second)
			_, err := b.Read(one)
			return err
		}, math.MaxInt64},
		"between Reads": {testserver.StallInBody(3), func(b io.ReadCloser) error {
			b.Read(one)
			time.Sleep(4 * time.Second)
			_, err := b.Read(one)
			return err
		}, 3 * time.Second},
		"in a Read": {testserver.StallInBody(3), func(b io.ReadCloser) error {
			_, err := readAll(b)
			return err
		}, 0},
	} {
		both(t, phase, c.answer, func(t *testing.T, s *system) {
			r := newClient(t, "sber", s.base.RoundTrip)
			e := execute(t.Context(), "sber", 3*time.Second)
			defer e.leave()
			resp, err := r.RoundTrip(s.request(e.ctx))
			if c.act != nil {
				err = c.act(resp.Body)
			}
			if err != errBound {
				t.Error(err)
			}
			r.ended(Outcome{Fault: errBound, By: Bound, Idle: c.idle})
			if at := r.last().at[0]; at != 3*time.Second {
				t.Errorf("ended after %v", at)
			}
		})
	}
}

// Whose end it is, of executions around an exchange of sber's: a total of another client's is, for sber, the caller's deadline.
func TestWhoseEnd(t *testing.T) {
	type around struct {
		client string
		total  int // seconds; 0: none
	}
	for name, c := range map[string]struct {
		caller int // its deadline; 0: none
		around []around
		over   bool // the innermost, after a second
		by     By
		is     error
	}{
		"its own total":                       {0, []around{{"sber", 3}}, false, Bound, errBound},
		"the total around its own":            {0, []around{{"sber", 3}, {"sber", 0}}, false, Bound, errBound},
		"the same, longer within":             {0, []around{{"sber", 3}, {"sber", 5}}, false, Bound, errBound},
		"the same, over":                      {0, []around{{"sber", 3}, {"sber", 2}}, true, Bound, errBound},
		"the same, another's within":          {0, []around{{"sber", 3}, {"insurer", 0}}, false, Bound, errBound},
		"the same, another's within, is over": {0, []around{{"sber", 3}, {"insurer", 2}}, true, Bound, errBound},
		"another's":                           {0, []around{{"insurer", 3}}, false, Caller, errBoom},
		"another's within its own":            {0, []around{{"sber", 4}, {"insurer", 3}}, false, Caller, errBoom},
		"another's around its own, over":      {0, []around{{"insurer", 3}, {"sber", 2}}, true, Caller, errBoom},
		"the caller's deadline":               {3, []around{{"sber", 4}}, false, Caller, context.DeadlineExceeded},
		"the caller's deadline, after":        {3, []around{{"sber", 2}}, true, Caller, context.DeadlineExceeded},
	} {
		bubble(t, name, func(t *testing.T) {
			r := newClient(t, "sber", func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return nil, req.Context().Err()
			})
			ctx, cancel := context.WithCancel(t.Context())
			if c.caller > 0 {
				ctx, cancel = context.WithTimeout(ctx, seconds(c.caller))
			}
			defer cancel()
			var e *execution
			for _, a := range c.around {
				e = execute(ctx, a.client, seconds(a.total))
				defer e.stop()
				ctx = e.ctx
			}
			if c.over {
				time.AfterFunc(time.Second, e.leave)
			}
			_, err := r.RoundTrip(request(ctx))
			if !errors.Is(err, c.is) || (err == errBound) != (c.by == Bound) {
				t.Error(err)
			}
			r.ended(Outcome{Fault: c.is, By: c.by})
			if at := r.last().at[0]; at != 3*time.Second {
				t.Errorf("ended after %v", at)
			}
		})
	}
}

// The caller's deadline is that of the one who called the executions of the client, whatever is derived between and within.
func TestCallerDeadline(t *testing.T) {
	const none = -1
	within := func(d int) func(ctx context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			ctx, cancel := context.WithTimeout(ctx, seconds(d))
			context.AfterFunc(ctx, cancel)
			return ctx
		}
	}
	of := func(client string, total int, over bool) func(ctx context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			e := execute(ctx, client, seconds(total))
			if over {
				e.leave()
			}
			return e.ctx
		}
	}
	type steps []func(ctx context.Context) context.Context
	for name, c := range map[string]struct {
		steps steps
		want  time.Duration
	}{
		"no deadline":                      {steps{of("sber", 5, false)}, none},
		"no total":                         {steps{of("sber", 0, false)}, none},
		"the caller's, later":              {steps{within(8), of("sber", 5, false)}, 8},
		"the caller's, earlier":            {steps{within(3), of("sber", 5, false)}, 3},
		"the func's own":                   {steps{of("sber", 5, false), within(3)}, 3},
		"nested, the outer one shorter":    {steps{within(8), of("sber", 5, false), of("sber", 6, false)}, 8},
		"nested, the inner one shorter":    {steps{within(8), of("sber", 6, false), of("sber", 5, false)}, 8},
		"nested, none":                     {steps{of("sber", 6, false), of("sber", 5, false)}, none},
		"nested, one between":              {steps{of("sber", 6, false), within(4), of("sber", 5, false)}, 4},
		"over":                             {steps{within(8), of("sber", 5, true)}, 8},
		"nested, the inner one over":       {steps{within(8), of("sber", 6, false), of("sber", 5, true)}, 8},
		"another client's":                 {steps{within(8), of("insurer", 5, false)}, 5},
		"another client's, over":           {steps{within(8), of("insurer", 5, true)}, 8},
		"another client's around its own":  {steps{of("insurer", 6, false), of("sber", 5, false)}, 6},
		"another client's within its own":  {steps{of("sber", 6, false), of("insurer", 5, false)}, 5},
		"another's within, which is later": {steps{within(8), of("sber", 5, false), of("insurer", 6, false)}, 8},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			start := time.Now()
			for _, step := range c.steps {
				ctx = step(ctx)
			}
			r := newClient(t, "sber", answer(http.NoBody))
			got := time.Duration(none)
			r.answered = func(layer string, x *Exchange, _ *http.Response) {
				if d, ok := x.CallerDeadline(); ok && layer == "bound" {
					got = d.Sub(start) / time.Second
				}
			}
			if _, err := r.RoundTrip(request(ctx)); err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("%d s, want %d s", got, c.want)
			}
		})
	}
}

// The context of an exchange that outlives its execution says nothing of that.
func TestContextOutlivesExecution(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		caller, cancel := context.WithDeadlineCause(context.WithValue(t.Context(), key{}, "caller's"), time.Now().Add(time.Hour), errCause)
		defer cancel()
		e := execute(caller, "sber", time.Second)
		r := newClient(t, "sber", func(req *http.Request) (*http.Response, error) {
			e.leave()
			synctest.Wait()
			ctx := req.Context()
			child, stop := context.WithCancelCause(ctx)
			defer stop(nil)
			for _, ctx := range []context.Context{ctx, child} {
				d, _ := ctx.Deadline()
				if err, cause := ctx.Err(), context.Cause(ctx); err != nil || cause != nil || isDone(ctx) || time.Until(d) != time.Hour || ctx.Value(key{}) != "func's" {
					t.Errorf("%v because of %v, until %v, %v", err, cause, time.Until(d), ctx.Value(key{}))
				}
			}
			<-child.Done()
			for _, ctx := range []context.Context{ctx, child} {
				if err, cause := ctx.Err(), context.Cause(ctx); err != context.DeadlineExceeded || cause != errCause {
					t.Errorf("%v because of %v", err, cause)
				}
			}
			return nil, context.Cause(ctx)
		})
		if _, err := r.RoundTrip(request(context.WithValue(e.ctx, key{}, "func's"))); !errors.Is(err, errCause) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
