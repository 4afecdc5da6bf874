package resilient_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// What the caller gave as its reason is found, and so is how it ended; the text of the reason decides nothing.
func TestCase_W12(t *testing.T) {
	withCause := func(cause error) func(ctx context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Millisecond, func() { cancel(cause) })
			return ctx
		}
	}
	for name, c := range map[string]struct {
		ctx  func(ctx context.Context) context.Context
		want []error
	}{
		"cause":             {withCause(errBoom), []error{context.Canceled, errBoom}},
		"a timeout's cause": {withCause(context.DeadlineExceeded), []error{context.Canceled, context.DeadlineExceeded}},
		"a refusal's cause": {withCause(&resilient.FullError{System: "insurer"}), []error{context.Canceled, resilient.ErrBulkheadFull}},
		"no cause":          {withCause(nil), []error{context.Canceled}},
		"io.EOF":            {withCause(io.EOF), []error{context.Canceled, io.EOF}},
		"a deadline with a cause": {func(ctx context.Context) context.Context {
			ctx, stop := context.WithTimeoutCause(ctx, time.Millisecond, errBoom)
			time.AfterFunc(time.Second, stop)
			return ctx
		}, []error{context.DeadlineExceeded, errBoom}},
		"a parent's cause": {func(ctx context.Context) context.Context {
			ctx, stop := context.WithTimeout(withCause(errBoom)(ctx), time.Hour)
			time.AfterFunc(time.Second, stop)
			return ctx
		}, []error{context.Canceled, errBoom}},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{cfg: trips(1, permits(1)), server: testserver.Options{Handler: testserver.StallInBody(1)}}, func(r *rig) {
				holder := r.send(r.Context(), "/")
				for _, place := range []string{"queue", "body"} {
					var err error
					if ctx := c.ctx(r.Context()); place == "queue" {
						_, err = r.get(ctx)
					} else {
						holder.Body.Close()
						_, err = io.ReadAll(r.send(ctx, "/").Body)
					}
					if place == "body" && c.want[0] == context.DeadlineExceeded {
						r.is(err, context.DeadlineExceeded) // the total, shorter by the margin, came first
					} else {
						r.is(err, c.want...)
					}
					if n, _ := err.(interface{ Timeout() bool }); (n != nil && n.Timeout()) != (c.want[0] == context.DeadlineExceeded) {
						r.Errorf("%s: %v: wrong Timeout()", place, err)
					}
				}
				r.held(0)
				r.breaker("closed")
				if n := r.State().Bulkhead.Rejected; n != 0 {
					r.Errorf("%d rejected", n)
				}
			})
		})
	}
}

// The error of another system is a usual cause of a cancel (errgroup makes the first error of a group that of all others).
// It says nothing of this system's request.
func TestCase_E02_CauseOfAnotherSystem(t *testing.T) {
	for _, cause := range []error{
		errBoom,
		context.DeadlineExceeded,
		&resilient.FullError{System: "insurer"},
		&resilient.OpenError{System: "insurer"},
		&resilient.ClosedError{System: "insurer"},
		&resilient.TimeoutError{System: "insurer", Phase: transport.PhaseRead},
		&resilient.TimeoutError{System: "insurer", Phase: "of their own"},
	} {
		t.Run(fmt.Sprintf("%T", cause), func(t *testing.T) {
			inBoth(t, setting{cfg: permits(1), server: testserver.Options{Handler: testserver.HangBeforeHeaders()}}, func(r *rig) {
				ctx, cancel := context.WithCancelCause(r.Context())
				time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
				_, err := r.Do(r.request(ctx, "POST", strings.NewReader("payment")))
				r.is(err, context.Canceled, cause)
				if n := r.server.Stats().Requests; n != 1 || resilient.NotSent(err) {
					r.Errorf("NotSent(%v) is %v, and %d requests were sent", err, resilient.NotSent(err), n)
				}
				if code, _, ok := resilient.StatusCode(err); ok {
					r.Errorf("StatusCode(%v) is %d, and the caller has gone", err, code)
				}
				r.outcomes(map[string]float64{"cancelled": 1})
				if n := r.metrics()["timeouts_total read"]; n != 0 {
					r.Errorf("%v timeouts", n)
				}
			})
		})
	}
}
