// Package drill takes a client library that runs over a resilient.Client through what a partner can do to it: each
// example's test hands it one call, and it checks what the page docs/drop-in.md promises of all of them.
package drill

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A Call makes one call of the library's, whole: it reads or closes what it gets. Its error is the library's.
type Call func(context.Context) error

// A Drill says how a library is set up, and what is peculiar to it.
type Drill struct {
	// Connect makes the library's client over sber, for a server at url.
	Connect func(t *testing.T, sber *resilient.Client, url string) Call

	Server  testserver.Options // its Handler is what answers the call well
	Options []resilient.Option

	// Requests is how many the library makes of one call if that goes well; 0 = 1.
	Requests int
	// Repeats is how often the library asks when the answer is 503, is cut short, or does not come; 0 = once.
	Repeats Repeats
}

// Repeats are numbers of requests.
type Repeats struct{ Status, Cut, Timeout int }

// A Bank is a server and a client of it.
type Bank struct {
	*testserver.Server
	Client *resilient.Client
	t      *testing.T
}

// Open starts a server and makes a client of it, and checks at the end of the test that all was given back.
func Open(t *testing.T, server testserver.Options, cfg resilient.Config, opts ...resilient.Option) *Bank {
	t.Helper()
	s, err := testserver.Start(server)
	if err != nil {
		t.Fatal(err)
	}
	if server.Protocol != testserver.HTTP1 {
		opts = append(opts, resilient.WithTLSConfig(s.TLS()))
	}
	if server.Protocol == testserver.HTTP2 {
		cfg.Protocol = resilient.HTTP2
	}
	opts = append(opts, resilient.WithLogger(slog.New(slog.DiscardHandler)))
	sber, err := resilient.NewRegistry().NewClient("sber", cfg, opts...)
	if err != nil {
		t.Fatal(err)
	}
	b := &Bank{Server: s, Client: sber, t: t}
	t.Cleanup(func() {
		b.Idle()
		sber.Close()
		s.Close()
	})
	return b
}

// Idle checks that nothing that was taken for a call is still out.
func (b *Bank) Idle() {
	b.t.Helper()
	if s := b.Client.State(); s.InFlight != 0 || s.Bulkhead.Active != 0 || s.Bulkhead.Waiting != 0 {
		b.t.Errorf("not given back: %d exchanges, %d permits, %d waiting", s.InFlight, s.Bulkhead.Active, s.Bulkhead.Waiting)
	}
}

// Held checks that n permits are out.
func (b *Bank) Held(n int) {
	b.t.Helper()
	if s := b.Client.State(); s.InFlight != n || s.Bulkhead.Active != n {
		b.t.Errorf("%d exchanges, %d permits out, want %d", s.InFlight, s.Bulkhead.Active, n)
	}
}

// AwaitHanging waits until n requests hang in the server.
func (b *Bank) AwaitHanging(n int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	if err := b.Await(ctx, func(s testserver.Stats) bool { return s.Hanging == n }); err != nil {
		b.t.Errorf("%d requests hang, want %d", b.Stats().Hanging, n)
	}
}

// Asked checks how many requests have reached the server, which on a busy machine may be later than their timeout.
func (b *Bank) Asked(n int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	_ = b.Await(ctx, func(s testserver.Stats) bool { return s.Requests >= n })
	if got := b.Stats().Requests; got != n {
		b.t.Errorf("%d requests reached the server, want %d", got, n)
	}
}

// one makes the bulkhead a single permit, for which nobody waits.
var one = resilient.Config{MaxConnsPerHost: 1, Bulkhead: resilient.BulkheadConfig{MaxConcurrent: 1, AcquireTimeout: resilient.NoWait}}

// Impatient returns a context whose requests time out soon, by a bound of ours.
func Impatient(ctx context.Context) context.Context {
	return resilient.WithBounds(ctx, resilient.Bounds{Read: 200 * time.Millisecond})
}

