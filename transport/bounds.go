package transport

import (
	"context"
	"time"

	"github.com/resilient-go/resilient/internal/exchange"
)

// Unbounded, in Bounds, lifts a bound.
const Unbounded = -1

// Bounds limits how long an exchange may take, and how much its body may be. In a
// [Timeout] layer, 0 or less means not bounded here. In [WithBounds], 0 leaves the
// layer's bound as it is and Unbounded lifts it.
type Bounds struct {
	Total    time.Duration // from admission to the end of the body
	Read     time.Duration // the longest silence of the system
	MaxBytes int64         // of the response's body, as the caller reads it: see [TooLargeError]
}

type boundsKey struct{}

// WithBounds gives the requests made with the context it returns other bounds
// than their client's, up or down. The connect bounds stay. Of nested calls the
// innermost counts, whole. A request whose total is lifted is a stream: it
// holds its permit to its end, the breaker judges it by its headers, and its body
// may have any size, unless MaxBytes says otherwise. Give
// streams a client of their own, so that they do not use up the permits of short calls.
//
// It is for callers that know their context. See WithStreams of the root
// package for an SDK that offers none.
func WithBounds(ctx context.Context, b Bounds) context.Context {
	return context.WithValue(ctx, boundsKey{}, b)
}

// boundsOf returns what the request asks for.
func boundsOf(x *exchange.Exchange) Bounds {
	if x.Stream {
		return Bounds{Total: Unbounded, Read: Unbounded}
	}
	b, _ := x.Caller().Value(boundsKey{}).(Bounds)
	return b
}

func pick[T time.Duration | int64](own, asked T) T {
	if asked != 0 {
		return asked
	}
	return own
}
