package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/semaphore"
)

var (
	// ErrCircuitOpen is matched by every OpenError.
	ErrCircuitOpen = errors.New("circuit open")

	// ErrTimeout is matched by every TimeoutError.
	ErrTimeout = errors.New("timeout")

	// ErrTooLarge is matched by every TooLargeError.
	ErrTooLarge = errors.New("response body too large")
)

// An OpenError refuses a request while the breaker is open, or half-open with
// all its probes taken, or forced open. No byte of the request was sent. It matches
// ErrCircuitOpen and [semaphore.ErrUnavailable].
type OpenError struct {
	System     string
	RetryAfter time.Duration // until the first probe is let through, or the forced state ends; 0 = unknown
	Probing    bool          // half-open, and all probes are taken
	Forced     bool          // open by hand
}

func (e *OpenError) Error() string {
	open := "open"
	switch {
	case e.Probing:
		open = "half open, and all its probes are taken"
	case e.Forced:
		open = "forced open"
	}
	if e.RetryAfter > 0 {
		open += fmt.Sprintf(" for another %v", e.RetryAfter.Round(time.Millisecond))
	}
	return "transport: " + e.System + ": circuit " + open
}

// Is matches ErrCircuitOpen and semaphore.ErrUnavailable.
func (e *OpenError) Is(target error) bool {
	return target == ErrCircuitOpen || target == semaphore.ErrUnavailable
}

// LogValue groups the error's text and its fields.
func (e *OpenError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("msg", e.Error()), slog.String("system", e.System), slog.Duration("retry_after", e.RetryAfter))
}

// A Phase is the bound that ended an exchange.
type Phase string

// The phases of a TimeoutError.
const (
	PhaseConnect  Phase = "connect"  // dialling, or a proxy's answer to CONNECT
	PhaseTLS      Phase = "tls"      // the TLS handshake
	PhaseRead     Phase = "read"     // the system was silent
	PhaseTotal    Phase = "total"    // the exchange was not over in time
	PhaseDeadline Phase = "deadline" // the same, and it was the caller's deadline that made the total so short
)

// A TimeoutError ends an exchange that took too long. It matches ErrTimeout and
// [context.DeadlineExceeded], whose text its own contains.
type TimeoutError struct {
	System string
	Phase  Phase
	Limit  time.Duration // the bound; 0 where it is a foreign transport's

	unsent bool
}

func (e *TimeoutError) Error() string {
	what, limit := string(e.Phase), ""
	if e.Phase == PhaseTLS {
		what = "TLS handshake" // net/http's words, which programs look for
	}
	if e.Limit > 0 {
		limit = fmt.Sprintf(" of %v", e.Limit.Round(time.Millisecond))
	}
	return fmt.Sprintf("transport: %s: %s timeout%s: %v", e.System, what, limit, context.DeadlineExceeded)
}

// Timeout is true. It is here since [net/url.Error] asks no deeper.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary is true, as context.DeadlineExceeded's is.
func (e *TimeoutError) Temporary() bool { return true }

// Is matches ErrTimeout.
func (e *TimeoutError) Is(target error) bool { return target == ErrTimeout }

func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// LogValue groups the error's text and its fields.
func (e *TimeoutError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("msg", e.Error()), slog.String("system", e.System),
		slog.String("phase", string(e.Phase)), slog.Duration("limit", e.Limit))
}

// A TooLargeError ends an exchange whose response body is larger than its bound. The
// response itself has been returned: it is an error of the body's, of the Read that
// would go beyond the bound, or of the first one if Content-Length says as much. The
// body is closed with it, and over HTTP/1 its connection. It matches ErrTooLarge.
//
// The bound is the caller's own and the system has answered, so the breaker judges by the
// status alone, as where a caller closes a body early; a [Classifier] is not asked.
type TooLargeError struct {
	System string
	Limit  int64 // in bytes, as the caller reads them
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("transport: %s: %v, above %d bytes: raise MaxResponseBytes, or MaxBytes of WithBounds for such requests", e.System, ErrTooLarge, e.Limit)
}

// Is matches ErrTooLarge.
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }

// LogValue groups the error's text and its fields.
func (e *TooLargeError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("msg", e.Error()), slog.String("system", e.System), slog.Int64("limit", e.Limit))
}

// NotSent reports whether err proves that no byte of the request left this
// process, so that it may safely be sent elsewhere: it was refused, or no
// connection could be made. It errs on the side of false. A failed dial proves
// nothing over a foreign base, for a request that follows a redirect, or for one
// that net/http may repeat by itself, since it may have sent it to a dead idle
// connection before it dialled: a GET, HEAD, OPTIONS or TRACE, one with an
// Idempotency-Key, and over HTTP/2 any whose body can be had again. Of several
// errors joined, or wrapped side by side, each one has to prove it.
func NotSent(err error) bool {
	switch e := err.(type) { //nolint:errorlint // walks the tree itself: of joined errors each one has to prove it
	case *dialError:
		return e.unsent
	case *TimeoutError:
		return e.unsent
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool { return !NotSent(err) })
	case interface{ Unwrap() error }:
		return NotSent(e.Unwrap())
	}
	return errors.Is(err, semaphore.ErrUnavailable)
}

// maybeSent marks what would prove something but comes from below a foreign layer or base, which may have tried before.
func maybeSent(_ *exchange.Exchange, err error, raw bool) error {
	if raw && (errors.Is(err, semaphore.ErrUnavailable) || NotSent(err)) {
		return exchange.MaybeSent(err)
	}
	return err
}
