package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

// What is under way when its execution is over goes on, and ends with the caller of the execution, as if there had been none.
func TestExchangeOutlivesExecution(t *testing.T) {
	one := make([]byte, 1)
	for _, who := range interrupters {
		for phase, c := range map[string]struct {
			answer http.Handler
			act    func(t *testing.T, b io.ReadCloser) error // nil if RoundTrip is to fail
			idle   time.Duration
		}{
			"in RoundTrip": {answer: testserver.HangBeforeHeaders()},
			"unread": {testserver.StallInBody(3), func(_ *testing.T, b io.ReadCloser) error {
				time.Sleep(4 * time.Second)
				_, err := b.Read(one)
				return err
			}, math.MaxInt64},
			"between Reads": {testserver.StallInBody(3), func(t *testing.T, b io.ReadCloser) error {
				if _, err := b.Read(one); err != nil {
					t.Error(err)
				}
				time.Sleep(4 * time.Second)
				_, err := b.Read(one)
				return err
			}, 3 * time.Second},
			"in the first Read": {testserver.StallInBody(0), func(_ *testing.T, b io.ReadCloser) error {
				_, err := b.Read(one)
				return err
			}, 0},
			"in a later Read": {testserver.Trickle(1, 2*time.Second, -1), func(_ *testing.T, b io.ReadCloser) error {
				_, err := readAll(b)
				return err
			}, 0},
		} {
			both(t, who.name+"/"+phase, c.answer, func(t *testing.T, s *system) {
				r := newClient(t, "sber", s.base.RoundTrip)
				caller, cancel := who.arm(t.Context(), r)
				defer cancel()
				e := execute(caller, "sber", 0)
				time.AfterFunc(time.Second, e.leave)
				resp, err := r.RoundTrip(s.request(e.ctx))
				if c.act != nil {
					if err != nil {
						t.Fatal(err)
					}
					err = c.act(t, resp.Body)
				}
				if err == nil || err.Error() != who.text || isTimeout(err) != who.timeout {
					t.Errorf("%v, a timeout: %v", err, isTimeout(err))
				}
				r.ended(Outcome{Fault: who.is[0], By: who.by, Idle: c.idle})
				if at := r.last().at[0]; at != 3*time.Second {
					t.Errorf("ended after %v", at)
				}
				if n := e.freed.Load(); n != 1 {
					t.Errorf("freed %d times", n)
				}
			})
		}
	}
}

// The permit stays lent to the end of the exchange.
func TestPermitOutlivesExecution(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := newClient(t, "sber", answer(text("abc")))
		e := execute(t.Context(), "sber", 0)
		resp, _ := r.RoundTrip(request(e.ctx))
		e.leave()
		synctest.Wait()
		if n := e.freed.Load(); n != 0 || r.last().Lender != &e.Scope {
			t.Errorf("freed %d times, borrowed of %v", n, r.last().Lender)
		}
		if b, err := readAll(resp.Body); b != "abc" || err != io.EOF {
			t.Error(b, err)
		}
		if n := e.freed.Load(); n != 1 {
			t.Errorf("freed %d times", n)
		}
		if _, err := r.RoundTrip(request(e.ctx)); err != nil || r.last().Lender != nil {
			t.Errorf("%v, borrowed of one that is over: %v", err, r.last().Lender)
		}
		r.interrupt(Owner)
	})
}

type listContext struct {
	context.Context
	list []int
}

// Nested executions, of the same client and of others, those that are over and what is derived from their contexts: who decides.
func TestGovernedThroughNestedExecutions(t *testing.T) {
	derived := map[string]func(ctx context.Context) (context.Context, context.CancelFunc){
		"itself": func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
		"cancel": context.WithCancel,
		"timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		},
		"one that cannot be compared": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return listContext{ctx, []int{1}}, func() {}
		},
		"value": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithValue(ctx, key{}, true), func() {}
		},
	}
	for _, clients := range [][]string{{"sber"}, {"insurer"}, {"sber", "sber"}, {"sber", "insurer"}, {"insurer", "sber"}, {"insurer", "insurer"}, {"sber", "insurer", "sber"}} {
		for over := 1; over < 1<<len(clients); over++ { // a bit for each, the outermost first
			for name, derive := range derived {
				bubble(t, fmt.Sprintf("%v/%b/%s", clients, over, name), func(t *testing.T) {
					r := newClient(t, "sber", func(req *http.Request) (*http.Response, error) {
						<-req.Context().Done()
						return nil, req.Context().Err()
					})
					caller, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(3*time.Second, func() { cancel(errCause) })
					ctx := caller
					var all []*execution
					for _, client := range clients {
						e := execute(ctx, client, time.Hour)
						all, ctx = append(all, e), e.ctx
					}
					ctx, stop := derive(ctx)
					defer stop()
					for i, e := range all {
						if over>>i&1 == 1 {
							time.AfterFunc(time.Second, e.leave)
						} else {
							defer e.leave()
						}
					}
					_, err := r.RoundTrip(request(ctx))
					if err == nil || err.Error() != "context canceled: user left" || !errors.Is(err, errCause) {
						t.Error(err)
					}
					if at := r.last().at[0]; at != 3*time.Second {
						t.Errorf("ended after %v", at)
					}
					r.ended(Outcome{Fault: errCause, By: Caller})
					_, err = r.RoundTrip(request(ctx)) // and one that begins only now
					if err == nil || !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
			}
		}
	}
}

// A context derived in the func that ended for another reason is the caller's end still.
func TestDerivedContextEndedFirst(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := newClient(t, "sber", func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		e := execute(t.Context(), "sber", 0)
		ctx, cancel := context.WithTimeoutCause(e.ctx, time.Second, errCause)
		defer cancel()
		time.AfterFunc(time.Second+1, e.leave)
		if _, err := r.RoundTrip(request(ctx)); !errors.Is(err, errCause) {
			t.Error(err)
		}
		r.ended(Outcome{Fault: errCause, By: Caller})
		time.Sleep(time.Second)
	})
}

