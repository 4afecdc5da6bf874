package resilient_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/resilient-go/resilient"
)

// A tripper is a RoundTripper that is a func.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A header that says which attempt a request is: a layer inside sees each of them.
func ExampleWithInner() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("attempt", r.Header.Get("X-Attempt"))
		if r.Header.Get("X-Attempt") == "1" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer bank.Close()
	numbered := func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(req *http.Request) (*http.Response, error) {
			out := req.Clone(req.Context()) // a RoundTripper leaves the caller's request alone
			out.Header.Set("X-Attempt", fmt.Sprint(resilient.Attempt(req.Context())))
			return next.RoundTrip(out)
		})
	}
	sber, err := resilient.NewRegistry().NewClient("sber", resilient.Config{Retry: resilient.RetryConfig{MaxAttempts: 2}}, resilient.WithInner(numbered))
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	req, _ := http.NewRequest("GET", bank.URL, nil)
	resp, err := sber.Do(req)
	if err != nil {
		panic(err)
	}
	resp.Body.Close()
	// Output:
	// attempt 1
	// attempt 2
}

// What a client refuses is seen from outside of it only.
func ExampleWithOuter() {
	noting := func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(req *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			if errors.Is(err, resilient.ErrUnavailable) {
				fmt.Println("refused:", req.Method, req.URL.Path)
			}
			return resp, err
		})
	}
	quiet := resilient.WithLogger(discard)
	sber, err := resilient.NewRegistry().NewClient("sber", resilient.Config{}, resilient.WithOuter(noting), quiet)
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	sber.ForceOpen(0)
	req, _ := http.NewRequest("POST", "http://bank.example/pay", nil)
	_, err = sber.Do(req)
	fmt.Println(errors.Is(err, resilient.ErrCircuitOpen))
	// Output:
	// refused: POST /pay
	// true
}
