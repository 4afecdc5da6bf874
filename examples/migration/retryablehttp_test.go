package migration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/resilient-go/resilient"
)

// tired answers 503 once, and tells how often it was asked.
func tired() (*httptest.Server, *atomic.Int64) {
	asked := new(atomic.Int64)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})), asked
}

// A payment that met a 503 is made a second time, whatever the first has done.
func Example_retryablehttpBefore() {
	server, asked := tired()
	defer server.Close()

	client := retryablehttp.NewClient()
	client.RetryMax = 2
	client.RetryWaitMin = 10 * time.Millisecond
	client.RetryWaitMax = time.Second
	client.Logger = nil
	std := client.StandardClient()

	resp, err := std.Post(server.URL, "text/plain", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "after", asked.Load(), "requests")
	// Output: 200 after 2 requests
}

func Example_retryablehttpAfter() {
	server, asked := tired()
	defer server.Close()

	sber, err := resilient.NewClient("sber", resilient.Config{Retry: resilient.RetryConfig{
		MaxAttempts: 3, // the first time included
		BaseDelay:   10 * time.Millisecond,
		MaxDelay:    time.Second,
	}})
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	pay := func(key string) {
		req, err := http.NewRequestWithContext(context.Background(), "POST", server.URL, nil)
		if err != nil {
			panic(err)
		}
		if key != "" {
			req.Header.Set("Idempotency-Key", key) // the bank knows a second one by it
		}
		resp, err := sber.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		fmt.Println(resp.StatusCode, "after", asked.Load(), "requests")
	}
	pay("")
	asked.Store(0)
	pay("order 17")
	// Output:
	// 503 after 1 requests
	// 200 after 2 requests
}