// One that waits in a queue stays there, and leaves it with the caller of the execution; also if the execution is another client's.
func TestQueuedOutlivesExecution(t *testing.T) {
	for _, client := range []string{"sber", "insurer"} {
		for _, ends := range []bool{true, false} {
			bubble(t, fmt.Sprint(client, ", its caller ends ", ends), func(t *testing.T) {
				r := newClient(t, "sber", answer(http.NoBody))
				gate := make(chan struct{})
				r.begin = func(layer string, x *Exchange) error {
					if layer != "permit" {
						return nil
					}
					select {
					case <-gate:
						return nil
					case <-x.Context().Done():
						return x.Context().Err()
					}
				}
				caller, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if ends {
					time.AfterFunc(3*time.Second, func() { cancel(errCause) })
				}
				e := execute(caller, client, 0)
				time.AfterFunc(time.Second, e.leave)
				time.AfterFunc(4*time.Second, func() { close(gate) })
				start := time.Now()
				_, err := r.RoundTrip(request(e.ctx))
				switch at := time.Since(start); {
				case ends && (at != 3*time.Second || err == nil || err.Error() != "context canceled: user left"):
					t.Errorf("%v after %v", err, at)
				case !ends && (at != 4*time.Second || err != nil):
					t.Errorf("%v after %v", err, at)
				}
				time.Sleep(5 * time.Second)
			})
		}
	}
}

// A request made with the context of an execution that is over is like one made with its caller's, in the queue too.
func TestRequestAfterExecution(t *testing.T) {
	for _, client := range []string{"sber", "insurer"} {
		bubble(t, client, func(t *testing.T) {
			r := newClient(t, "sber", answer(http.NoBody))
			r.begin = func(layer string, x *Exchange) error {
				synctest.Wait()
				if layer == "permit" && x.Context().Err() != nil {
					return x.Context().Err()
				}
				return nil
			}
			e := execute(t.Context(), client, time.Hour)
			e.leave()
			if _, err := r.RoundTrip(request(e.ctx)); err != nil {
				t.Error(err)
			}
			r.ended(Outcome{})
		})
	}
}

// An upload that goes on when the answer is complete is not broken off by the end of the execution, but by its caller's.
func TestUploadOutlivesExecution(t *testing.T) {
	for _, first := range []bool{true, false} { // the answer, then the execution, or the other way round
		bubble(t, fmt.Sprint("answer first ", first), func(t *testing.T) {
			caller, cancel := context.WithCancelCause(t.Context())
			var sent context.Context
			answered := make(chan struct{})
			r := newClient(t, "sber", func(req *http.Request) (*http.Response, error) {
				sent = req.Context()
				<-answered
				return reply(req, http.StatusNoContent, nil), nil
			})
			e := execute(caller, "sber", time.Hour)
			if first {
				close(answered)
			} else {
				time.AfterFunc(time.Second, func() { e.leave(); synctest.Wait(); close(answered) })
			}
			if _, err := r.RoundTrip(request(e.ctx, text("abc"))); err != nil {
				t.Fatal(err)
			}
			r.ended(Outcome{})
			if first {
				e.leave()
			}
			synctest.Wait()
			if sent.Err() != nil {
				t.Error("the end of the execution broke the upload off")
			}
			cancel(errCause)
			synctest.Wait()
			if sent.Err() != context.Canceled {
				t.Error("the caller's end did not reach it")
			}
		})
	}
}

// An upgraded connection outlives the execution and its caller.
func TestUpgradeOutlivesExecution(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		caller, cancel := context.WithCancel(t.Context())
		r := newClient(t, "sber", upgradeTo(conn{text("abc")}))
		e := execute(caller, "sber", time.Hour)
		resp, _ := r.RoundTrip(request(e.ctx))
		e.leave()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if got := r.last().ended; !slices.Equal(got, []string{"bound"}) || e.freed.Load() != 0 {
			t.Errorf("ended %v, freed %d times", got, e.freed.Load())
		}
		if b := make([]byte, 3); true {
			if n, err := resp.Body.Read(b); n != 3 || err != nil {
				t.Error(n, err)
			}
		}
		resp.Body.Close()
		r.settled()
		if e.freed.Load() != 1 {
			t.Errorf("freed %d times", e.freed.Load())
		}
	})
}

