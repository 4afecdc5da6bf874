package semaphore_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resilient-go/resilient/semaphore"
)

// of many who ask for one that is not there yet, one makes it, and all get it.
func TestGetOrCreateAtOnce(t *testing.T) {
	const callers = 64
	for range 50 {
		r := semaphore.NewRegistry()
		var got [callers]*semaphore.Semaphore
		var admitted atomic.Int64
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range callers {
			all.Go(func() {
				<-start
				s, err := r.GetOrCreate("sber", five)
				if err != nil {
					t.Error(err)
					return
				}
				if got[i] = s; s.TryAcquire() {
					admitted.Add(1)
				}
			})
		}
		close(start)
		all.Wait()
		for _, s := range got {
			if s != got[0] {
				t.Fatal("two of one name")
			}
		}
		if admitted.Load() != 5 || len(r.States()) != 1 {
			t.Errorf("%d admitted by %d", admitted.Load(), len(r.States()))
		}
	}
	// The slower one has looked before the other made it; what it then adds is not taken.
	r := semaphore.NewRegistry()
	first, err := r.GetOrCreate("sber", five)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Register(semaphore.New("sber", five)); !errors.Is(err, semaphore.ErrDuplicate) {
		t.Errorf("a second one of that name: %v", err)
	}
	if now, err := r.GetOrCreate("sber", five); now != first || err != nil {
		t.Errorf("another one took its place: %v", err)
	}
}

// while one unregisters whatever is idle, nobody is ever inside two of one name; who is refused because of that gets in by
// asking again.
func TestUnregisterWhileHot(t *testing.T) {
	const permits, callers = 1, 6
	l := semaphore.Limits{MaxConcurrent: permits, MaxWaiting: callers}
	r := semaphore.NewRegistry()
	var (
		all, janitors sync.WaitGroup
		inside, again atomic.Int64
		gone          atomic.Int64
	)
	stop := make(chan struct{})
	for range 2 {
		janitors.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch err := r.Unregister("sber"); {
				case err == nil:
					gone.Add(1)
				case !errors.Is(err, semaphore.ErrInUse) && !errors.Is(err, semaphore.ErrNotFound):
					t.Error(err)
				}
				for _, st := range r.States() {
					if st.Active < 0 || st.Active > permits {
						t.Errorf("impossible: %+v", st)
					}
				}
			}
		})
	}
	for range callers {
		all.Go(func() {
			for range 2000 {
				s, err := r.GetOrCreate("sber", l)
				if err != nil {
					t.Error(err)
					return
				}
				_, err = semaphore.Do(t.Context(), s, 10*time.Second, func(context.Context) (int, error) {
					if n := inside.Add(1); n > permits {
						t.Errorf("%d inside", n)
					}
					runtime.Gosched() // to be seen in there
					inside.Add(-1)
					return 0, nil
				})
				if _, unregistered := errors.AsType[*semaphore.UnregisteredError](err); unregistered {
					again.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	janitors.Wait()
	t.Logf("%d unregistered, %d refused", gone.Load(), again.Load())
	if err := r.Unregister("sber"); err != nil && !errors.Is(err, semaphore.ErrNotFound) { // on a busy machine perhaps the first
		t.Error(err)
	}
}

// every change of every kind at once. Of each semaphore all permits come back, and what is left is what the registry says.
func TestRegistryWhileHot(t *testing.T) {
	r := semaphore.NewRegistry()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	var made sync.Map // *Semaphore, seen by anybody
	names := []string{"alfa", "sber"}
	loop := func(f func(name string) error) {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if word := word(f(names[i%len(names)])); len(word) > len("not found") {
					t.Error(word)
				}
			}
		})
	}
	for _, l := range []semaphore.Limits{five, {MaxConcurrent: 2, MaxWaiting: 4}} {
		loop(func(name string) error {
			s, err := r.GetOrCreate(name, l)
			if err == nil {
				made.Store(s, true)
				if s.TryAcquire() {
					s.Release()
				}
			}
			return err
		})
		loop(func(name string) error { return r.Resize(name, l) })
		loop(func(name string) error {
			s := semaphore.New(name, l)
			made.Store(s, true)
			return r.Register(s)
		})
	}
	loop(func(name string) error {
		s := semaphore.New(name, five)
		made.Store(s, true)
		old, err := r.Replace(s)
		if err == nil {
			made.Store(old, true)
		}
		return err
	})
	loop(r.Unregister)
	loop(func(name string) error {
		s := semaphore.New(name, five)
		release, err := r.Own(s)
		if err == nil {
			if !s.TryAcquire() {
				t.Error("the owner's was changed by another")
			}
			s.Release()
			if st := s.State(); st.MaxConcurrent != five.MaxConcurrent || st.MaxWaiting != five.MaxWaiting { // who got it by its name may be inside
				t.Errorf("the owner's was changed by another: %+v", st)
			}
			release()
		}
		return err
	})
	loop(func(name string) error {
		b, err := r.Get(name)
		if err == nil {
			_, err = semaphore.Do(ctx, b, time.Millisecond, func(context.Context) (int, error) { return 0, nil })
			if outcome := semaphore.Outcome(err); outcome == "error" {
				t.Error(err)
			}
			return nil
		}
		return err
	})
	loop(func(string) error {
		for _, st := range r.States() {
			if st.Active < 0 || st.Waiting < 0 || st.Name == "" {
				t.Errorf("impossible: %+v", st)
			}
		}
		return nil
	})
	all.Wait()
	made.Range(func(s, _ any) bool {
		conserved(t, s.(*semaphore.Semaphore), s.(*semaphore.Semaphore).State().MaxConcurrent)
		return true
	})
	for _, name := range r.Names() {
		if err := r.Unregister(name); err != nil {
			t.Error(err)
		}
	}
	if names := r.Names(); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
}
