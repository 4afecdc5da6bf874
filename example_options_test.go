package resilient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/transport"
)

// A transport of one's own below the layers. It must be this client's alone.
func ExampleWithBase() {
	_, err := resilient.NewClient("sber", resilient.Config{}, resilient.WithBase(http.DefaultTransport))
	fmt.Println(err)

	sber, err := resilient.NewClient("sber", resilient.Config{}, resilient.WithBase(&http.Transport{MaxConnsPerHost: 20}))
	if err != nil {
		panic(err)
	}
	defer sber.Close()
	fmt.Println(sber.Name())
	// Output:
	// resilient: client "sber": resilient: WithBase: http.DefaultTransport is everybody's; give the client one of its own
	// sber
}

// An API that answers 200 and says in a header that it has failed.
func ExampleWithClassifier() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Result", "failure") }))
	defer bank.Close()
	sber, err := resilient.NewClient("sber", resilient.Config{Breaker: resilient.BreakerConfig{ConsecutiveFailures: 2}},
		resilient.WithLogger(slog.New(slog.DiscardHandler)),
		resilient.WithClassifier(func(resp *http.Response, err error) resilient.Verdict {
			if err != nil || resp.StatusCode >= 500 || resp.Header.Get("X-Result") == "failure" {
				return resilient.Failure
			}
			return resilient.Success
		}))
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	for range 3 {
		req, _ := http.NewRequest("GET", bank.URL, nil)
		resp, err := sber.Do(req)
		if err != nil {
			fmt.Println(errors.Is(err, resilient.ErrCircuitOpen))
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// true
}

// Connections over something else than TCP, or to where DNS does not point.
func ExampleWithDialContext() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) }))
	defer bank.Close()

	var d net.Dialer
	sber, err := resilient.NewClient("sber", resilient.Config{},
		resilient.WithDialContext(func(ctx context.Context, network, addr string) (net.Conn, error) {
			fmt.Println("asked for", addr)
			return d.DialContext(ctx, network, bank.Listener.Addr().String())
		}))
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	resp, err := sber.HTTPClient().Get("http://sber.internal/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output:
	// asked for sber.internal:80
	// sber.internal
}

// The probe is a light request that needs no permit.
func ExampleWithHealth() {
	sber, err := resilient.NewClient("sber", resilient.Config{}, resilient.WithHealth(func(context.Context) error {
		return errors.New("the certificate ends tomorrow") // would ask the bank
	}))
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	fmt.Println(sber.State().Health.Status)
	fmt.Println(sber.Health(context.Background()))
	fmt.Println(sber.State().Health.Status)
	// Output:
	// unknown
	// resilient: sber: not healthy: the certificate ends tomorrow
	// unhealthy
}

func ExampleWithHealthURL() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Println(r.Method, r.URL.Path) }))
	defer bank.Close()
	reg := resilient.NewRegistry()
	sber, err := reg.NewClient("sber", resilient.Config{}, resilient.WithHealthURL(bank.URL+"/health"))
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	for range 2 { // the second one within 30 s asks nobody
		w := httptest.NewRecorder()
		reg.Readiness("sber").ServeHTTP(w, httptest.NewRequest("GET", "/ready", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// GET /health
	// 200
	// 200
}

// Each transition is one WARN.
func ExampleWithLogger() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	sber, err := resilient.NewClient("sber", resilient.Config{}, resilient.WithLogger(logger))
	if err != nil {
		panic(err)
	}
	defer sber.Close()
	sber.ForceOpen(0)
	// Output: level=WARN msg="circuit breaker forced_open" system=sber prev_state=closed new_state=forced_open reason=forced
}

func ExampleWithProxy() {
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { fmt.Println("the proxy sees", r.RequestURI) }))
	defer proxy.Close()
	address, err := url.Parse(proxy.URL)
	if err != nil {
		panic(err)
	}
	sber, err := resilient.NewClient("sber", resilient.Config{}, resilient.WithProxy(http.ProxyURL(address)))
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	resp, err := sber.HTTPClient().Get("http://sber.example/rates")
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	// Output: the proxy sees http://sber.example/rates
}

// An authority of one's own.
func ExampleWithTLSConfig() {
	bank := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "paid") }))
	defer bank.Close()
	roots := x509.NewCertPool()
	roots.AddCert(bank.Certificate())
	sber, err := resilient.NewClient("sber", resilient.Config{}, resilient.WithTLSConfig(&tls.Config{RootCAs: roots}))
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	resp, err := sber.HTTPClient().Get(bank.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output: paid
}

// To see what would be refused before anything is.
func ExampleObserve() {
	sber, err := resilient.NewClient("sber", resilient.Config{}, resilient.Observe(), resilient.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	defer sber.Close()
	bank := httptest.NewServer(http.NotFoundHandler())
	defer bank.Close()

	sber.ForceOpen(0)
	resp, err := sber.HTTPClient().Get(bank.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(sber.State().Observing, resp.Status) // and would_refuse_total{reason="open"} is 1
	// Output: true 404 Not Found
}

func ExampleOnStateChange() {
	sber, err := resilient.NewClient("sber", resilient.Config{}, resilient.WithLogger(slog.New(slog.DiscardHandler)),
		resilient.OnStateChange(func(t resilient.Transition) { fmt.Println(t.From, "→", t.To, t.Reason) }))
	if err != nil {
		panic(err)
	}
	defer sber.Close()
	sber.ForceOpen(0)
	sber.Automatic()
	// Output:
	// closed → forced_open forced
	// forced_open → closed
}

// A layer around the client sees each call once, refusals included; one below it sees what is really sent.
func ExampleWithOuter() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	told := func(where string) transport.Layer {
		return func(next http.RoundTripper) http.RoundTripper {
			return roundTripFunc(func(req *http.Request) (*http.Response, error) {
				fmt.Println(where)
				return next.RoundTrip(req)
			})
		}
	}
	sber, err := resilient.NewRegistry().NewClient("sber", resilient.Config{},
		resilient.WithOuter(told("called")), resilient.WithInner(told("sent")))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sber.Close()
	if resp, err := sber.HTTPClient().Get(server.URL); err == nil {
		resp.Body.Close()
	}
	sber.ForceOpen(time.Hour)
	_, err = sber.HTTPClient().Get(server.URL)
	fmt.Println(errors.Is(err, resilient.ErrCircuitOpen))
	// Output:
	// called
	// sent
	// called
	// true
}

// A header of each attempt, of which the caller's request knows nothing.
func ExampleWithInner() {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("attempt", r.Header.Get("X-Attempt"))
	}))
	defer server.Close()
	attempt := func(next http.RoundTripper) http.RoundTripper {
		return roundTripFunc(func(req *http.Request) (*http.Response, error) {
			req = req.Clone(req.Context()) // a RoundTripper does not change its request
			req.Header.Set("X-Attempt", strconv.Itoa(resilient.Attempt(req.Context())))
			return next.RoundTrip(req)
		})
	}
	sber, err := resilient.NewRegistry().NewClient("sber", resilient.Config{}, resilient.WithInner(attempt))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sber.Close()
	if resp, err := sber.HTTPClient().Get(server.URL); err == nil {
		resp.Body.Close()
	}
	// Output: attempt 1
}