// Nothing is left with the caller's context, however an exchange and its execution end.
func TestCallerUnwatchedAfterExecution(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		ctx := &counting{Context: context.WithoutCancel(t.Context()), done: make(chan struct{})}
		var upload io.Closer
		goesOn := false
		r := newClient(t, "sber", func(req *http.Request) (*http.Response, error) {
			if upload = req.Body; !goesOn {
				upload.Close()
			}
			return reply(req, 200, text("abc")), nil
		})
		for name, use := range map[string]func(resp *http.Response){
			"read":        func(resp *http.Response) { readAll(resp.Body) },
			"closed":      func(resp *http.Response) { resp.Body.Close() },
			"interrupted": func(*http.Response) { r.interrupt(Bound) },
			"read, and the upload goes on": func(resp *http.Response) {
				readAll(resp.Body)
				synctest.Wait()
				if ctx.watched.Load() == 0 {
					t.Error("the upload is not watched")
				}
				upload.Close()
			},
		} {
			for _, over := range []string{"before", "between", "after"} {
				goesOn = name == "read, and the upload goes on"
				e := execute(ctx, "sber", time.Hour)
				if over == "before" {
					e.leave()
				}
				resp, err := r.RoundTrip(request(e.ctx, text("abc")))
				if err != nil {
					t.Fatal(err)
				}
				if over == "between" {
					e.leave()
				}
				synctest.Wait()
				if n := ctx.watched.Load(); n != 1 { // by the execution's context, or by what outlives it
					t.Errorf("%s, over %s: %d watches", name, over, n)
				}
				use(resp)
				if over == "after" {
					e.leave()
				}
				synctest.Wait()
				if n := ctx.watched.Load(); n != 0 {
					t.Errorf("%s, over %s: %d watches are left", name, over, n)
				}
			}
		}
	})
}

// A leaving context is an execution's that is left as soon as somebody has heard that it goes on.
type leavingContext struct {
	context.Context
	left atomic.Pointer[func()]
}

func (c *leavingContext) Err() error {
	err := c.Context.Err()
	if leave := c.left.Swap(nil); leave != nil {
		(*leave)()
	}
	return err
}

// Two nested executions that end at the same time end no exchange, whoever looks between the two.
func TestNestedExecutionsThatEndAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := newClient(t, "sber", func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		caller, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(errCause) })
		outer := execute(caller, "sber", time.Hour)
		late := &leavingContext{Context: outer.ctx}
		inner := execute(late, "sber", time.Hour)
		time.AfterFunc(time.Second, func() {
			leave := func() { outer.leave() }
			late.left.Store(&leave)
			inner.leave()
		})
		_, err := r.RoundTrip(request(inner.ctx))
		if err == nil || err.Error() != "context canceled: user left" {
			t.Error(err)
		}
		if at := r.last().at[0]; at != 3*time.Second {
			t.Errorf("ended after %v", at)
		}
		if late.left.Load() != nil {
			t.Error("nobody looked")
		}
	})
}

// everyProcessorRuns has each processor run something.
func everyProcessorRuns() {
	var wg sync.WaitGroup
	for range 8 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for end := time.Now().Add(time.Millisecond); time.Now().Before(end); {
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
}

// 10,000 executions below one context that can be cancelled leave nothing behind.
func TestExecutionsLeaveNothing(t *testing.T) {
	caller, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := (&Layer{
		Client: "sber",
		Begin: func(x *Exchange, _ *Hold) error {
			if x.Scope.Borrow() {
				x.Lender = x.Scope
			}
			return nil
		},
		End: func(x *Exchange, _ *Hold, _ Outcome) {
			if x.Lender != nil {
				x.Lender.Release()
			}
		},
		Interrupts: true,
	}).Wrap(trip(func(req *http.Request) (*http.Response, error) { return reply(req, 200, http.NoBody), nil }))
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, goroutines := int64(0), runtime.NumGoroutine()
	for i := range 10_100 {
		if i == 100 {
			before = heap()
		}
		e := execute(caller, "sber", time.Hour)
		if _, err := r.RoundTrip(request(e.ctx)); err != nil {
			t.Fatal(err)
		}
		e.leave()
		if _, err := r.RoundTrip(request(e.ctx)); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // what ends by itself needs the processor
		// A stopped timer is let go of when its processor next runs something; one that is idle may keep thousands.
		everyProcessorRuns()
		grown, now := heap()-before, runtime.NumGoroutine()
		// The runtime never gives back the place of a stopped timer, 16 bytes in an array that grows by a quarter. What a call
		// could leave with a context is more than the 100 bytes each that are allowed here.
		if grown <= 1_000_000 && now <= goroutines {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes more, %d goroutines, %d before", grown, now, goroutines)
		}
	}
}
