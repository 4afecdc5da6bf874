// Package resilient makes HTTP clients for the external systems that a service
// calls (a bank, a fiscal printer, an insurer), one isolated client for each,
// which can't take the service down with it when its system hangs.
//
//	sber, err := resilient.NewClient("sber", resilient.Config{})
//	if err != nil {
//		return err
//	}
//	defer sber.Close()
//	api, err := bank.NewClientWithResponses(url, bank.WithHTTPClient(sber))
//
// A [Client] is what generated OpenAPI clients and SDKs take: it has Do, it is
// an [http.RoundTripper], and [Client.HTTPClient] returns an *http.Client.
//
// Make one client for each system when the service starts, keep it, and close it at
// the end. It is safe for concurrent use, and runs no goroutine while it is idle.
//
// # What a request goes through
//
//	retry       off unless Retry.MaxAttempts says so; each attempt goes through all below
//	bulkhead    at most MaxConcurrent exchanges; waits for a permit at most AcquireTimeout
//	breaker     refuses at once while the system is known to fail
//	timeouts    connect < read < total, to the end of the body
//	transport   a connection pool of the system's own
//
// A permit is held until the response body has been read to its end, has
// failed or has been closed: close bodies, as with any client. Redirects are
// followed as http.Client does; each hop is an exchange of its own.
//
// # Errors
//
// What failed is found with errors.Is and errors.As, also through *url.Error:
//
//	ErrUnavailable       the system was not called: it has no room, or is known to fail
//	  ErrBulkheadFull    *FullError: no permit in time
//	  ErrCircuitOpen     *OpenError: the breaker is open
//	  ErrClosed          *ClosedError: the client is closed
//	                     *PausedError, *LateError: by choice, see RetryConfig
//	ErrTimeout           *TimeoutError: it took too long; also context.DeadlineExceeded
//	ErrTooLarge          *TooLargeError: the body is above MaxResponseBytes, if that is set
//	context.Canceled     the caller gave up; with its cause, if it gave one
//
// Others are the transport's, as they are. A response with a failure status is
// no error. [StatusCode] maps an error to what a handler should answer, and
// [NotSent] tells whether the request may safely be sent elsewhere.
//
// # More than a request
//
// [Execute] guards a func: one permit, one verdict and one total for a method that
// makes several requests, or for what is no HTTP. [Call] adds a fallback.
// [WithBounds] and [WithStreams] are for what takes longer than a call: events,
// downloads, uploads.
//
// # Configuration
//
// The zero [Config] is every default; what breaks a rule is an error of NewClient,
// every fault at once. [FromEnv] and [Load] read the environment and a file;
// [Client.Reconfigure] and [Registry.Watch] change clients that run. What is no data
// is an [Option].
//
// # To watch and to operate
//
// Metrics are registered with Prometheus's default registerer: see
// [Registry.Collector]. [Registry.Handler] is a page for people,
// [Registry.Readiness] for a platform. Each change of a breaker's state is one WARN
// in the log. [Client.ForceOpen] takes a system out by hand; the option [Observe]
// shows what would be refused, and refuses nothing.
//
// # One name
//
// The name given to NewClient is the bulkhead's, the breaker's, that of the
// metrics' label and of the environment's prefix. A second compartment of one
// partner, so that /reports can't eat /pay, is a client of its own: "sber-reports".
package resilient

import (
	"context"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/transport"
)

// Config is the settings of a client. The zero value is every default. It is an alias of [config.Config].
type Config = config.Config

// The sections of a Config. They are aliases of those of package config.
type (
	// BulkheadConfig bounds the exchanges at one time, and the queue for them: [config.Bulkhead].
	BulkheadConfig = config.Bulkhead
	// BreakerConfig says when a failing system is left alone: [config.Breaker].
	BreakerConfig = config.Breaker
	// RetryConfig says what is repeated when it failed: [config.Retry].
	RetryConfig = config.Retry
)

// FromEnv reads the settings of a system from the environment, CLIENT_SBER__READ_TIMEOUT
// and so on for "sber": zero fields where it says nothing. See [config.FromEnv].
func FromEnv(system string) (Config, error) { return config.FromEnv(system) }

// Load reads the settings of all systems from a YAML file, and the environment over
// it: complete ones, by the system's name. See [config.Load].
func Load(path string) (map[string]Config, error) { return config.Load(path) }

// Special values of fields whose zero means "the default", as package config has them.
const (
	NoWait  = config.NoWait  // Bulkhead.AcquireTimeout: refuse at once
	NoQueue = config.NoQueue // Bulkhead.MaxWaiting: nobody waits
	Off     = config.Off     // Breaker.ConsecutiveFailures: the ratio alone opens it
)

// Bounds are other bounds for one request: 0 leaves one as it is, [Unbounded] lifts it.
// It is an alias of [transport.Bounds].
type Bounds = transport.Bounds

// Unbounded, in Bounds, lifts a bound.
const Unbounded = transport.Unbounded

// WithBounds gives the requests made with the context it returns other bounds than
// their client's: more time for a report, or no total at all for a stream, which then
// holds its permit to its end. See [transport.WithBounds].
func WithBounds(ctx context.Context, b Bounds) context.Context { return transport.WithBounds(ctx, b) }

// Attempt returns the number of the attempt that a request with context ctx is, 1 for
// the first. It is for what is below a client that repeats: a base that sets a header,
// httptrace, a log line. See [transport.Attempt].
func Attempt(ctx context.Context) int { return transport.Attempt(ctx) }

// A Verdict is what an exchange says about its system, for the breaker. It is an alias of [transport.Verdict].
type Verdict = transport.Verdict

// The phases of a TimeoutError, and the protocols of Config.
const (
	PhaseConnect  = transport.PhaseConnect
	PhaseTLS      = transport.PhaseTLS
	PhaseRead     = transport.PhaseRead
	PhaseTotal    = transport.PhaseTotal
	PhaseDeadline = transport.PhaseDeadline
	HTTP1         = config.HTTP1
	HTTP2         = config.HTTP2
)

// The verdicts.
const (
	Success = transport.Success
	Failure = transport.Failure
	Neutral = transport.Neutral
)

// A Transition is a change of a breaker's state. It is an alias of [transport.Transition].
type Transition = transport.Transition
