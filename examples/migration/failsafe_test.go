package migration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"

	"github.com/resilient-go/resilient"
)

func Example_failsafeBefore() {
	server := bank()
	defer server.Close()

	failed := func(r *http.Response, err error) bool { return err != nil || r.StatusCode >= 500 }
	retry := retrypolicy.NewBuilder[*http.Response]().HandleIf(failed).
		WithMaxRetries(1).WithBackoff(100*time.Millisecond, time.Second).WithJitterFactor(0.5).Build()
	breaker := circuitbreaker.NewBuilder[*http.Response]().HandleIf(failed).
		WithFailureRateThreshold(0.5, 10, 30*time.Second).WithDelay(30 * time.Second).WithSuccessThreshold(3).Build()
	full := bulkhead.NewBuilder[*http.Response](16).WithMaxWaitTime(100 * time.Millisecond).Build()
	client := &http.Client{Transport: failsafehttp.NewRoundTripper(nil, retry, full, breaker, timeout.New[*http.Response](7*time.Second))}

	resp, err := client.Do(get(context.Background(), server.URL))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output: paid
}

func Example_failsafeAfter() {
	server := bank()
	defer server.Close()

	sber, err := resilient.NewClient("sber", resilient.Config{Retry: resilient.RetryConfig{MaxAttempts: 2}})
	if err != nil {
		panic(err)
	}
	defer sber.Close()
	client := sber.HTTPClient()

	resp, err := client.Do(get(context.Background(), server.URL))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output: paid
}
