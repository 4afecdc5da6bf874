package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/resilient-go/resilient/semaphore"
)

// The two forms of the same: what is true of one has to be true of the other.
var forms = map[string]func(ctx context.Context, b semaphore.Bulkhead, wait time.Duration, fn func(context.Context) (int, error)) (int, error){
	"Do": semaphore.Do[int],
	"Guard": func(ctx context.Context, b semaphore.Bulkhead, wait time.Duration, fn func(context.Context) (int, error)) (int, error) {
		return semaphore.Guard(b, wait, func(ctx context.Context, _ string) (int, error) { return fn(ctx) })(ctx, "")
	},
}

var errDeclined = errors.New("declined")

type ctxKey struct{}

// Fn gets the caller's context itself and a permit, and what it returns is returned, value and error.
func TestDo(t *testing.T) {
	for name, do := range forms {
		s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1})
		ctx := context.WithValue(t.Context(), ctxKey{}, name)
		for _, err := range []error{nil, errDeclined} {
			got, gotErr := do(ctx, s, -1, func(inner context.Context) (int, error) {
				if inner != ctx {
					t.Errorf("%s: the context is %v, not the caller's", name, inner)
				}
				check(t, s, "1/1 active, 0/0 waiting, 0 full, 0 waited")
				return 7, err
			})
			if got != 7 || gotErr != err {
				t.Errorf("%s: got %d, %v, want 7, %v", name, got, gotErr, err)
			}
			conserved(t, s, 1)
		}
	}
}

func TestGuardPassesTheArgument(t *testing.T) {
	s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1})
	guarded := semaphore.Guard(s, 0, func(_ context.Context, n int) (string, error) { return fmt.Sprint("got ", n), nil })
	for i := range 3 {
		if got, err := guarded(t.Context(), i); got != fmt.Sprint("got ", i) || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	conserved(t, s, 1)
}

// Who is refused does not call, and gets Acquire's error and no value.
func TestDoRefused(t *testing.T) {
	for name, do := range forms {
		synctest.Test(t, func(t *testing.T) {
			s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 1})
			never := func(context.Context) (int, error) { t.Errorf("%s: called", name); return 7, nil }
			refused := func(ctx context.Context, wait, took time.Duration, want string) {
				t.Helper()
				began := time.Now()
				got, err := do(ctx, s, wait, never)
				if semaphore.Outcome(err) != want || got != 0 || time.Since(began) != took {
					t.Errorf("%s: %d, %v after %v, want 0, %s after %v", name, got, err, time.Since(began), want, took)
				}
			}
			hold(t, s, 1)
			refused(t.Context(), 0, 0, "refused_full")
			refused(t.Context(), -time.Hour, 0, "refused_full")
			refused(t.Context(), 100*ms, 100*ms, "refused_full")
			brief, cancel := context.WithTimeout(t.Context(), 30*ms)
			defer cancel()
			refused(brief, 100*ms, 30*ms, "cancelled")
			refused(brief, 100*ms, 0, "cancelled")
			check(t, s, "1/1 active, 0/1 waiting, 2 full, 1 waited")
			s.Release()
			refused(brief, 0, 0, "cancelled") // with a free permit
			conserved(t, s, 1)
		})
	}
}

// It waits for as long as it is told to, and calls once it has the permit.
func TestDoWaits(t *testing.T) {
	for name, do := range forms {
		synctest.Test(t, func(t *testing.T) {
			s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 1})
			hold(t, s, 1)
			time.AfterFunc(60*ms, s.Release)
			began := time.Now()
			got, err := do(t.Context(), s, 100*ms, func(context.Context) (int, error) { return int(time.Since(began) / ms), nil })
			if got != 60 || err != nil {
				t.Errorf("%s: called after %d ms, %v", name, got, err)
			}
			conserved(t, s, 1)
		})
	}
}

// counting is a bulkhead that counts both ways.
type counting struct{ acquired, released int }

func (c *counting) Acquire(context.Context, time.Duration) (semaphore.Permit, error) {
	c.acquired++
	return c, nil
}
func (c *counting) Release() { c.released++ }

// However fn ends, its permit is given back once, and its end is told as it was.
func TestDoGivesBackOnce(t *testing.T) {
	for name, do := range forms {
		rapid.Check(t, func(t *rapid.T) {
			var c counting
			for i, end := range rapid.SliceOf(rapid.SampledFrom([]string{"returns", "fails", "panics", "panics with nil", "exits"})).Draw(t, "ends") {
				var how any = "exits"
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					defer func() {
						if p := recover(); p != nil {
							how = p
						}
					}()
					_, err := do(context.Background(), &c, 0, func(context.Context) (int, error) {
						if c.acquired != i+1 || c.released != i {
							t.Errorf("%s: %+v inside call %d", name, c, i)
						}
						switch end {
						case "fails":
							return 0, errDeclined
						case "panics":
							panic(t)
						case "panics with nil":
							panic(nil)
						case "exits":
							runtime.Goexit()
						}
						return 0, nil
					})
					if how = "returns"; err == errDeclined {
						how = "fails"
					}
				}()
				<-gone
				switch p := how.(type) {
				case *rapid.T:
					how = "panics"
					if p != t {
						how = "panics with another value"
					}
				case *runtime.PanicNilError:
					how = "panics with nil"
				}
				if how != end {
					t.Errorf("%s: %v, want %s", name, how, end)
				}
				if c.acquired != i+1 || c.released != i+1 {
					t.Errorf("%s: %+v after call %d", name, c, i)
				}
			}
		})
	}
}

func TestDoWithoutBulkheadOrFuncPanics(t *testing.T) {
	s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1})
	fn := func(context.Context) (int, error) { return 0, nil }
	panics(t, "semaphore: Do: no bulkhead", func() { semaphore.Do(t.Context(), nil, 0, fn) })
	panics(t, "semaphore: Do: no bulkhead", func() { semaphore.Do(t.Context(), (*semaphore.Semaphore)(nil), 0, fn) })
	panics(t, "semaphore: Do: no func", func() { semaphore.Do[int](t.Context(), s, 0, nil) })
	guarded := func(context.Context, string) (int, error) { return 0, nil }
	panics(t, "semaphore: Guard: no bulkhead", func() { semaphore.Guard(nil, 0, guarded) })
	panics(t, "semaphore: Guard: no bulkhead", func() { semaphore.Guard((*semaphore.Semaphore)(nil), 0, guarded) })
	panics(t, "semaphore: Guard: no func", func() { semaphore.Guard[string, int](s, 0, nil) })
	conserved(t, s, 1)
}
