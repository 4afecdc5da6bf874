package transport

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/semaphore"
)

// A PausedError refuses a call while the system has asked to be left alone, by a
// Retry-After. No byte of the request was sent. It matches [semaphore.ErrUnavailable].
type PausedError struct {
	System     string
	RetryAfter time.Duration // until calls are let through again
}

func (e *PausedError) Error() string {
	return fmt.Sprintf("transport: %s: left alone for another %v, as its Retry-After asked", e.System, e.RetryAfter.Round(time.Millisecond))
}

// Is matches semaphore.ErrUnavailable.
func (e *PausedError) Is(target error) bool { return target == semaphore.ErrUnavailable }

// LogValue groups the error's text and its fields.
func (e *PausedError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("msg", e.Error()), slog.String("system", e.System), slog.Duration("retry_after", e.RetryAfter))
}

// A LateError refuses a call whose caller's deadline leaves too little for it. No
// byte of the request was sent. It matches [semaphore.ErrUnavailable], as it is a
// refusal, and [context.DeadlineExceeded], for it is the deadline's doing.
type LateError struct {
	System string
	Left   time.Duration // of the caller's deadline
	Floor  time.Duration // what there has to be; 0 = something
}

func (e *LateError) Error() string {
	return fmt.Sprintf("transport: %s: %v left of the caller's deadline, too little for a call (at least %v): %v",
		e.System, e.Left.Round(time.Microsecond), e.Floor, context.DeadlineExceeded)
}

// Timeout is true. It is here since [net/url.Error] asks no deeper.
func (e *LateError) Timeout() bool { return true }

// Temporary is true, as context.DeadlineExceeded's is.
func (e *LateError) Temporary() bool { return true }

// Is matches semaphore.ErrUnavailable and context.DeadlineExceeded.
func (e *LateError) Is(target error) bool {
	return target == semaphore.ErrUnavailable || target == context.DeadlineExceeded
}

// LogValue groups the error's text and its fields.
func (e *LateError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("msg", e.Error()), slog.String("system", e.System),
		slog.Duration("left", e.Left), slog.Duration("floor", e.Floor))
}

// A RetryError says that the system answered with a failure status, that this
// answer was given up for another attempt, and that the attempt was refused. It
// matches what the refusal does, but [NotSent] is false of it.
type RetryError struct {
	System  string
	Status  int   // of the answer, whose body is gone
	Attempt int   // that was refused, from 2
	Err     error // the refusal
}

func (e *RetryError) Error() string {
	return fmt.Sprintf("transport: %s: answered %d, and attempt %d was refused: %v", e.System, e.Status, e.Attempt, e.Err)
}

func (e *RetryError) Unwrap() []error { return []error{e.Err, exchange.ErrMaybeSent} }

// Timeout is the refusal's. It is here since [net/url.Error] asks no deeper.
func (e *RetryError) Timeout() bool {
	t, ok := e.Err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// LogValue groups the error's text and its fields.
func (e *RetryError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("msg", e.Error()), slog.String("system", e.System),
		slog.Int("status", e.Status), slog.Int("attempt", e.Attempt))
}
