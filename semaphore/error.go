package semaphore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

var (
	// ErrUnavailable is matched by every error that says: the system was not called, because it has no room or is known to be down.
	ErrUnavailable = errors.New("system unavailable")

	// ErrBulkheadFull is matched by [FullError].
	ErrBulkheadFull = errors.New("bulkhead full")
)

// A Reason says why a bulkhead refused a caller.
type Reason string

const (
	// ReasonFull: no permit was free, and the caller would not wait or the queue had no room for it.
	ReasonFull Reason = "full"

	// ReasonWaited: no permit came free within the caller's wait.
	ReasonWaited Reason = "waited"
)

// A FullError is the refusal of a bulkhead that had no permit to give. It matches [ErrUnavailable] and [ErrBulkheadFull].
// It is no timeout: it has no Timeout method, which [net/url.Error] would ask.
type FullError struct {
	System  string        // the bulkhead's name
	Max     int           // permits in all
	Active  int           // permits out; more than Max after a shrink
	Waiting int           // others in the queue
	Waited  time.Duration // how long the caller waited; 0 for ReasonFull
	Reason  Reason
}

// Error names the system and says how full it was.
func (e *FullError) Error() string {
	waited := ""
	if e.Reason == ReasonWaited {
		waited = fmt.Sprintf(" after %v", e.Waited)
	}
	return fmt.Sprintf("%s: bulkhead full%s (%d of %d in use, %d waiting)", e.System, waited, e.Active, e.Max, e.Waiting)
}

// Is makes errors.Is match [ErrUnavailable] and [ErrBulkheadFull].
func (e *FullError) Is(target error) bool {
	return target == ErrUnavailable || target == ErrBulkheadFull
}

// LogValue is a group of the error's text and its fields.
func (e *FullError) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("msg", e.Error()), slog.String("system", e.System), slog.String("reason", string(e.Reason)),
		slog.Int("max", e.Max), slog.Int("active", e.Active), slog.Int("waiting", e.Waiting), slog.Duration("waited", e.Waited))
}

// A callerError is the end of a caller's context that has a cause of its own.
type callerError struct{ err, cause error }

// ended returns nil while ctx goes on, then ctx.Err(), together with the context's cause if it has one.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != err {
		return &callerError{err, cause}
	}
	return err
}

func (e *callerError) Error() string   { return e.err.Error() + ": " + e.cause.Error() }
func (e *callerError) Unwrap() []error { return []error{e.err, e.cause} }

// Timeout is ctx.Err()'s, as net/url.Error asks one level only: a cause may call itself a timeout where the caller cancelled.
func (e *callerError) Timeout() bool {
	t, ok := e.err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}
