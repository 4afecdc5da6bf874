package transport

import (
	"context"
	"time"

	"github.com/resilient-go/resilient/internal/exchange"
)

// Unbounded, in Bounds, lifts a bound.
const Unbounded time.Duration = -1

// Bounds limits how long an exchange may take. In a [Timeout] layer, 0 or less
// means not bounded here. In [WithBounds], 0 leaves the layer's bound as it is
// and Unbounded lifts it.
type Bounds struct {
	Total time.Duration // from admission to the end of the body
	Read  time.Duration // the longest silence of the system
}

type boundsKey struct{}

// WithBounds gives the requests made with the context it returns other bounds
// than their client's, up or down. The connect bounds stay. Of nested calls the
// innermost counts, whole. A request whose total is lifted is a stream: it
// holds its permit to its end, and the breaker judges it by its headers. Give
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

func pick(own, asked time.Duration) time.Duration {
	if asked != 0 {
		return asked
	}
	return own
}
