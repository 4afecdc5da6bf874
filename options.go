package resilient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"reflect"

	"github.com/resilient-go/resilient/transport"
)

// An Option is a collaborator of a client: what is no data, and so has no place in Config.
type Option func(*options)

type options struct {
	base       http.RoundTripper
	tls        *tls.Config
	proxy      func(*http.Request) (*url.URL, error)
	dial       func(ctx context.Context, network, addr string) (net.Conn, error)
	logger     *slog.Logger
	classify   transport.Classifier
	streams    func(*http.Request) bool
	transition func(Transition)

	own    []string // options that are about the client's own transport
	faults []error
}

// need notes that an option was given a nil.
func (o *options) need(option string, isNil bool) {
	if isNil {
		o.faults = append(o.faults, fmt.Errorf("resilient: %s: nil; leave the option out for the default", option))
	}
}

// WithBase sets the transport below the layers, in place of the client's own
// one. What Config says of connections and their making is then its affair. It
// must be the client's alone: http.DefaultTransport is refused, and so is one
// that another client uses.
func WithBase(rt http.RoundTripper) Option {
	return func(o *options) {
		o.base = rt
		o.need("WithBase", rt == nil)
	}
}

// WithTLSConfig sets the TLS settings of the client's own transport: root
// certificates, a client certificate. It is copied. A MinVersion below TLS 1.2 is refused.
func WithTLSConfig(c *tls.Config) Option {
	return func(o *options) {
		o.own = append(o.own, "WithTLSConfig")
		o.need("WithTLSConfig", c == nil)
		if c == nil {
			return
		}
		o.tls = c.Clone()
		switch o.tls.MinVersion {
		case 0:
			o.tls.MinVersion = tls.VersionTLS12 // as net/http has it
		case tls.VersionTLS10, tls.VersionTLS11:
			o.faults = append(o.faults, fmt.Errorf("resilient: WithTLSConfig: MinVersion %s; at least TLS 1.2 is needed, leave it 0",
				tls.VersionName(o.tls.MinVersion)))
		}
	}
}

// WithProxy sets the proxy of the client's own transport, in place of the
// environment's (HTTP_PROXY, HTTPS_PROXY, NO_PROXY, which never apply to
// localhost). To use none, let the func return nil, nil.
func WithProxy(f func(*http.Request) (*url.URL, error)) Option {
	return func(o *options) {
		o.proxy, o.own = f, append(o.own, "WithProxy")
		o.need("WithProxy", f == nil)
	}
}

// WithDialContext sets what makes the connections of the client's own
// transport. ConnectTimeout bounds it through its context.
func WithDialContext(f func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(o *options) {
		o.dial, o.own = f, append(o.own, "WithDialContext")
		o.need("WithDialContext", f == nil)
	}
}

// WithLogger sets where transitions of the breaker are logged; the default is [slog.Default].
func WithLogger(l *slog.Logger) Option {
	return func(o *options) {
		o.logger = l
		o.need("WithLogger", l == nil)
	}
}

// WithClassifier sets what judges the system's answers for the breaker, in
// place of Breaker.FailureStatus. It is called with a response when its headers
// have come, whose body it must leave alone, or with an error of the transport
// or of the body. Timeouts, callers' ends and refusals are not for it to judge.
func WithClassifier(f func(*http.Response, error) Verdict) Option {
	return func(o *options) {
		o.classify = f
		o.need("WithClassifier", f == nil)
	}
}

// WithStreams lifts the total and the read bound of the requests for which f is
// true, as [WithBounds] does, for an SDK that offers no context: watches,
// server-sent events, long transfers. Such a request holds its permit to its end.
func WithStreams(f func(*http.Request) bool) Option {
	return func(o *options) {
		o.streams = f
		o.need("WithStreams", f == nil)
	}
}

// OnStateChange sets a func that is called after each transition of the
// breaker, in order and outside of every lock. A panic in it is dropped. It
// delays the caller whose exchange made the transition.
func OnStateChange(f func(Transition)) Option {
	return func(o *options) {
		o.transition = f
		o.need("OnStateChange", f == nil)
	}
}

// collect applies opts and returns every fault in them.
func collect(opts []Option) (*options, error) {
	o := new(options)
	for _, opt := range opts {
		if opt == nil {
			o.need("Option", true)
			continue
		}
		opt(o)
	}
	if o.base != nil {
		for _, name := range o.own {
			o.faults = append(o.faults, fmt.Errorf("resilient: %s: has no effect over a base of WithBase; set it there", name))
		}
	}
	return o, errors.Join(append(o.faults, checkBase("WithBase", o.base))...)
}

// checkBase refuses what can't be one system's own transport.
func checkBase(where string, base http.RoundTripper) error {
	if base == nil {
		return nil
	}
	if _, ok := base.(*Client); ok {
		return fmt.Errorf("resilient: %s: the base is a Client: a request would need two permits; give it a transport", where)
	}
	if hashable(base) && hashable(http.DefaultTransport) && base == http.DefaultTransport {
		return fmt.Errorf("resilient: %s: http.DefaultTransport is everybody's; give the client one of its own", where)
	}
	return nil
}

// hashable reports whether v can be compared and be a map key without a panic.
func hashable(v any) bool { return reflect.ValueOf(v).Comparable() }
