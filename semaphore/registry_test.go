package semaphore_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resilient-go/resilient/semaphore"
)

var five = semaphore.Limits{MaxConcurrent: 5, MaxWaiting: 50}

func fails(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// holds compares the names, and what Get returns for each.
func holds(t *testing.T, r *semaphore.Registry, want ...*semaphore.Semaphore) {
	t.Helper()
	var names []string
	for _, s := range want {
		names = append(names, s.Name())
		if b, err := r.Get(s.Name()); b != semaphore.Bulkhead(s) || err != nil {
			t.Errorf("%s: Get() = %v, %v", s.Name(), b, err)
		}
	}
	if diff := cmp.Diff(names, r.Names()); diff != "" {
		t.Errorf("names: %s", diff)
	}
}

func TestRegistry(t *testing.T) {
	r := semaphore.NewRegistry()
	holds(t, r)
	if b, err := r.Get("sber"); b != nil {
		t.Errorf("got %v", b)
	} else {
		fails(t, err, semaphore.ErrNotFound)
	}
	sber, err := r.GetOrCreate("sber", five)
	if err != nil || sber.Name() != "sber" {
		t.Fatal(sber, err)
	}
	check(t, sber, "0/5 active, 0/50 waiting, 0 full, 0 waited")
	alfa := semaphore.New("alfa", semaphore.Limits{MaxConcurrent: 1})
	if err := r.Register(alfa); err != nil {
		t.Fatal(err)
	}
	holds(t, r, alfa, sber)

	hold(t, sber, 2)
	states := r.States()
	want := []semaphore.State{
		{Name: "alfa", MaxConcurrent: 1},
		{Name: "sber", MaxConcurrent: 5, MaxWaiting: 50, Active: 2},
	}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("states: %s", diff)
	}
	states[0].Name, r.Names()[0] = "changed", "changed" // which are copies
	if diff := cmp.Diff(want, r.States()); diff != "" {
		t.Errorf("states: %s", diff)
	}
	holds(t, r, alfa, sber)
}

func TestGetOrCreate(t *testing.T) {
	r := semaphore.NewRegistry()
	get := func(l semaphore.Limits) *semaphore.Semaphore {
		t.Helper()
		s, err := r.GetOrCreate("sber", l)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	conflict := func(have semaphore.Limits, want semaphore.Limits) {
		t.Helper()
		s, err := r.GetOrCreate("sber", want)
		fails(t, err, semaphore.ErrConflict)
		e, _ := errors.AsType[*semaphore.ConflictError](err)
		if diff := cmp.Diff(&semaphore.ConflictError{Name: "sber", Have: have, Want: want}, e); diff != "" || s != nil {
			t.Errorf("%v, %s", s, diff)
		}
	}
	sber := get(five)
	if get(five) != sber {
		t.Error("another one")
	}
	conflict(five, semaphore.Limits{MaxConcurrent: 6, MaxWaiting: 50})
	conflict(five, semaphore.Limits{MaxConcurrent: 5, MaxWaiting: 51})
	check(t, sber, "0/5 active, 0/50 waiting, 0 full, 0 waited") // neither resized nor replaced

	small := semaphore.Limits{MaxConcurrent: 1}
	if err := r.Resize("sber", small); err != nil {
		t.Fatal(err)
	}
	check(t, sber, "0/1 active, 0/0 waiting, 0 full, 0 waited")
	conflict(small, five)
	if get(small) != sber {
		t.Error("another one")
	}
	huge := semaphore.Limits{MaxConcurrent: math.MaxInt, MaxWaiting: math.MaxInt} // taken as less
	if err := r.Resize("sber", huge); err != nil {
		t.Fatal(err)
	}
	if get(huge) != sber {
		t.Error("another one")
	}
	holds(t, r, sber)
}

// a negative limit or an empty name is an error of the registry's, not a panic, and changes nothing.
func TestRegistryRefusesWhatIsNone(t *testing.T) {
	r := semaphore.NewRegistry()
	sber, _ := r.GetOrCreate("sber", five)
	for _, l := range []semaphore.Limits{{MaxConcurrent: -1}, {MaxWaiting: -1}, {MaxConcurrent: math.MinInt, MaxWaiting: 7}} {
		for _, name := range []string{"sber", "alfa"} {
			if s, err := r.GetOrCreate(name, l); s != nil || err == nil {
				t.Errorf("%s, %+v: %v, %v", name, l, s, err)
			}
			if err := r.Resize(name, l); err == nil || errors.Is(err, semaphore.ErrNotFound) {
				t.Errorf("%s, %+v: %v", name, l, err)
			}
		}
	}
	check(t, sber, "0/5 active, 0/50 waiting, 0 full, 0 waited")

	nameless := semaphore.New("", five)
	_, getErr := r.Get("")
	s, createErr := r.GetOrCreate("", five)
	release, ownErr := r.Own(nameless)
	old, replaceErr := r.Replace(nameless)
	if s != nil || release != nil || old != nil {
		t.Error(s, old)
	}
	for i, err := range []error{getErr, createErr, ownErr, replaceErr, r.Register(nameless), r.Resize("", five), r.Unregister("")} {
		if err == nil {
			t.Errorf("%d: no error", i)
		}
	}
	holds(t, r, sber)
}

func TestRegisterTwice(t *testing.T) {
	r := semaphore.NewRegistry()
	sber := semaphore.New("sber", five)
	if err := r.Register(sber); err != nil {
		t.Fatal(err)
	}
	fails(t, r.Register(sber), semaphore.ErrDuplicate)
	fails(t, r.Register(semaphore.New("sber", five)), semaphore.ErrDuplicate)
	release, err := r.Own(semaphore.New("sber", five))
	fails(t, err, semaphore.ErrDuplicate)
	if release != nil {
		t.Error("a release of nothing")
	}
	holds(t, r, sber)
}

// who is in the old one, or waits for it, finishes there; it is no more closed than before.
func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := semaphore.NewRegistry()
		if old, err := r.Replace(semaphore.New("sber", five)); old != nil {
			t.Errorf("got %v", old)
		} else {
			fails(t, err, semaphore.ErrNotFound)
		}
		holds(t, r)

		sber, _ := r.GetOrCreate("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 2})
		hold(t, sber, 1)
		served, refused := start(t.Context(), sber, 100*ms), start(t.Context(), sber, 100*ms)
		next := semaphore.New("sber", five)
		if old, err := r.Replace(next); old != sber || err != nil {
			t.Errorf("%v, %v", old, err)
		}
		holds(t, r, next)
		pass(60 * ms)
		sber.Release()
		pass(60 * ms)
		if !served.done() || served.err() != nil {
			t.Errorf("the first to wait: %v", served)
		}
		fails(t, refused.err(), semaphore.ErrBulkheadFull)
		sber.Release()
		conserved(t, sber, 1)
		conserved(t, next, 5)
	})
}

