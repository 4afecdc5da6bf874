// Package otelresilient tells OpenTelemetry what the clients of package resilient
// do: in spans, from the call to the end of the body, and in metrics.
//
//	tel, err := otelresilient.New(resilient.DefaultRegistry)
//	if err != nil {
//		return err
//	}
//	sber, err := tel.NewClient("sber", resilient.Config{})
//
// What comes of it is a [resilient.Client] like any other. There is nothing to
// wrap, and no way around it: generated clients, [resilient.Client.Wrap] and
// requests within an execution are all told of. The providers are the global ones,
// if no option says otherwise.
//
// # Spans
//
// A call of a client is a span of kind internal, "sber GET", a child of the one in the request's
// context. Each request that is really sent is a span of kind client below it, "GET",
// whose context goes out in the headers. Both end when the body has been read to its
// end, has failed or has been closed, or when a bound or the caller's end cuts
// a body that nobody reads.
//
//	handler                       yours
//	└ sber GET                    external.system=sber, circuit_breaker.state=closed
//	  ├ GET                       http.response.status_code=503, error.type=503
//	  └ GET                       http.response.status_code=200, http.request.resend_count=1
//
// circuit_breaker.state is the state that admitted the call, or refused it. A call
// that was refused has no span below it. Its events:
//
//	resilient.refused      resilient.reason: full, waited, open, closed, paused or late;
//	                       resilient.retry_after in seconds, where it is known
//	resilient.transition   of the breaker, caused by this call: resilient.breaker.from and .to,
//	                       resilient.reason, resilient.breaker.failure_rate
//	resilient.retry        resilient.attempt: its number, from 2
//
// Which call caused a transition is told by the order of things: who had
// just come to its end, or, when probes are let through, waited longest to be admitted.
// Of calls that end in the same microsecond it may be the wrong one.
// One that was forced by hand is nobody's, and only counted.
//
// A span has failed, with error.type, if its status is 400 or above or there was an error:
// the status; timeout, cancelled, panic; name_resolution, connection_refused,
// connection_reset, tls, unexpected_eof; of a call also refused_ and the
// reason; or _OTHER. resilient.timeout.phase is the phase of a
// [resilient.TimeoutError] that the caller was given. url.full has neither the user nor the values of parameters: see [WithURL].
//
// # Metrics
//
// By the semantic conventions, of what is sent:
//
//	http.client.request.duration      to the end of the body
//	http.client.active_requests
//	http.client.open_connections      http.connection.state: active, idle
//	http.client.connection.duration
//
// The last two are of the client's own transport: of one that WithBase or Wrap brings,
// nothing is known. server.address of a connection is the proxy's, if there is
// one. And ours:
//
//	resilient.client.call.duration          refusals included
//	resilient.client.refusals               resilient.reason
//	resilient.client.breaker.transitions    resilient.breaker.from, .to, resilient.reason
//	resilient.client.breaker.state          1 for the circuit_breaker.state that it is in
//	resilient.client.bulkhead.active        permits in use
//	resilient.client.bulkhead.limit
//	resilient.client.bulkhead.waiting
//	resilient.client.bulkhead.rejections    resilient.reason: full, waited
//	resilient.client.requests.active        waiting for a permit included
//	resilient.client.requests.oldest        seconds since the oldest of them began
//	resilient.client.executions.active
//
// From breaker.state on they are read from all clients of the registry when the reader asks, and
// end with [Telemetry.Close]. No name is one of the client's own Prometheus metrics,
// so both can go to one registry. All have external.system. Every attribute is bounded:
// methods and errors are fixed words, statuses end at 599 for error.type,
// and of a system's servers, which its redirects may choose, 16 are told apart.
//
// # With otelhttp
//
// Where otelhttp is in use, take [WithoutHTTP], or each request has two
// spans of kind client and is counted twice. Inside, it sees each attempt:
//
//	tel.NewClient("sber", cfg, resilient.WithInner(func(next http.RoundTripper) http.RoundTripper {
//		return otelhttp.NewTransport(next)
//	}))
//
// Outside, otelhttp.NewTransport(sber) sees calls as a whole, refusals among them,
// and makes the span above ours.
//
// # What it costs
//
// A layer around the client's, another below them, and what the SDK takes. What the
// caller sees does not change: not the request, not resp.Request, not an error, not
// [resilient.NotSent].
package otelresilient
