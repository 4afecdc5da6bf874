package semaphore

import (
	"context"
	"errors"
)

// Outcome says in one word how a call behind a bulkhead ended: what err, the error of [Do] or Acquire, is to be counted as. Of
// these the first that fits:
//
//   - "success": err is nil;
//   - "cancelled": err matches [context.Canceled] or [context.DeadlineExceeded]. That comes before a refusal, as the cause of the
//     caller's end, or what was tried before it, may be the refusal of another system;
//   - "refused_full": it matches [ErrBulkheadFull], as a [*FullError] for whichever reason does;
//   - "refused_closed": it matches [ErrUnavailable] in another way, as what Close is given should. So does the refusal of an open
//     circuit breaker that fn goes through;
//   - "error": any other, which is fn's own.
//
// An error can't tell whose it is. If fn has deadlines of its own and the caller's ctx has not ended, "cancelled" is one of those: ask
// for them first. If fn calls another system, a refusal may be that one's: a FullError names its system.
func Outcome(err error) string {
	switch {
	case err == nil:
		return "success"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "cancelled"
	case errors.Is(err, ErrBulkheadFull):
		return "refused_full"
	case errors.Is(err, ErrUnavailable):
		return "refused_closed"
	}
	return "error"
}
