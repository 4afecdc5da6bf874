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
	transition []func(Transition)
	outer      []transport.Layer
	inner      []transport.Layer
	observe    bool
	probe      func(context.Context) error
	probeURL   string

	own    []string // options given that are about the client's own transport
	faults []error
}

// WithBase sets the transport below the layers, in place of the client's own
// one. What Config says of connections and their making is then its affair. It
// must be the client's alone: http.DefaultTransport is refused, and so is one
// that another client uses.
func WithBase(rt http.RoundTripper) Option {
	return option("WithBase", rt == nil, func(o *options) { o.base = rt })
}

// WithTLSConfig sets the TLS settings of the client's own transport: root
// certificates, a client certificate. It is copied. A MinVersion below TLS 1.2 is refused.
func WithTLSConfig(c *tls.Config) Option {
	return option("WithTLSConfig", c == nil, func(o *options) { o.tls, o.own = c.Clone(), append(o.own, "WithTLSConfig") })
}

// WithProxy sets the proxy of the client's own transport, in place of the
// environment's (HTTP_PROXY, HTTPS_PROXY, NO_PROXY, which never apply to
// localhost). To use none, let the func return nil, nil.
func WithProxy(f func(*http.Request) (*url.URL, error)) Option {
	return option("WithProxy", f == nil, func(o *options) { o.proxy, o.own = f, append(o.own, "WithProxy") })
}

// WithDialContext sets what makes the connections of the client's own
// transport. ConnectTimeout bounds it through its context.
func WithDialContext(f func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return option("WithDialContext", f == nil, func(o *options) { o.dial, o.own = f, append(o.own, "WithDialContext") })
}

// WithLogger sets where transitions of the breaker are logged; the default is [slog.Default].
func WithLogger(l *slog.Logger) Option {
	return option("WithLogger", l == nil, func(o *options) { o.logger = l })
}

// WithClassifier sets what judges the system's answers for the breaker, in
// place of Breaker.FailureStatus. It is called with a response when its headers
// have come, whose body it must leave alone, or with an error of the transport
// or of the body. Timeouts, callers' ends and refusals are not for it to judge.
func WithClassifier(f func(*http.Response, error) Verdict) Option {
	return option("WithClassifier", f == nil, func(o *options) { o.classify = f })
}

// WithStreams lifts the total, the read bound and MaxResponseBytes of the requests for
// which f is true, as [WithBounds] does, for an SDK that offers no context: watches,
// server-sent events, long transfers. Such a request holds its permit to its end.
func WithStreams(f func(*http.Request) bool) Option {
	return option("WithStreams", f == nil, func(o *options) { o.streams = f })
}

// OnStateChange adds a func that is called after each transition of the
// breaker, in order and outside of every lock. A panic in it is dropped. It
// delays the caller whose exchange made the transition. Given several times, each
// func is called, in the order given.
func OnStateChange(f func(Transition)) Option {
	return option("OnStateChange", f == nil, func(o *options) { o.transition = append(o.transition, f) })
}

// WithOuter adds a layer of yours around all of the client's: for tracing, or what
// has to see refusals. It sees a call once, however many attempts that takes,
// and also those that go through [Client.Wrap]. Given several times, the first
// is the outermost.
//
// It must keep what [http.RoundTripper] asks, and hand errors on, as they are or
// wrapped.
func WithOuter(l transport.Layer) Option {
	return option("WithOuter", l == nil, func(o *options) { o.outer = append(o.outer, l) })
}

// WithInner adds a layer of yours between the client's and the transport below
// them: for tracing, signing, or a header of each attempt. It sees what
// is really sent, each attempt of a retry as a request of its own, and not what
// is refused. Given several times, the first is the outermost.
//
// It is put around every transport that the client uses: its own, the one of
// WithBase, and those of [Client.Wrap]. Its own ones (Reconfigure may
// make another) it is given as the [*http.Transport] that each is, before the first use, and may
// change how that one dials. All others it is given as something that can
// only be called.
//
// It must send each request at most once, and hand errors on, as they are or
// wrapped: [NotSent] believes them. What sends a request again belongs
// around the client, or into a transport of WithBase, of which nothing is believed.
func WithInner(l transport.Layer) Option {
	return option("WithInner", l == nil, func(o *options) { o.inner = append(o.inner, l) })
}

// An inside is a transport with the layers of WithInner around it. Those need not know how to close connections.
type inside struct {
	http.RoundTripper
	base http.RoundTripper
}

// CloseIdleConnections lets [http.Client.CloseIdleConnections] reach the base.
func (i *inside) CloseIdleConnections() {
	(&http.Client{Transport: i.base}).CloseIdleConnections()
}

// wrap puts the layers of WithInner around a transport that is not the client's own.
func (o *options) wrap(base http.RoundTripper) http.RoundTripper {
	if len(o.inner) == 0 {
		return base
	}
	return &inside{transport.Chain(&inside{base, base}, o.inner...), base}
}

func option(name string, isNil bool, set func(*options)) Option {
	return func(o *options) {
		if isNil {
			o.faults = append(o.faults, fmt.Errorf("resilient: %s: nil; give it a value, or leave it out for the default", name))
			return
		}
		set(o)
	}
}

// collect applies opts and returns every fault in them.
func collect(opts []Option) (*options, error) {
	o := new(options)
	for _, opt := range opts {
		if opt == nil {
			opt = option("Option", true, nil)
		}
		opt(o)
	}
	if v := o.tls; v != nil && v.MinVersion != 0 && v.MinVersion < tls.VersionTLS12 {
		o.faults = append(o.faults, fmt.Errorf("resilient: WithTLSConfig: MinVersion %s: at least TLS 1.2 is needed; leave it 0", tls.VersionName(v.MinVersion)))
	} else if v != nil {
		v.MinVersion = max(v.MinVersion, tls.VersionTLS12) // what net/http takes a 0 for
	}
	if o.base != nil && o.own != nil {
		o.faults = append(o.faults, fmt.Errorf("resilient: %v: no effect over the transport of WithBase; set it there", o.own))
	}
	return o, errors.Join(append(o.faults, checkBase("WithBase", o.base))...)
}

// checkBase refuses what can't be one system's own transport.
func checkBase(where string, base http.RoundTripper) error {
	if _, ok := base.(*Client); ok {
		return fmt.Errorf("resilient: %s: a Client: its requests would need two permits; give it a transport", where)
	}
	if base != nil && hashable(base) && base == http.DefaultTransport {
		return fmt.Errorf("resilient: %s: http.DefaultTransport is everybody's; give the client one of its own", where)
	}
	return nil
}

// hashable reports whether v can be a map's key without a panic, and is like no
// other: all pointers to values of size 0 may be the same.
func hashable(v any) bool {
	t := reflect.TypeOf(v)
	return t.Kind() == reflect.Pointer && t.Elem().Size() > 0
}
