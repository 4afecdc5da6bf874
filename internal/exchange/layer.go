// Package exchange runs one HTTP exchange through the layers around it and
// ends it exactly once.
//
// An exchange lasts from the call of RoundTrip to the end of the response
// body. Whatever a layer takes for it in Begin it gives back in End, and End
// runs once, whatever fails, races or panics. When an exchange ends:
//
//  1. RoundTrip returned an error, panicked or called [runtime.Goexit];
//  2. the response can have no body;
//  3. a Read of the body returned an error, [io.EOF] included, panicked or
//     called Goexit;
//  4. the body was closed;
//  5. something interrupted it (the caller's context, a bound, the client's
//     end) while neither RoundTrip nor a Read was running. While one of them
//     is running, its return ends the exchange, so that nothing is given
//     back while work goes on.
//
// Layers put directly around one another share one Exchange: they fuse when
// they are wrapped, so no request has to look for its exchange, and none can
// join one that is not its own. A foreign RoundTripper in between merely makes
// the layers below it begin a second exchange.
package exchange

import (
	"net/http"
	"time"
)

// A Layer is what one concern does at the two ends of every exchange.
// Its functions are called concurrently for different exchanges.
type Layer struct {
	// Begin takes something for x and notes it in h, or refuses x with an error.
	Begin func(x *Exchange, h *Hold) error

	// Base, if not nil, returns what x is sent through, in place of the chain's base.
	// It is called once, when all layers have begun.
	Base func(x *Exchange, h *Hold) http.RoundTripper

	// Answered, if not nil, looks at the response before the caller has it.
	Answered func(x *Exchange, h *Hold, resp *http.Response)

	// Failed, if not nil, returns what the caller should see of an error of the
	// base; raw says that no layer further inside has looked at it.
	Failed func(x *Exchange, err error, raw bool) error

	// End gives back what Begin took, given how x ended. Inner layers end before
	// outer ones. A panic in it reaches the caller whose act ended x, if there is one.
	End func(x *Exchange, h *Hold, how Outcome)

	// Waiting, if not nil, is told when an exchange starts to wait for the
	// system, in RoundTrip or in a Read, and when it stops, which may be after
	// End, and whether anything was heard in between; at is when, counted from x's Start.
	Waiting func(x *Exchange, h *Hold, at time.Duration, start, heard bool)

	// Limit, if not nil, returns what bounds the response's body, or nil. It is called when that is known to have one.
	Limit func(h *Hold) *Limit

	// Client, if not nil, is whose executions the exchanges are part of: see [Scope].
	Client any

	// Always makes the layer see requests that are refused before any other
	// layer: invalid ones, and those whose caller has gone.
	Always bool

	// Interrupts gives exchanges a context of their own, which Interrupt can end.
	Interrupts bool

	// Uploads has request bodies watched: see [Exchange.Silence] and BadBody of [Outcome].
	Uploads bool

	// Streams defers End to the end of an upgraded (101) connection; otherwise
	// it runs after the handshake.
	Streams bool
}

// A Hold is what a layer holds for one exchange. Both fields are the layer's.
type Hold struct {
	Token any // a pointer or a func: anything else would be allocated
	Note  int

	begun bool // and not given back
}

// maxLayers is how many layers share an exchange; more than that begin another.
const maxLayers = 4

// Wrap puts l around next.
func (l *Layer) Wrap(next http.RoundTripper) http.RoundTripper {
	c := &chain{layers: []*Layer{l}, base: next}
	if inner, ok := next.(*chain); ok && len(inner.layers) < maxLayers {
		c.layers, c.base = append(c.layers, inner.layers...), inner.base
	}
	_, c.std = c.base.(*http.Transport)
	for _, l := range c.layers {
		c.uploads = c.uploads || l.Uploads
		c.std = c.std || l.Base != nil
	}
	return c
}

type chain struct {
	layers  []*Layer // outermost first
	base    http.RoundTripper
	uploads bool // some layer has that
	std     bool // the base is net/http's, or one that a layer has in its place
}

// CloseIdleConnections lets [http.Client.CloseIdleConnections] reach the base.
func (c *chain) CloseIdleConnections() {
	if ci, ok := c.base.(interface{ CloseIdleConnections() }); ok {
		ci.CloseIdleConnections()
	}
}
