package transport_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/transport"
)

// A GET that met a 503 is repeated, at most twice. What is below sees the number
// of the attempt, for a header of its own, say.
func ExampleRetry() {
	cfg, err := config.Config{Retry: config.Retry{MaxAttempts: 3, BaseDelay: time.Millisecond}}.Complete()
	if err != nil {
		fmt.Println(err)
		return
	}
	retry := transport.NewRetry("sber", transport.RetryPolicyOf(cfg))
	retry.OnEvent(func(e transport.RetryEvent) { fmt.Println("attempt", e.Attempt, e.Outcome) })

	system := fake(func(req *http.Request) (*http.Response, error) {
		n := transport.Attempt(req.Context())
		fmt.Println("the system sees attempt", n)
		if n < 2 {
			return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
		}
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("ok"))}, nil
	})
	req, _ := http.NewRequest("GET", "https://sber.example/", nil)
	resp, err := transport.Chain(system, retry.Wrap).RoundTrip(req) // the other layers would come after retry.Wrap
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output:
	// the system sees attempt 1
	// the system sees attempt 2
	// attempt 2 success
	// 200
}
