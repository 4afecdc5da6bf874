package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// A chain of one's own, in the order that works. A Client of the root package has it all.
func ExampleChain() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "paid") }))
	defer bank.Close()
	cfg, err := config.Config{}.Complete()
	if err != nil {
		panic(err)
	}
	base := transport.Base(cfg)
	defer base.CloseIdleConnections()
	breaker := transport.NewBreaker("sber", cfg)
	permits := semaphore.New("sber", semaphore.Limits{MaxConcurrent: cfg.Bulkhead.MaxConcurrent, MaxWaiting: cfg.Bulkhead.MaxWaiting})

	rt := transport.Chain(base, // the first layer is the outermost
		transport.Bulkhead(permits, cfg.Bulkhead.AcquireTimeout, breaker.Peek),
		breaker.Wrap,
		transport.NewTimeouts("sber", cfg).Wrap)

	resp, err := (&http.Client{Transport: rt}).Get(bank.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println("before the body:", permits.State().Active, "permit in use")
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body), "and", permits.State().Active, "in use")
	// Output:
	// before the body: 1 permit in use
	// paid and 0 in use
}

func ExampleBase() {
	cfg, err := config.Config{MaxConnsPerHost: 40}.Complete()
	if err != nil {
		panic(err)
	}
	base := transport.Base(cfg)
	fmt.Println(base.MaxConnsPerHost, base.MaxIdleConnsPerHost, base.IdleConnTimeout)
	// Output: 40 40 50s
}

// The bulkhead alone, around a transport that does something else.
func ExampleBulkhead() {
	permits := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1})
	rt := transport.Chain(fake(func(*http.Request) (*http.Response, error) {
		fmt.Println(permits.State().Active, "permit in use")
		return &http.Response{StatusCode: 204, Body: http.NoBody}, nil
	}), transport.Bulkhead(permits, 100*time.Millisecond, nil))

	req, _ := http.NewRequest("GET", "https://sber.example/", nil)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(permits.State().Active, "permits in use")
	// Output:
	// 1 permit in use
	// 0 permits in use
}

// The breaker alone, for calls that are no HTTP.
func ExampleNewBreaker() {
	cfg, err := config.Config{Breaker: config.Breaker{ConsecutiveFailures: 2}}.Complete()
	if err != nil {
		panic(err)
	}
	breaker := transport.NewBreaker("printer", cfg)
	breaker.OnTransition(func(t transport.Transition) { fmt.Println(t.System, t.From, "→", t.To, "by", t.Reason) })

	for range 3 {
		done, err := breaker.Allow()
		if err != nil {
			fmt.Println("refused:", errors.Is(err, transport.ErrCircuitOpen))
			continue
		}
		done(transport.Failure) // no paper
	}
	// Output:
	// printer closed → open by consecutive_failures
	// refused: true
}

// A Breaker that is forced asks nobody.
func ExampleBreaker() {
	cfg, err := config.Config{}.Complete()
	if err != nil {
		panic(err)
	}
	breaker := transport.NewBreaker("sber", cfg)
	breaker.ForceOpen(0)
	fmt.Println(breaker.Peek())
	breaker.Automatic()
	fmt.Println(breaker.Peek(), breaker.State().State)
	// Output:
	// transport: sber: circuit forced open
	// <nil> closed
}

// Bounds alone, around any base.
func ExampleTimeout() {
	base := fake(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done() // hangs
		return nil, req.Context().Err()
	})
	rt := transport.Chain(base, transport.Timeout("sber", transport.Bounds{Read: 50 * time.Millisecond, Total: time.Minute}))

	req, _ := http.NewRequest("GET", "https://sber.example/", nil)
	_, err := rt.RoundTrip(req)
	fmt.Println(err)
	// Output: transport: sber: read timeout of 50ms: context deadline exceeded
}

// The bounds of a Config, which Reconfigure changes.
func ExampleNewTimeouts() {
	cfg, err := config.Config{}.Complete()
	if err != nil {
		panic(err)
	}
	timeouts := transport.NewTimeouts("sber", cfg)
	cfg, err = config.Config{ConnectTimeout: time.Millisecond, ReadTimeout: 50 * time.Millisecond, TotalTimeout: time.Second}.Complete()
	if err != nil {
		panic(err)
	}
	timeouts.Reconfigure(cfg)

	base := fake(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	})
	req, _ := http.NewRequest("GET", "https://sber.example/", nil)
	_, err = transport.Chain(base, timeouts.Wrap).RoundTrip(req)
	timeout, _ := errors.AsType[*transport.TimeoutError](err)
	fmt.Println(timeout.Phase, timeout.Limit)
	// Output: read 50ms
}