// Run goes through all that every library has to stand.
func Run(t *testing.T, d Drill) {
	d.Requests = cmp.Or(d.Requests, 1)
	open := func(t *testing.T, cfg resilient.Config) (*Bank, Call) {
		b := Open(t, d.Server, cfg, d.Options...)
		call := d.Connect(t, b.Client, b.URL())
		return b, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // a library that is not over our client would hang for ever
			defer cancel()
			return call(ctx)
		}
	}
	t.Run("works", func(t *testing.T) {
		b, call := open(t, resilient.Config{})
		for i := range 3 {
			if err := call(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.Idle()
			b.Asked((i + 1) * d.Requests)
		}
	})
	t.Run("failure status", func(t *testing.T) {
		b, call := open(t, resilient.Config{})
		b.Default(testserver.Status(http.StatusServiceUnavailable))
		_ = call(t.Context()) // whether it is an error is the library's choice
		b.Idle()
		b.Asked(max(1, d.Repeats.Status))
	})
	t.Run("cut in the body", func(t *testing.T) {
		b, call := open(t, resilient.Config{})
		b.Default(testserver.CutInBody(10, 1000))
		if err := call(t.Context()); err == nil {
			t.Error("no error")
		}
		b.Idle()
		b.Asked(max(1, d.Repeats.Cut))
	})
	t.Run("timeout", func(t *testing.T) {
		b, call := open(t, resilient.Config{})
		if err := call(t.Context()); err != nil { // so that the time is not spent on a connection
			t.Fatal(err)
		}
		b.Default(testserver.HangBeforeHeaders())
		err := call(Impatient(t.Context()))
		var timeout *resilient.TimeoutError
		if !errors.Is(err, resilient.ErrTimeout) || !errors.As(err, &timeout) || timeout.Phase != resilient.PhaseRead {
			t.Errorf("got %#v, %v; want a TimeoutError", err, err)
		}
		answer(t, err, http.StatusGatewayTimeout)
		b.Idle()
		b.Asked(d.Requests + max(1, d.Repeats.Timeout))
	})
	t.Run("cancel", func(t *testing.T) {
		b, call := open(t, resilient.Config{})
		b.Default(testserver.HangBeforeHeaders())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			b.AwaitHanging(1)
			cancel()
		}()
		if err := call(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, resilient.ErrUnavailable) {
			t.Errorf("got %#v, %v; want the caller's cancel", err, err)
		}
		b.Idle()
		b.Asked(1)
	})
	t.Run("open", func(t *testing.T) {
		b, call := open(t, resilient.Config{})
		b.Client.ForceOpen(time.Minute)
		err := call(t.Context())
		refused(t, err, resilient.ErrCircuitOpen)
		var open *resilient.OpenError
		if !errors.As(err, &open) || open.RetryAfter <= 0 {
			t.Errorf("got %#v, %v; want an OpenError that says when", err, err)
		}
		b.Idle()
		b.Asked(0)
	})
	t.Run("full", func(t *testing.T) {
		b, call := open(t, one)
		b.Default(testserver.HangBeforeHeaders())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var first sync.WaitGroup
		first.Go(func() { _ = call(ctx) })
		b.AwaitHanging(1)
		refused(t, call(t.Context()), resilient.ErrBulkheadFull)
		cancel()
		first.Wait()
		b.Idle()
		b.Asked(1)
		if n := b.Client.State().Bulkhead.Rejected; n != 1 {
			t.Errorf("refused %d times, want once: something repeats what we refuse", n)
		}
	})
	t.Run("closed", func(t *testing.T) {
		b, call := open(t, resilient.Config{})
		b.Client.Close()
		refused(t, call(t.Context()), resilient.ErrClosed)
		b.Asked(0)
	})
}

func refused(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, resilient.ErrUnavailable) || !errors.Is(err, kind) {
		t.Errorf("got %#v, %v; want %v", err, err, kind)
	}
	if !resilient.NotSent(err) {
		t.Errorf("%v: NotSent is false", err)
	}
	answer(t, err, http.StatusServiceUnavailable)
}

// Touchy opens the breaker at the first failure.
var Touchy = resilient.Config{Breaker: resilient.BreakerConfig{MinRequests: 1, ConsecutiveFailures: 1}}

// CallersDeadline checks that err is the end of a call by a deadline of the caller's, and that a Touchy breaker has not
// taken it for a failure of the system. The error may have none of ours in it: a Client.Timeout's, or the context's own.
func (b *Bank) CallersDeadline(err error) {
	b.t.Helper()
	var timeout *resilient.TimeoutError
	switch {
	case errors.As(err, &timeout):
		if timeout.Phase != resilient.PhaseDeadline {
			b.t.Errorf("got %v; want the phase deadline", err)
		}
	case !errors.Is(err, context.DeadlineExceeded):
		b.t.Errorf("got %#v, %v; want the end by a deadline", err, err)
	}
	if s := b.Client.State().Breaker.State; s != "closed" {
		b.t.Errorf("the breaker is %s", s)
	}
}

func answer(t *testing.T, err error, code int) {
	t.Helper()
	if got, _, _ := resilient.StatusCode(err); got != code {
		t.Errorf("%v: StatusCode %d, want %d", err, got, code)
	}
}
