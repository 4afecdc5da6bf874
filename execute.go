package resilient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/resilient-go/resilient/internal/exchange"
)

// Execute calls fn guarded by c: with one permit, one verdict for the breaker
// and one total, TotalTimeout, for all of it. It is for the method of an adapter
// that makes several requests, and for what is no HTTP: a printer on a socket.
//
// fn runs in the caller's goroutine, with a context that ends with the caller's,
// or when the total is over, or when fn has returned. A request of c's made with
// that context uses fn's permit instead of one of its own, one request at a time;
// a second one at the same moment is admitted, or refused, like any other.
// Requests to other systems are not touched. An exchange that is under way when
// fn returns, because fn returns its body, say, keeps the permit to its own end, and
// is governed by the caller's context from then on. A request made later with
// fn's context is like one made with the caller's.
//
// The breaker is told Failure if one of those exchanges failed, else Success if
// one succeeded. If fn made none, an error of its own is a failure, unless the
// caller's context ended or it is a refusal. An error of fn's over good exchanges is not the
// system's: it counts as success.
//
// The error is c's refusal (ErrUnavailable), ctx's end, or what fn returned; if the
// total was over then, or c's Shutdown had ended it, it matches ErrTimeout or ErrClosed
// too. A panic goes on unchanged.
func Execute[T any](ctx context.Context, c *Client, fn func(context.Context) (T, error)) (T, error) {
	return Call[T]{}.Do(ctx, c, fn)
}

// A Call is Execute with settings. The zero Call is Execute.
type Call[T any] struct {
	// Fallback, if not nil, is called with the caller's context and the error when
	// that matches ErrUnavailable: c refused, or another system within fn did. It
	// holds no permit. If it fails too, the error tells both. It is never called
	// when the caller's context has ended, when the caller's deadline was too close, or for
	// ErrNotFound, ErrDuplicate and an invalid request, which it would hide.
	Fallback func(ctx context.Context, err error) (T, error)

	// FallbackIf, if not nil, has Fallback called for other errors too, for which it is true.
	FallbackIf func(err error) bool

	// Classify, if not nil, says what fn's result, nil or an error, says about the
	// system, in place of what the exchanges did. Timeouts, the caller's end and
	// refusals are not for it to judge.
	Classify func(err error) Verdict

	// Total bounds the call in place of TotalTimeout. 0 leaves that; Unbounded lifts it.
	Total time.Duration
}

// Do calls fn guarded by c. See [Execute].
func (call Call[T]) Do(ctx context.Context, c *Client, fn func(context.Context) (T, error)) (T, error) {
	ctx = exchange.Governed(ctx)
	result, callers, err := call.run(ctx, c, fn)
	if err == nil || call.Fallback == nil || callers || !call.fallsBack(ctx, err) {
		return result, err
	}
	result, second := call.Fallback(ctx, err)
	if second != nil {
		return result, exchange.Because(err, fmt.Errorf("fallback: %w", second))
	}
	return result, nil
}

// run reports beside fn's result whether the caller's deadline was too close.
func (call Call[T]) run(ctx context.Context, c *Client, fn func(context.Context) (T, error)) (result T, callers bool, err error) {
	e, err := c.enter(ctx, call.Total)
	if err != nil {
		return result, false, err
	}
	returned := false
	defer func() {
		timeout, _ := errors.AsType[*TimeoutError](err)
		callers, err = e.isCallers(timeout), e.leave(returned, err, call.Classify)
	}()
	result, err = fn(e.ctx)
	returned = true
	return result, false, err
}

func (call Call[T]) fallsBack(ctx context.Context, err error) bool {
	_, invalid := errors.AsType[*exchange.InvalidError](err)
	switch {
	case ctx.Err() != nil, invalid, errors.Is(err, ErrNotFound), errors.Is(err, ErrDuplicate):
		return false
	}
	return errors.Is(err, ErrUnavailable) || call.FallbackIf != nil && call.FallbackIf(err)
}
