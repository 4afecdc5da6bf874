package exchange_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	. "github.com/resilient-go/resilient/internal/exchange"
)

// What can be seen of a context while it is used and ended; what is the same of
// ours and of context.WithCancel's has no need of an expectation.
var contextUses = map[string]func(ctx context.Context, end func(), say func(...any)){
	"alone": func(ctx context.Context, end func(), say func(...any)) {
		say(ctx.Err(), context.Cause(ctx), isDone(ctx), ctx.Value(key{}))
		end()
		say(ctx.Err(), context.Cause(ctx), isDone(ctx))
		end()
		say(ctx.Err())
	},
	"a child": func(ctx context.Context, end func(), say func(...any)) {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		say(child.Err(), isDone(child), child.Value(key{}))
		end()
		say(child.Err(), context.Cause(child), isDone(child))
	},
	"a child that ends first": func(ctx context.Context, end func(), say func(...any)) {
		child, cancel := context.WithCancelCause(ctx)
		cancel(errBoom)
		say(child.Err(), context.Cause(child), ctx.Err(), context.Cause(ctx))
		end()
		say(child.Err(), context.Cause(child), ctx.Err())
	},
	"many children": func(ctx context.Context, end func(), say func(...any)) {
		var children []context.Context
		for i := range 5 {
			child, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			if i%2 == 1 {
				cancel(errBoom)
			}
			children = append(children, child)
		}
		for _, ended := range []bool{false, true} {
			if ended {
				end()
			}
			for _, child := range children {
				say(child.Err(), context.Cause(child), isDone(child))
			}
		}
	},
	"grandchildren": func(ctx context.Context, end func(), say func(...any)) {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		grandchild, cancel := context.WithTimeout(context.WithValue(child, key{}, "other"), time.Hour)
		defer cancel()
		detached := context.WithoutCancel(child)
		end()
		say(grandchild.Err(), context.Cause(grandchild), grandchild.Value(key{}), detached.Err())
	},
	"a shorter timeout below": func(ctx context.Context, end func(), say func(...any)) {
		child, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		time.Sleep(2 * time.Second)
		say(child.Err(), ctx.Err())
		end()
		say(child.Err(), ctx.Err())
	},
	"a longer timeout below": func(ctx context.Context, end func(), say func(...any)) {
		child, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		deadline, ok := child.Deadline()
		end()
		say(time.Until(deadline), ok, child.Err())
	},
	"AfterFuncs": func(ctx context.Context, end func(), say func(...any)) {
		var ran [5]atomic.Int32
		var stops []func() bool
		for i := range ran {
			stops = append(stops, context.AfterFunc(ctx, func() { ran[i].Add(1) }))
		}
		say(stops[0](), stops[0](), stops[3]())
		end()
		say(stops[0](), stops[1](), stops[3](), stops[4]())
		for i := range ran {
			say(ran[i].Load())
		}
	},
	"one AfterFunc stopped, another begun": func(ctx context.Context, end func(), say func(...any)) {
		var ran atomic.Int32
		for range 3 {
			say(context.AfterFunc(ctx, func() { ran.Add(100) })())
		}
		context.AfterFunc(ctx, func() { ran.Add(1) })
		end()
		say(ran.Load())
	},
	"after the end": func(ctx context.Context, end func(), say func(...any)) {
		end()
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		say(child.Err(), context.Cause(child), isDone(child))
		var ran atomic.Int32
		stop := context.AfterFunc(ctx, func() { ran.Add(1) })
		synctest.Wait()
		say(stop(), ran.Load())
		timed, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		say(timed.Err())
	},
	"children before and after the end": func(ctx context.Context, end func(), say func(...any)) {
		first, cancel := context.WithCancel(ctx)
		defer cancel()
		second, cancel := context.WithCancel(ctx)
		defer cancel()
		end()
		third, cancel := context.WithCancel(ctx)
		defer cancel()
		say(first.Err(), second.Err(), third.Err())
	},
}

type key struct{}

func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// transcript uses ctx, which end ends.
func transcript(use func(context.Context, func(), func(...any)), ctx context.Context, end func()) string {
	var b strings.Builder
	use(ctx, func() { end(); synctest.Wait() }, func(what ...any) { fmt.Fprintln(&b, what...) })
	return b.String()
}

func TestContextLikeStandard(t *testing.T) {
	for name, use := range contextUses {
		for what, c := range map[string]struct {
			ended bool // by the exchange's end, else by an interruption
			value bool // a caller's context that cannot be cancelled
		}{"interrupted": {}, "at the end": {ended: true}, "below Background": {value: true}} {
			bubble(t, name+"/"+what, func(t *testing.T) {
				base := t.Context()
				if c.value {
					base = context.WithoutCancel(base)
				}
				caller := context.WithValue(base, key{}, "v")
				standard, cancel := context.WithCancel(caller)
				defer cancel()
				want := transcript(use, standard, cancel)

				var got string
				var r *rig
				r = newRig(t, trip(func(req *http.Request) (*http.Response, error) {
					if !c.ended {
						got = transcript(use, req.Context(), func() { r.interrupt(Owner) })
					}
					return reply(req, 200, text("")), nil
				}))
				resp, err := r.RoundTrip(request(caller))
				if c.ended {
					got = transcript(use, r.last().Context(), func() { resp.Body.Close() })
				} else if err != errOwner {
					t.Error(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// Children that come while the context ends are ended all the same, once.
func TestRaceOfChildren(t *testing.T) {
	for range 200 {
		var wg, ran sync.WaitGroup
		r := newRig(t, answer(text("")))
		resp, _ := r.RoundTrip(request(t.Context()))
		ctx := r.last().Context()
		for range 4 {
			ran.Add(2)
			wg.Go(func() {
				runtime.Gosched()
				context.AfterFunc(ctx, ran.Done)
				child, cancel := context.WithCancel(ctx)
				defer cancel()
				<-child.Done()
				ran.Done()
			})
		}
		wg.Go(func() { resp.Body.Close() })
		wg.Go(func() { r.interrupt(Bound) })
		wg.Wait()
		ran.Wait()
	}
}
