package exchange

import (
	"context"
	"errors"
	"fmt"
)

var (
	errNoReturn = errors.New("exchange: the call below panicked or ended its goroutine")
	errNothing  = errors.New("exchange: the round trip returned neither response nor error")
)

// CallerError returns why ctx ended: ctx.Err(), and the cause if it has another.
func CallerError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || cause == err {
		return err
	}
	return Because(err, cause)
}

// Because returns an error that says and matches both, and is a timeout if err is.
func Because(err, cause error) error {
	return &wrapped{fmt.Sprintf("%v: %v", err, cause), []error{err, cause}}
}

// A wrapped error says whether it is a timeout, as its first one does: [net/url.Error] asks no deeper.
type wrapped struct {
	text string
	errs []error
}

func (e *wrapped) Error() string   { return e.text }
func (e *wrapped) Unwrap() []error { return e.errs }
func (e *wrapped) Timeout() bool {
	t, ok := e.errs[0].(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// ErrMaybeSent is matched by a refusal of a request of which something was, or may have been, sent before.
var ErrMaybeSent = errors.New("something of it may have been sent before")

// MaybeSent makes refusal match ErrMaybeSent: that of a request which follows a
// redirect, or one that comes up from below a foreign layer, which may have tried before.
func MaybeSent(refusal error) error {
	if errors.Is(refusal, ErrMaybeSent) {
		return refusal
	}
	return &wrapped{fmt.Sprintf("%v (%v)", refusal, ErrMaybeSent), []error{refusal, ErrMaybeSent}}
}