// Over the transport of an SDK: of its connecting nothing is known.
func ExampleNewForeignTimeouts() {
	cfg, err := config.Config{}.Complete()
	if err != nil {
		panic(err)
	}
	sdk := fake(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	})
	req, _ := http.NewRequest("POST", "https://sber.example/", nil)
	_, err = transport.Chain(sdk, transport.NewForeignTimeouts("sber", cfg).Wrap).RoundTrip(req)
	fmt.Println(err, "- not sent:", transport.NotSent(err)) // it may have tried before
	// Output: dial tcp: connection refused - not sent: false
}

// A request that takes longer than others.
func ExampleWithBounds() {
	rt := transport.Chain(fake(func(req *http.Request) (*http.Response, error) {
		deadline, ok := req.Context().Deadline()
		fmt.Println("a deadline:", ok && !deadline.IsZero())
		return &http.Response{StatusCode: 204, Body: http.NoBody}, nil
	}), transport.Timeout("sber", transport.Bounds{Total: time.Second, Read: time.Second}))

	ctx := transport.WithBounds(context.Background(), transport.Bounds{Total: transport.Unbounded, Read: time.Minute})
	for _, ctx := range []context.Context{context.Background(), ctx} {
		req, _ := http.NewRequestWithContext(ctx, "GET", "https://sber.example/report", nil)
		resp, err := rt.RoundTrip(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	// Output:
	// a deadline: true
	// a deadline: false
}

func ExampleNotSent() {
	fmt.Println(transport.NotSent(&transport.OpenError{System: "sber"}))
	fmt.Println(transport.NotSent(&transport.TimeoutError{System: "sber", Phase: transport.PhaseTotal}))
	fmt.Println(transport.NotSent(errors.Join(&transport.OpenError{System: "sber"}, io.ErrUnexpectedEOF)))
	// Output:
	// true
	// false
	// false
}

// A transport that makes its connections itself, with the same bound.
func ExampleDialer() {
	var opened int
	dialer := &transport.Dialer{Timeout: time.Second, Opened: func() { opened++ }}
	base := &http.Transport{DialContext: dialer.DialContext}
	defer base.CloseIdleConnections()
	bank := httptest.NewServer(http.NotFoundHandler())
	defer bank.Close()

	resp, err := (&http.Client{Transport: base}).Get(bank.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(resp.Status, "over", opened, "connection")
	// Output: 404 Not Found over 1 connection
}

// What a Config says of retries, for a chain of one's own.
func ExampleRetryPolicyOf() {
	cfg, err := config.Config{Retry: config.Retry{MaxAttempts: 3}}.Complete()
	if err != nil {
		panic(err)
	}
	p := transport.RetryPolicyOf(cfg)
	fmt.Println(p.MaxAttempts, p.BaseDelay, p.MaxElapsed, p.Statuses.Contains(503))
	fmt.Println(p.BudgetRatio, "of the calls and", p.BudgetFloor, "within", p.BudgetWindow)
	// Output:
	// 3 100ms 5s true
	// 0.1 of the calls and 3 within 10s
}

// What is below a Retry knows which attempt it sees.
func ExampleAttempt() {
	retry := transport.NewRetry("sber", transport.RetryPolicy{MaxAttempts: 2, BaseDelay: time.Millisecond})
	rt := transport.Chain(fake(func(req *http.Request) (*http.Response, error) {
		fmt.Println(transport.Attempt(req.Context()))
		return nil, io.ErrUnexpectedEOF
	}), retry.Wrap)

	req, _ := http.NewRequest("GET", "https://sber.example/", nil)
	_, err := rt.RoundTrip(req)
	fmt.Println(err)
	// Output:
	// 1
	// 2
	// unexpected EOF
}

// A pause is told of, and the second attempt.
func ExampleNewRetry() {
	retry := transport.NewRetry("sber", transport.RetryPolicy{MaxAttempts: 2, BaseDelay: time.Millisecond})
	retry.OnEvent(func(e transport.RetryEvent) { fmt.Println("attempt", e.Attempt, e.Outcome, e.Wait > 0) })
	rt := transport.Chain(fake(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }), retry.Wrap)

	req, _ := http.NewRequest("GET", "https://sber.example/", nil)
	_, err := rt.RoundTrip(req)
	fmt.Println(err)
	// Output:
	// attempt 2 failure true
	// unexpected EOF
}
