package semaphore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// A Registry holds the bulkheads of one process by their names, so that whoever calls a system finds the one bulkhead that it
// has. It is made by [NewRegistry], and safe for concurrent use. Any name but "" will do; two names are the same if they are
// equal, byte by byte.
type Registry struct {
	// mu guards the map and no more. It is taken while a semaphore is locked (see Unregister), so while it is held no semaphore
	// may be asked anything.
	mu      sync.Mutex
	entries map[string]*entry
}

// An entry is never changed, nor put back once it was taken out: where it is still found, nothing has happened in between.
type entry struct {
	sem   *Semaphore
	owned bool
}

// errMoved says that another change came first. It never reaches a caller.
var errMoved = errors.New("entry moved")

// NewRegistry returns an empty Registry.
func NewRegistry() *Registry { return &Registry{entries: map[string]*entry{}} }

// Get returns the bulkhead of that name, or a [*NotFoundError]. It is the *Semaphore itself, unless that has an owner (see
// [Registry.Own]): then it is one that can do nothing but Acquire, whose permits can do nothing but Release.
func (r *Registry) Get(name string) (Bulkhead, error) {
	e, err := r.find(name)
	if err != nil {
		return nil, err
	}
	if e.owned {
		return view{e.sem}, nil
	}
	return e.sem, nil
}

// GetOrCreate returns the Semaphore of that name, and makes it if there is none: of many who ask at once, all get the same one.
// Keep it, rather than ask again for each call.
//
// It is an error if the one that exists has other limits ([*ConflictError]), has an owner ([ErrOwned]) or is closed, if the
// name is "", or if a limit is negative.
func (r *Registry) GetOrCreate(name string, l Limits) (*Semaphore, error) {
	l, err := l.taken(name)
	if err != nil {
		return nil, err
	}
	for {
		var s *Semaphore
		err := r.change(name, func(e *entry) error {
			s = e.sem
			have, err := s.limits()
			if err == nil && have != l {
				err = &ConflictError{Name: name, Have: have, Want: l}
			}
			return err
		})
		if errors.Is(err, ErrNotFound) {
			s = New(name, l)
			_, err = r.add(s, false)
		}
		switch {
		case err == nil:
			return s, nil
		case !errors.Is(err, ErrDuplicate): // else somebody made it in the meantime
			return nil, err
		}
	}
}

// Register adds s under its own name. It is an error if that is in use ([*DuplicateError]) or "", or if s is closed.
func (r *Registry) Register(s *Semaphore) error {
	_, err := r.add(s, false)
	return err
}

// Own is [Registry.Register] for an owner, who wants s to be found and listed, and alone may change it: until release,
// GetOrCreate, Replace, Resize and Unregister of that name fail with [ErrOwned].
//
// Release takes s out of the registry, even while permits are out, and does nothing else to it. It may be called more than once;
// only the first call counts.
func (r *Registry) Own(s *Semaphore) (release func(), err error) {
	e, err := r.add(s, true)
	if err != nil {
		return nil, err
	}
	return func() { _ = r.swap(s.Name(), e, nil) }, nil // errMoved: released before
}

// Replace puts s in the place of the Semaphore of its name, which it returns. To the old one it does nothing: permits of it are
// given back to it, and whoever waits for one gets it there. Whoever kept it can go on using it, and both limits hold side by
// side, until it is closed; that also ends the waits.
//
// It is an error if there is none of that name ([*NotFoundError]), if it has an owner ([ErrOwned]), or if s is closed.
func (r *Registry) Replace(s *Semaphore) (old *Semaphore, err error) {
	if err := s.admissible(); err != nil {
		return nil, err
	}
	err = r.change(s.Name(), func(e *entry) error {
		err := r.swap(s.Name(), e, &entry{sem: s})
		if err == nil {
			old = e.sem
		}
		return err
	})
	return old, err
}

// Resize changes the limits of the Semaphore of that name, as [Semaphore.Resize] does. It is an error if there is none
// ([*NotFoundError]), if it has an owner ([ErrOwned]) or is closed, or if a limit is negative.
func (r *Registry) Resize(name string, l Limits) error {
	l, err := l.taken(name)
	if err != nil {
		return err
	}
	return r.change(name, func(e *entry) error {
		e.sem.Resize(l)
		_, err := e.sem.limits()
		return err
	})
}

// Unregister takes the Semaphore of that name out of the registry and, at the same moment, closes it. While a permit of it is
// out or somebody waits for one, it is an [*InUseError] and nothing has happened. It is an error too if there is none of that
// name ([*NotFoundError]), or if it has an owner ([ErrOwned]).
//
// So nobody is ever inside a Semaphore that was unregistered, beside the one that bears its name next. But to hold a Semaphore
// is no claim to a permit of it: whoever got it before, and comes after, is refused by Acquire with an [*UnregisteredError],
// and by TryAcquire.
func (r *Registry) Unregister(name string) error {
	return r.change(name, func(e *entry) error {
		return e.sem.retire(func() error { return r.swap(name, e, nil) })
	})
}

// Names returns the names, sorted.
func (r *Registry) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.entries))
}

// States returns the states of the bulkheads, sorted by name. Each is consistent in itself; one is taken after the other.
func (r *Registry) States() []State {
	var states []State
	for _, name := range r.Names() {
		if e, err := r.find(name); err == nil {
			states = append(states, e.sem.State())
		}
	}
	return states
}

func (r *Registry) find(name string) (*entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[name]; e != nil {
		return e, nil
	}
	return nil, &NotFoundError{Name: name, Known: slices.Sorted(maps.Keys(r.entries))}
}

func (r *Registry) add(s *Semaphore, owned bool) (*entry, error) {
	if err := s.admissible(); err != nil {
		return nil, err
	}
	e := &entry{s, owned}
	if err := r.swap(s.Name(), nil, e); err != nil {
		return nil, &DuplicateError{Name: s.Name()}
	}
	return e, nil
}

// swap puts a new entry in the place of the old one, or returns errMoved if that is not there. A nil entry is none.
func (r *Registry) swap(name string, old, e *entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries[name] != old {
		return errMoved
	}
	if r.entries[name] = e; e == nil {
		delete(r.entries, name)
	}
	return nil
}

// change calls f with the entry of a name, unless somebody owns it. Where f fails and the entry is no longer there, that may be
// why, and f gets the next one.
func (r *Registry) change(name string, f func(*entry) error) error {
	for {
		e, err := r.find(name)
		switch {
		case err != nil:
			return err
		case e.owned:
			return fmt.Errorf("semaphore: bulkhead %q: %w", name, ErrOwned)
		}
		err = f(e)
		if now, _ := r.find(name); err == nil || now == e {
			return err
		}
	}
}

// A view is a semaphore whose owner alone may do more than call through it.
type view struct{ s *Semaphore }

type viewPermit struct{ s *Semaphore }

func (v view) Acquire(ctx context.Context, wait time.Duration) (Permit, error) {
	if _, err := v.s.Acquire(ctx, wait); err != nil {
		return nil, err
	}
	return viewPermit(v), nil
}

func (p viewPermit) Release() { p.s.Release() }
