package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/resilient-go/resilient"
)

// A login and a payment are one call of the bank: one permit, one verdict, one total.
func ExampleExecute() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }))
	defer bank.Close()
	sber, err := resilient.NewClient("sber", resilient.Config{})
	if err != nil {
		panic(err)
	}
	defer sber.Close()
	ask := func(ctx context.Context, path string) (string, error) {
		req, err := http.NewRequestWithContext(ctx, "POST", bank.URL+path, nil)
		if err != nil {
			return "", err
		}
		resp, err := sber.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}

	answer, err := resilient.Execute(context.Background(), sber, func(ctx context.Context) (string, error) {
		token, err := ask(ctx, "/login")
		if err != nil {
			return "", err
		}
		fmt.Println(token, "and", sber.State().Bulkhead.Active, "permit in use")
		return ask(ctx, "/pay")
	})
	fmt.Println(answer, err)
	// Output:
	// /login and 1 permit in use
	// /pay <nil>
}

// A rate that the bank can't tell now is yesterday's, and says so.
func ExampleCall() {
	type Rate struct {
		Roubles float64
		Age     time.Duration
	}
	sber, err := resilient.NewClient("sber", resilient.Config{}, resilient.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	defer sber.Close()
	sber.ForceOpen(time.Hour) // the bank is being repaired

	rate, err := resilient.Call[Rate]{
		Fallback: func(_ context.Context, err error) (Rate, error) {
			fmt.Println("not called:", errors.Is(err, resilient.ErrUnavailable))
			return Rate{Roubles: 91.5, Age: 24 * time.Hour}, nil
		},
	}.Do(context.Background(), sber, func(context.Context) (Rate, error) {
		return Rate{Roubles: 92}, nil // would ask the bank
	})
	fmt.Println(rate.Roubles, rate.Age, err)
	// Output:
	// not called: true
	// 91.5 24h0m0s <nil>
}

// For an SDK that wants an *http.Client.
func ExampleClient_HTTPClient() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "92.00") }))
	defer bank.Close()
	sber, err := resilient.NewClient("sber", resilient.Config{})
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	var sdk struct{ HTTPClient *http.Client }
	sdk.HTTPClient = sber.HTTPClient()

	resp, err := sdk.HTTPClient.Get(bank.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output: 92.00
}

// For an SDK whose transport signs the requests.
func ExampleClient_Wrap() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("Authorization"))
	}))
	defer bank.Close()
	sber, err := resilient.NewClient("sber", resilient.Config{})
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	rt, err := sber.Wrap(signed{next: &http.Transport{}}) // a transport of the SDK's own
	if err != nil {
		panic(err)
	}
	resp, err := (&http.Client{Transport: rt}).Get(bank.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output: Bearer of good news
}

type signed struct{ next http.RoundTripper }

func (s signed) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer of good news")
	return s.next.RoundTrip(req)
}

// A partner announces its maintenance: nobody waits for it.
func ExampleClient_ForceOpen() {
	sber, err := resilient.NewClient("sber", resilient.Config{}, resilient.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	sber.ForceOpen(time.Hour)
	req, _ := http.NewRequest("GET", "https://sber.example/", nil)
	_, err = sber.Do(req)
	fmt.Println(errors.Is(err, resilient.ErrCircuitOpen), sber.State().Breaker.State)
	sber.Automatic()
	fmt.Println(sber.State().Breaker.State)
	// Output:
	// true forced_open
	// closed
}

// A zero field is its default again, not what it was.
func ExampleClient_Reconfigure() {
	sber, err := resilient.NewClient("sber", resilient.Config{MaxConnsPerHost: 40, ReadTimeout: 3 * time.Second},
		resilient.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	err = sber.Reconfigure(resilient.Config{MaxConnsPerHost: 50})
	cfg := sber.State().Config
	fmt.Println(err, cfg.MaxConnsPerHost, cfg.Bulkhead.MaxConcurrent, cfg.ReadTimeout)
	// Output: <nil> 50 40 5s
}

// The end of a service: nobody new is admitted, and those inside may finish.
func ExampleClient_Shutdown() {
	sber, err := resilient.NewClient("sber", resilient.Config{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(sber.Shutdown(ctx))

	req, _ := http.NewRequest("GET", "https://sber.example/", nil)
	_, err = sber.Do(req)
	fmt.Println(errors.Is(err, resilient.ErrClosed))
	// Output:
	// <nil>
	// true
}

// The body is closed by nobody, and so the permit does not come back: not before
// the total, 7 s, at which the exchange is ended for its caller. 16 such calls
// within 7 s, and the client refuses all others.
func ExampleClient_Do_wrongBodyNotClosed() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "paid") }))
	defer bank.Close()
	sber, err := resilient.NewClient("sber", resilient.Config{
		MaxConnsPerHost: 1, // one permit, to be short
		Bulkhead:        resilient.BulkheadConfig{AcquireTimeout: resilient.NoWait},
	})
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	pay := func() (*http.Response, error) {
		req, err := http.NewRequest("POST", bank.URL, nil)
		if err != nil {
			return nil, err
		}
		return sber.Do(req)
	}
	forgotten, err := pay()
	fmt.Println(forgotten.Status, err)

	_, err = pay()
	full, _ := errors.AsType[*resilient.FullError](err)
	fmt.Println(full)

	forgotten.Body.Close() // as should have been deferred at once
	resp, err := pay()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, err)
	// Output:
	// 200 OK <nil>
	// sber: bulkhead full (1 of 1 in use, 0 waiting)
	// 200 OK <nil>
}

