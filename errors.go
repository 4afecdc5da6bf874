package resilient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// What errors.Is finds. The package's comment shows how they belong together.
var (
	ErrUnavailable  = semaphore.ErrUnavailable  // the system was not called: full, open, closed, paused, too late
	ErrBulkheadFull = semaphore.ErrBulkheadFull // a [FullError]
	ErrCircuitOpen  = transport.ErrCircuitOpen  // an [OpenError]
	ErrTimeout      = transport.ErrTimeout      // a [TimeoutError]
	ErrTooLarge     = transport.ErrTooLarge     // a [TooLargeError]
	ErrClosed       = errors.New("client closed")
	ErrNotFound     = semaphore.ErrNotFound  // a [NotFoundError]
	ErrDuplicate    = semaphore.ErrDuplicate // a [DuplicateError]
)

// The errors of the layers. They are aliases, so that a caller needs only this package.
type (
	// FullError: no permit came free in time. See [semaphore.FullError].
	FullError = semaphore.FullError
	// OpenError: the breaker is open. See [transport.OpenError].
	OpenError = transport.OpenError
	// TimeoutError: a bound fired, and which. See [transport.TimeoutError].
	TimeoutError = transport.TimeoutError
	// PausedError: the system has asked to be left alone. See [transport.PausedError].
	PausedError = transport.PausedError
	// LateError: too little is left of the caller's deadline. See [transport.LateError].
	LateError = transport.LateError
	// RetryError: an answer was given up for an attempt that was refused. See [transport.RetryError].
	RetryError = transport.RetryError
	// TooLargeError: the body is above MaxResponseBytes. See [transport.TooLargeError].
	TooLargeError = transport.TooLargeError
)

// A ClosedError refuses a request of a closed client, or ends one that was
// under way when it was closed. It matches ErrClosed; the refusal, of which no
// byte was sent, matches ErrUnavailable too.
type ClosedError struct {
	System  string
	Started bool // the request was under way
}

func (e *ClosedError) Error() string {
	if e.Started {
		return "resilient: " + e.System + ": client closed during the exchange"
	}
	return "resilient: " + e.System + ": client closed"
}

// Is matches ErrClosed and, for a refusal, ErrUnavailable.
func (e *ClosedError) Is(target error) bool {
	return target == ErrClosed || target == ErrUnavailable && !e.Started
}

// LogValue groups the error's text and its fields.
func (e *ClosedError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("msg", e.Error()), slog.String("system", e.System), slog.Bool("started", e.Started))
}

// A NotFoundError says that a Registry has no client of that name. It matches ErrNotFound.
type NotFoundError struct {
	Name  string
	Known []string // the names it has, sorted
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("resilient: no client %q; there are: %s", e.Name, strings.Join(e.Known, ", "))
}

// Is matches ErrNotFound.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// LogValue groups the error's text and its fields.
func (e *NotFoundError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("msg", e.Error()), slog.String("system", e.Name), slog.Any("known", e.Known))
}

// A DuplicateError refuses a second client of a name: two bulkheads would
// double the limit. "-" and "_" are the same here. It matches ErrDuplicate.
type DuplicateError struct {
	Name     string
	Existing string // the name that it would be confused with
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("resilient: a client %q exists; use it, or close it before making %q", e.Existing, e.Name)
}

// Is matches ErrDuplicate.
func (e *DuplicateError) Is(target error) bool { return target == ErrDuplicate }

// LogValue groups the error's text and its fields.
func (e *DuplicateError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("msg", e.Error()), slog.String("system", e.Name), slog.String("existing", e.Existing))
}

// NotSent reports whether err proves that no byte of the request left this
// process, so that a payment may be tried elsewhere. See [transport.NotSent].
func NotSent(err error) bool { return transport.NotSent(err) }

// StatusCode returns what a handler should answer when a call of a system has
// failed with err: 503 if the system is unavailable, with the time to tell in
// Retry-After, rounded up to whole seconds (0 = unknown: leave the header out),
// 504 if it took too long or the caller's own deadline has passed, 502 for any
// other failed exchange. It is not ok if err is nil or not the system's: the
// caller has gone, the request was invalid, or there is no such client.
func StatusCode(err error) (code int, retryAfter time.Duration, ok bool) {
	open, _ := errors.AsType[*OpenError](err)
	paused, _ := errors.AsType[*PausedError](err)
	_, invalid := errors.AsType[*exchange.InvalidError](err)
	switch { // the caller's end first: its cause may be the error of another system
	case err == nil, invalid, errors.Is(err, context.Canceled), errors.Is(err, ErrNotFound), errors.Is(err, ErrDuplicate):
		return 0, 0, false
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, 0, true
	case errors.Is(err, ErrUnavailable) && open != nil:
		return http.StatusServiceUnavailable, wholeSeconds(open.RetryAfter), true
	case errors.Is(err, ErrUnavailable) && paused != nil:
		return http.StatusServiceUnavailable, wholeSeconds(paused.RetryAfter), true
	case errors.Is(err, ErrUnavailable):
		return http.StatusServiceUnavailable, 0, true
	}
	return http.StatusBadGateway, 0, true
}

func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