// nobody is unregistered while in use, and nobody gets into what was unregistered.
func TestUnregister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := semaphore.NewRegistry()
		fails(t, r.Unregister("sber"), semaphore.ErrNotFound)
		sber, _ := r.GetOrCreate("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 1})
		inUse := func(active, waiting int) {
			t.Helper()
			e, _ := errors.AsType[*semaphore.InUseError](r.Unregister("sber"))
			if diff := cmp.Diff(&semaphore.InUseError{Name: "sber", Active: active, Waiting: waiting}, e); diff != "" {
				t.Error(diff)
			}
			holds(t, r, sber)
		}
		hold(t, sber, 1)
		inUse(1, 0)
		waiter := start(t.Context(), sber, 100*ms)
		inUse(1, 1)
		sber.Resize(semaphore.Limits{MaxWaiting: 1})
		sber.Release()
		inUse(0, 1)
		pass(100 * ms)
		fails(t, waiter.err(), semaphore.ErrBulkheadFull)

		if err := r.Unregister("sber"); err != nil {
			t.Fatal(err)
		}
		holds(t, r)
		fails(t, r.Unregister("sber"), semaphore.ErrNotFound)
		fails(t, r.Resize("sber", five), semaphore.ErrNotFound)
		_, err := sber.Acquire(t.Context(), time.Hour)
		if e, ok := errors.AsType[*semaphore.UnregisteredError](err); !ok || e.Name != "sber" || sber.TryAcquire() {
			t.Errorf("it goes on: %v", err)
		}
		if err := r.Register(sber); err == nil {
			t.Error("registered again, though it is of no more use")
		}
		next, err := r.GetOrCreate("sber", five)
		if next == sber || err != nil {
			t.Errorf("got %v, %v", next, err)
		}
		holds(t, r, next)
	})
}

