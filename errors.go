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

// What errors.Is finds. See the package's comment.
var (
	ErrUnavailable  = semaphore.ErrUnavailable
	ErrBulkheadFull = semaphore.ErrBulkheadFull
	ErrCircuitOpen  = transport.ErrCircuitOpen
	ErrTimeout      = transport.ErrTimeout
	ErrTooLarge     = transport.ErrTooLarge
	ErrClosed       = errors.New("client closed")
	ErrNotFound     = semaphore.ErrNotFound
	ErrDuplicate    = semaphore.ErrDuplicate
)

// The errors of the layers. They are aliases, so that a caller needs only this package.
type (
	FullError    = semaphore.FullError
	OpenError    = transport.OpenError
	TimeoutError = transport.TimeoutError
	PausedError  = transport.PausedError
	LateError    = transport.LateError
	RetryError   = transport.RetryError

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
