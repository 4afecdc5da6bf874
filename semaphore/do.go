package semaphore

import (
	"context"
	"time"
)

// Do calls fn with a permit of b, for which it waits at most wait; 0 or less: not at all. Without a permit fn is not called, and
// the error is Acquire's; see [Outcome].
//
// Fn is called in the caller's goroutine, with the caller's ctx as it is: b bounds how many are inside, not how long.
// The permit is given back when fn returns, panics or ends its goroutine, which go on as they would without Do.
// Do panics if b or fn is nil.
func Do[T any](ctx context.Context, b Bulkhead, wait time.Duration, fn func(context.Context) (T, error)) (T, error) {
	demand("Do", b, fn != nil)
	permit, err := b.Acquire(ctx, wait)
	if err != nil {
		var none T
		return none, err
	}
	defer permit.Release()
	return fn(ctx)
}

// Guard returns fn behind b: a function that is called as fn is, and does what [Do] does. It panics if b or fn is nil.
func Guard[A, R any](b Bulkhead, wait time.Duration, fn func(context.Context, A) (R, error)) func(context.Context, A) (R, error) {
	demand("Guard", b, fn != nil)
	return func(ctx context.Context, a A) (R, error) {
		return Do(ctx, b, wait, func(ctx context.Context) (R, error) { return fn(ctx, a) })
	}
}

// demand panics in time, and not with a nil dereference in the middle. A nil *Semaphore is what is left of an error not looked at.
func demand(who string, b Bulkhead, fn bool) {
	if s, ok := b.(*Semaphore); b == nil || ok && s == nil {
		panic("semaphore: " + who + ": no bulkhead, but nil")
	}
	if !fn {
		panic("semaphore: " + who + ": no func, but nil")
	}
}