// What somebody closed is in the way until it is replaced or unregistered; nothing says that it was changed.
func TestRegistryOfTheClosed(t *testing.T) {
	r := semaphore.NewRegistry()
	sber, _ := r.GetOrCreate("sber", five)
	alfa, _ := r.GetOrCreate("alfa", five)
	hold(t, alfa, 1)
	sber.Close(errClosed)
	alfa.Close(errClosed)
	for _, l := range []semaphore.Limits{five, {}} {
		s, createErr := r.GetOrCreate("sber", l)
		for _, err := range []error{createErr, r.Resize("sber", l)} {
			if s != nil || err == nil || errors.Is(err, errClosed) || errors.Is(err, semaphore.ErrConflict) {
				t.Errorf("%+v: %v, %v", l, s, err)
			}
		}
	}
	other := semaphore.NewRegistry()
	other.GetOrCreate("sber", five)
	_, ownErr := semaphore.NewRegistry().Own(sber)
	_, replaceErr := other.Replace(sber)
	for _, err := range []error{ownErr, replaceErr, semaphore.NewRegistry().Register(sber)} {
		if err == nil || errors.Is(err, errClosed) {
			t.Errorf("took a closed one: %v", err)
		}
	}
	holds(t, r, alfa, sber)

	if err := r.Unregister("sber"); err != nil {
		t.Error(err)
	}
	if _, err := sber.Acquire(t.Context(), 0); err != errClosed {
		t.Errorf("%v, though it was closed before", err)
	}
	fails(t, r.Unregister("alfa"), semaphore.ErrInUse)
	next := semaphore.New("alfa", five)
	if old, err := r.Replace(next); old != alfa || err != nil {
		t.Errorf("%v, %v", old, err)
	}
	holds(t, r, next)
}

// The owner's is listed and called through like any other, and changed by nobody else.
func TestOwn(t *testing.T) {
	r := semaphore.NewRegistry()
	sber := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1})
	release, err := r.Own(sber)
	if err != nil {
		t.Fatal(err)
	}
	refused := func() {
		t.Helper()
		s, createErr := r.GetOrCreate("sber", semaphore.Limits{MaxConcurrent: 1})
		old, replaceErr := r.Replace(semaphore.New("sber", five))
		for _, err := range []error{createErr, replaceErr, r.Resize("sber", five), r.Unregister("sber")} {
			fails(t, err, semaphore.ErrOwned)
		}
		if s != nil || old != nil {
			t.Errorf("got %v, %v", s, old)
		}
		fails(t, r.Register(semaphore.New("sber", five)), semaphore.ErrDuplicate)
		if diff := cmp.Diff([]semaphore.State{sber.State()}, r.States()); diff != "" {
			t.Error(diff)
		}
	}
	refused()
	b, err := r.Get("sber")
	if again, _ := r.Get("sber"); b != again || err != nil {
		t.Errorf("%v, then %v, %v", b, again, err)
	}
	p, err := b.Acquire(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	check(t, sber, "1/1 active, 0/0 waiting, 0 full, 0 waited")
	for _, v := range []any{b, p} {
		switch v := v.(type) {
		case interface{ Resize(semaphore.Limits) }, interface{ Close(error) }, *semaphore.Semaphore:
			t.Errorf("%T gives the semaphore away", v)
		}
	}
	if _, ok := b.(semaphore.Permit); ok {
		t.Error("the bulkhead gives permits back")
	}
	refused()
	none, err := b.Acquire(t.Context(), 0)
	if fails(t, err, semaphore.ErrBulkheadFull); none != nil {
		t.Error("an error and a permit")
	}
	check(t, sber, "1/1 active, 0/0 waiting, 1 full, 0 waited")

	release() // with a permit out
	holds(t, r)
	p.Release()
	conserved(t, sber, 1)
	if p, err := b.Acquire(t.Context(), 0); err != nil {
		t.Errorf("released is not closed: %v", err)
	} else {
		p.Release()
	}
	next, err := r.GetOrCreate("sber", five)
	if err != nil {
		t.Fatal(err)
	}
	release() // in vain
	holds(t, r, next)
}

// The wait and the end of the caller's context reach the owner's semaphore.
func TestOwnedAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := semaphore.NewRegistry()
		sber := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 1})
		release, _ := r.Own(sber)
		defer release()
		b, _ := r.Get("sber")
		hold(t, sber, 1)
		time.AfterFunc(50*ms, sber.Release)
		began := time.Now()
		if _, err := b.Acquire(t.Context(), 100*ms); err != nil || time.Since(began) != 50*ms {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		if _, err := b.Acquire(ctx, 100*ms); err != context.DeadlineExceeded {
			t.Error(err)
		}
		sber.Release()
		conserved(t, sber, 1)
	})
}
