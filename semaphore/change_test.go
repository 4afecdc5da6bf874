package semaphore

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// While a semaphore can't answer, the registry does, for whatever asks nothing of that one.
func TestRegistryHoldsNoLockOverASemaphore(t *testing.T) {
	r := NewRegistry()
	sber, _ := r.GetOrCreate("sber", Limits{})
	sber.mu.Lock()
	var stuck []chan bool
	for _, f := range []func(){
		func() { r.States() },
		func() { r.GetOrCreate("sber", Limits{}) },
		func() { r.Resize("sber", Limits{}) },
		func() { r.Unregister("sber") },
		func() { r.Register(sber) },
		func() { r.Replace(sber) },
		func() { r.Own(sber) },
	} {
		done := make(chan bool)
		stuck = append(stuck, done)
		go func() { f(); close(done) }()
	}
	for range 100 {
		s, err := r.GetOrCreate("alfa", Limits{MaxConcurrent: 1})
		if err != nil || r.Resize("alfa", Limits{}) != nil {
			t.Fatal(err)
		}
		if b, err := r.Get("sber"); b != Bulkhead(sber) || err != nil {
			t.Fatal(b, err)
		}
		if names := r.Names(); !slices.Equal(names, []string{"alfa", "sber"}) {
			t.Fatal(names)
		}
		if old, err := r.Replace(New("alfa", Limits{})); old != s || err != nil {
			t.Fatal(old, err)
		}
		if err := r.Unregister("alfa"); err != nil {
			t.Fatal(err)
		}
	}
	sber.mu.Unlock()
	for _, done := range stuck {
		<-done
	}
}

// Between the look whether it is in use and its end nobody takes a permit, by either way in.
func TestRetireAtOneMoment(t *testing.T) {
	s := New("sber", Limits{MaxConcurrent: 2, MaxWaiting: 2})
	taken := make(chan bool, 2)
	err := s.retire(func() error {
		go func() { taken <- s.TryAcquire() }()
		go func() {
			_, err := s.Acquire(t.Context(), time.Hour)
			_, unregistered := errors.AsType[*UnregisteredError](err)
			taken <- !unregistered
		}()
		select {
		case <-taken:
			t.Fatal("somebody was served meanwhile")
		case <-time.After(20 * time.Millisecond):
		}
		return nil
	})
	if err != nil || <-taken || <-taken {
		t.Errorf("%v, or somebody got a permit", err)
	}

	s, errNo := New("sber", Limits{MaxConcurrent: 1}), errors.New("no")
	if err := s.retire(func() error { return errNo }); err != errNo || !s.TryAcquire() {
		t.Errorf("%v, or closed without consent", err)
	}
}

// A change that another one came before is made to what is there now, and an error of what is no longer there is not told.
func TestChangeStartsAgain(t *testing.T) {
	errOld := errors.New("of the old one")
	for _, test := range []struct {
		name    string
		becomes *entry
		err     error // f's, for the old entry
		calls   int
		want    error
	}{
		{"replaced", &entry{sem: New("sber", Limits{})}, errOld, 2, nil},
		{"taken out", nil, errOld, 1, ErrNotFound},
		{"owned", &entry{New("sber", Limits{}), true}, errOld, 1, ErrOwned},
		{"replaced, but done before", &entry{sem: New("sber", Limits{})}, nil, 1, nil},
	} {
		r := NewRegistry()
		r.GetOrCreate("sber", Limits{})
		first, _ := r.find("sber")
		calls := 0
		err := r.change("sber", func(e *entry) error {
			switch calls++; {
			case e == first:
				if err := r.swap("sber", e, test.becomes); err != nil {
					t.Error(err)
				}
				if r.swap("sber", e, test.becomes) != errMoved {
					t.Errorf("%s: swapped twice", test.name)
				}
				return test.err
			case e != test.becomes:
				t.Errorf("%s: called with a third", test.name)
			}
			return nil
		})
		if !errors.Is(err, test.want) || calls != test.calls {
			t.Errorf("%s: %v after %d calls, want %v after %d", test.name, err, calls, test.want, test.calls)
		}
	}
}
