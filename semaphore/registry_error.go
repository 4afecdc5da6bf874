package semaphore

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// What the errors of a [Registry] match.
var (
	ErrNotFound  = errors.New("no such bulkhead")                                                   // a [NotFoundError]
	ErrDuplicate = errors.New("bulkhead exists")                                                    // a [DuplicateError]
	ErrConflict  = errors.New("bulkhead exists with other limits")                                  // a [ConflictError]
	ErrInUse     = errors.New("bulkhead in use")                                                    // an [InUseError]
	ErrOwned     = errors.New("it has an owner, who alone changes it: a client by its Reconfigure") // see [Registry.Own]
)

// A NotFoundError says that a [Registry] has no bulkhead of that name. It matches [ErrNotFound].
type NotFoundError struct {
	Name  string
	Known []string // the names that it has, sorted
}

func (e *NotFoundError) Error() string {
	known := "none"
	if len(e.Known) > 0 {
		known = strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("semaphore: no bulkhead %q; there are: %s", e.Name, known)
}

// Is matches [ErrNotFound].
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// LogValue is a group of the error's text and its fields.
func (e *NotFoundError) LogValue() slog.Value { return logValue(e, e.Name, slog.Any("known", e.Known)) }

// A DuplicateError refuses a second bulkhead of a name: two would double the limit. It matches [ErrDuplicate].
type DuplicateError struct{ Name string }

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("semaphore: a bulkhead %q exists; get that one, or replace it", e.Name)
}

// Is matches [ErrDuplicate].
func (e *DuplicateError) Is(target error) bool { return target == ErrDuplicate }

// LogValue is a group of the error's text and its fields.
func (e *DuplicateError) LogValue() slog.Value { return logValue(e, e.Name) }

// A ConflictError says that a bulkhead exists, and has other limits than those asked for. It matches [ErrConflict].
type ConflictError struct {
	Name       string
	Have, Want Limits
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("semaphore: a bulkhead %q exists with MaxConcurrent %d and MaxWaiting %d, not %d and %d; ask for those, or resize it",
		e.Name, e.Have.MaxConcurrent, e.Have.MaxWaiting, e.Want.MaxConcurrent, e.Want.MaxWaiting)
}

// Is matches [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// LogValue is a group of the error's text and its fields.
func (e *ConflictError) LogValue() slog.Value {
	return logValue(e, e.Name, slog.Any("have", e.Have), slog.Any("want", e.Want))
}

// An InUseError says that a bulkhead can't be unregistered yet. It matches [ErrInUse].
type InUseError struct {
	Name    string
	Active  int // permits out
	Waiting int // callers in the queue
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("semaphore: bulkhead %q is in use (%d permits out, %d waiting); unregister it when they are back, or replace it",
		e.Name, e.Active, e.Waiting)
}

// Is matches [ErrInUse].
func (e *InUseError) Is(target error) bool { return target == ErrInUse }

// LogValue is a group of the error's text and its fields.
func (e *InUseError) LogValue() slog.Value {
	return logValue(e, e.Name, slog.Int("active", e.Active), slog.Int("waiting", e.Waiting))
}

// An UnregisteredError is the refusal of a Semaphore that was unregistered. It matches [ErrUnavailable].
type UnregisteredError struct{ Name string }

func (e *UnregisteredError) Error() string {
	return fmt.Sprintf("semaphore: bulkhead %q was unregistered; get the present one from the registry", e.Name)
}

// Is matches [ErrUnavailable].
func (e *UnregisteredError) Is(target error) bool { return target == ErrUnavailable }

// LogValue is a group of the error's text and its fields.
func (e *UnregisteredError) LogValue() slog.Value { return logValue(e, e.Name) }

func logValue(err error, name string, more ...slog.Attr) slog.Value {
	return slog.GroupValue(append([]slog.Attr{slog.String("msg", err.Error()), slog.String("system", name)}, more...)...)
}
