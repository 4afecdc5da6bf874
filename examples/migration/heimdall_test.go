package migration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gojek/heimdall/v7/hystrix"

	"github.com/resilient-go/resilient"
)

func Example_heimdallBefore() {
	server := bank()
	defer server.Close()

	client := hystrix.NewClient(
		hystrix.WithCommandName("sber"),
		hystrix.WithHTTPTimeout(7*time.Second),
		hystrix.WithHystrixTimeout(7*time.Second),
		hystrix.WithMaxConcurrentRequests(16),
		hystrix.WithRequestVolumeThreshold(10),
		hystrix.WithErrorPercentThreshold(50),
		hystrix.WithSleepWindow(30_000), // milliseconds
		hystrix.WithFallbackFunc(func(err error) error { return fmt.Errorf("later: %w", err) }),
	)

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

func Example_heimdallAfter() {
	server := bank()
	defer server.Close()

	sber, err := resilient.NewClient("sber", resilient.Config{})
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	body, err := resilient.Call[string]{
		Fallback: func(_ context.Context, err error) (string, error) { return "", fmt.Errorf("later: %w", err) },
	}.Do(context.Background(), sber, func(ctx context.Context) (string, error) {
		resp, err := sber.Do(get(ctx, server.URL))
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(resp.Body)
		return string(body), errors.Join(err, resp.Body.Close())
	})
	fmt.Println(body, err)
	// Output: paid <nil>
}
