package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/resilient-go/resilient"
)

func ExampleNewClient() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "paid") }))
	defer bank.Close()

	sber, err := resilient.NewClient("sber", resilient.Config{}) // every field has a sound default
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	req, _ := http.NewRequest("POST", bank.URL, nil)
	resp, err := sber.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close() // the permit is held until then, or until the body has been read
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(body))
	// Output: 200 paid
}

// What a handler answers when a system that it needs does not.
func ExampleStatusCode() {
	handler := func(w http.ResponseWriter, err error) {
		if code, retryAfter, ok := resilient.StatusCode(err); ok {
			if retryAfter > 0 {
				w.Header().Set("Retry-After", fmt.Sprint(retryAfter.Seconds()))
			}
			http.Error(w, http.StatusText(code), code)
		}
	}
	w := httptest.NewRecorder()
	handler(w, &resilient.OpenError{System: "sber", RetryAfter: 20 * time.Second})
	fmt.Println(w.Code, w.Header().Get("Retry-After"))
	// Output: 503 20
}

// Every fault is told at once, with its place, value, rule and remedy.
func ExampleNewClient_faults() {
	_, err := resilient.NewClient("sber", resilient.Config{ReadTimeout: 90 * time.Second, MaxConnsPerHost: -1})
	fmt.Println(err)
	// Output:
	// resilient: client "sber": config: Config.MaxConnsPerHost = -1: must be a whole number from 1 to 1000000; choose such a value, or leave it unset for the default
	// config: Config.ReadTimeout = 1m30s: must be a duration with a unit (500ms, 1m30s), above 0s and at most 1m0s; choose such a value, or leave it unset for the default
}

// A stream, whose end nobody knows: both bounds are lifted for one request.
func ExampleWithBounds() {
	events := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "event\n") }))
	defer events.Close()
	sber, err := resilient.NewClient("sber-events", resilient.Config{})
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	ctx := resilient.WithBounds(context.Background(), resilient.Bounds{Total: resilient.Unbounded, Read: resilient.Unbounded})
	req, _ := http.NewRequestWithContext(ctx, "GET", events.URL, nil)
	resp, err := sber.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	io.Copy(fmtWriter{}, resp.Body)
	// Output: event
}

type fmtWriter struct{}

func (fmtWriter) Write(p []byte) (int, error) { return fmt.Print(string(p)) }

// A payment may be tried elsewhere only if this bank provably has seen nothing of it.
func ExampleNotSent() {
	for _, err := range []error{
		&resilient.FullError{System: "sber"},
		&resilient.TimeoutError{System: "sber", Phase: "read"},
		errors.New("EOF"),
	} {
		fmt.Println(resilient.NotSent(err))
	}
	// Output:
	// true
	// false
	// false
}
