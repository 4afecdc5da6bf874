package resilient_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A rate is what the adapter's method returns: the fallback's is one too, and says what it is.
type rate struct {
	value string
	stale bool
}

// live asks the system for a rate.
func (r *rig) live(ctx context.Context) (rate, error) {
	value, err := r.get(ctx)
	return rate{value: value}, err
}

// FB-1, FB-2: a fallback takes the place of a call that was not made, and returns what the call would: the same type.
func TestRule_FB1_FB2(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		asked := 0
		call := resilient.Call[rate]{Fallback: func(ctx context.Context, err error) (rate, error) {
			asked++
			if ctx.Err() != nil || r.State().Bulkhead.Active > 1 || !resilient.NotSent(err) {
				r.Errorf("asked with %v, after %v, holding a permit: %+v", ctx.Err(), err, r.State().Bulkhead)
			}
			return rate{"yesterday's", true}, nil
		}}
		if got, err := call.Do(r.Context(), r.Client, r.live); got != (rate{"ok", false}) || err != nil || asked != 0 {
			r.Errorf("%+v, %v; asked %d times while the system is well", got, err, asked)
		}
		r.server.Default(testserver.HangBeforeHeaders())
		go r.get(r.Context())
		time.Sleep(time.Second)
		full, fullErr := call.Do(r.Context(), r.Client, r.live)
		time.Sleep(5 * time.Second)
		r.ForceOpen(0)
		open, openErr := call.Do(r.Context(), r.Client, r.live)
		if want := (rate{"yesterday's", true}); full != want || open != want || fullErr != nil || openErr != nil || asked != 2 {
			r.Errorf("full: %+v, %v; open: %+v, %v; asked %d times", full, fullErr, open, openErr, asked)
		}
	})
}

// FB-X1, FB-X2, FB-X3: a fallback never fakes success: not for what may have been done, not in the metrics, not to the breaker,
// and not when it fails itself.
func TestRule_FBX1_FBX2_FBX3(t *testing.T) {
	inBoth(t, setting{cfg: trips(20, permits(2))}, func(r *rig) {
		var errEmpty = errors.New("no rate in the cache")
		fallback, asked := error(nil), 0
		call := resilient.Call[rate]{Fallback: func(context.Context, error) (rate, error) { asked++; return rate{stale: true}, fallback }}
		never := func(what string, err error) {
			r.Helper()
			if err == nil || asked != 0 {
				r.Errorf("%s: %v; asked %d times", what, err, asked)
			}
			asked = 0
		}

		r.server.Default(testserver.HangBeforeHeaders())
		_, err := call.Do(r.Context(), r.Client, r.live)
		never("a timeout, after which the payment may have been made", err)
		r.server.Default(testserver.CutInBody(1, 9))
		_, err = call.Do(r.Context(), r.Client, r.live)
		never("an answer cut short", err)
		ctx, cancel := context.WithCancel(r.Context())
		_, err = call.Do(ctx, r.Client, func(context.Context) (rate, error) {
			cancel()
			return rate{}, &resilient.FullError{System: "insurer"}
		})
		never("a caller that has gone", err)
		_, err = call.Do(r.Context(), r.Client, func(context.Context) (rate, error) {
			c, err := r.reg.Client("sbre")
			if err == nil {
				r.Error(c.Name())
			}
			return rate{}, errors.Join(err, resilient.ErrUnavailable)
		})
		never("a system that is misspelled", err)
		_, err = call.Do(r.Context(), r.Client, func(context.Context) (rate, error) { return rate{}, errDeclined })
		never("an answer of the domain's", err)

		r.ForceOpen(0)
		before := r.metrics()
		if _, err := call.Do(r.Context(), r.Client, r.live); err != nil || asked != 1 {
			r.Errorf("%v; asked %d times", err, asked)
		}
		after := r.metrics()
		if after["executions_total refused_open"] != before["executions_total refused_open"]+1 || after["executions_total success"] != before["executions_total success"] {
			r.Errorf("the fallback's success is counted as the system's: %v", after)
		}
		fallback = errEmpty
		_, err = call.Do(r.Context(), r.Client, r.live)
		r.is(err, errEmpty, resilient.ErrCircuitOpen, resilient.ErrUnavailable)

		r.Automatic()
		fallback = nil
		r.halfOpen()
		r.server.Default(testserver.HangBeforeHeaders())
		go r.live(r.Context()) // takes the only probe
		time.Sleep(time.Second)
		for range 10 {
			call.Do(r.Context(), r.Client, r.live)
		}
		r.breaker("half_open") // which a success would have closed
		r.server.Release()
		time.Sleep(time.Second)
	})
}