// An http.Client.Timeout is a deadline of the caller's: what it ends is counted as
// cancelled, and says nothing about the system, so that the breaker may stay closed
// while all calls fail. It goes on while the body is read, takes the Write off an
// upgraded connection, and is one for all. Leave it 0, and set TotalTimeout.
func ExampleClient_HTTPClient_wrongTimeout() {
	done := make(chan struct{})
	bank := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done })) // hangs
	defer bank.Close()
	defer close(done)
	sber, err := resilient.NewClient("sber", resilient.Config{})
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	client := sber.HTTPClient()
	client.Timeout = 100 * time.Millisecond // wrong
	_, err = client.Get(bank.URL)
	timeout, _ := errors.AsType[*resilient.TimeoutError](err)
	fmt.Println("a deadline:", errors.Is(err, context.DeadlineExceeded))
	fmt.Println("a bound of the client's:", timeout != nil && timeout.Phase != resilient.PhaseDeadline)
	// Output:
	// a deadline: true
	// a bound of the client's: false
}

func ExampleFromEnv() {
	os.Setenv("CLIENT_SBER__MAX_CONNECTIONS", "40")
	defer os.Unsetenv("CLIENT_SBER__MAX_CONNECTIONS")

	cfg, err := resilient.FromEnv("sber")
	if err != nil {
		panic(err)
	}
	sber, err := resilient.NewClient("sber", cfg)
	if err != nil {
		panic(err)
	}
	defer sber.Close()
	fmt.Println(sber.State().Config.MaxConnsPerHost, "connections,", sber.State().Bulkhead.MaxConcurrent, "permits")
	// Output: 40 connections, 32 permits
}

func ExampleLoad() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "clients.yaml")
	os.WriteFile(path, []byte(`
defaults: {read_timeout: 3s}
systems:
  sber: {max_connections: 40}
  atol: {}
`), 0o600)

	all, err := resilient.Load(path)
	if err != nil {
		panic(err) // every fault at once
	}
	for _, system := range []string{"sber", "atol"} {
		client, err := resilient.NewClient(system, all[system])
		if err != nil {
			panic(err)
		}
		defer client.Close()
		cfg := client.State().Config
		fmt.Println(client.Name(), cfg.MaxConnsPerHost, cfg.ReadTimeout)
	}
	// Output:
	// sber 40 3s
	// atol 20 3s
}

// What is below the client sees the number of the attempt.
func ExampleAttempt() {
	var answers int
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("the bank sees attempt", r.Header.Get("X-Attempt"))
		if answers++; answers == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer bank.Close()
	sber, err := resilient.NewClient("sber", resilient.Config{Retry: resilient.RetryConfig{MaxAttempts: 2, BaseDelay: time.Millisecond}},
		resilient.WithBase(numbered{&http.Transport{}}))
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	req, _ := http.NewRequest("GET", bank.URL, nil)
	resp, err := sber.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output:
	// the bank sees attempt 1
	// the bank sees attempt 2
	// 200
}

type numbered struct{ *http.Transport }

func (n numbered) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("X-Attempt", fmt.Sprint(resilient.Attempt(req.Context())))
	return n.Transport.RoundTrip(req)
}
