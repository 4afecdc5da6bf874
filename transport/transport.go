// Package transport provides the layers of a resilient client, each usable
// alone: [Bulkhead], [Breaker], [Timeouts], the [Base] below them, and [Retry],
// which goes around them.
//
//	base := transport.Base(cfg)
//	sem := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 16, MaxWaiting: 160})
//	breaker := transport.NewBreaker("sber", cfg)
//	rt := transport.Chain(base,
//		transport.Bulkhead(sem, 100*time.Millisecond, breaker.Peek),
//		breaker.Wrap,
//		transport.NewTimeouts("sber", cfg).Wrap)
//
// That order is the one that works: a refusal for want of a permit must not
// look like the system's failure, so the bulkhead is outside the breaker; our
// own timeout is its failure, so the breaker is outside the timeouts, and the
// total starts once the request is admitted.
//
// What a layer takes for a request it gives back when the exchange ends, which
// is when the response body has been read to its end, has failed or has been
// closed, not when RoundTrip returns. The caller must close the body, as with
// any client; if it forgets, the total bound ends the exchange.
//
// The layers take any values, so that a special case can build its own chain;
// what is sensible is package config's to judge. A config.Config given to this
// package must be complete: see [config.Config.Complete].
package transport

import (
	"net/http"
	"slices"
)

// A Layer wraps a RoundTripper.
type Layer = func(next http.RoundTripper) http.RoundTripper

// Chain wraps base in layers. The first layer is the outermost: it sees the
// request first. Layers of this package that end up directly around one another
// share what they allocate; anything may stand between them.
func Chain(base http.RoundTripper, layers ...Layer) http.RoundTripper {
	for _, layer := range slices.Backward(layers) {
		base = layer(base)
	}
	return base
}
