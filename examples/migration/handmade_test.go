package migration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"

	"github.com/resilient-go/resilient"
)

// bank answers with a body that comes late, so that one can look what is held meanwhile.
func bank() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		io.WriteString(w, "paid")
	}))
}

func get(ctx context.Context, url string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		panic(err)
	}
	return req
}

// A semaphore of x/sync and a breaker of gobreaker, as they are usually put together.
func Example_handmadeBefore() {
	server := bank()
	defer server.Close()

	permits := semaphore.NewWeighted(16)
	breaker := gobreaker.NewCircuitBreaker[*http.Response](gobreaker.Settings{
		Name: "sber", Interval: 30 * time.Second, Timeout: 30 * time.Second, MaxRequests: 3,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.Requests >= 10 && float64(c.TotalFailures) >= 0.5*float64(c.Requests)
		},
	})
	client := &http.Client{Timeout: 7 * time.Second}
	call := func(req *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithTimeout(req.Context(), 100*time.Millisecond)
		defer cancel()
		if err := permits.Acquire(ctx, 1); err != nil {
			return nil, err // full, or the caller has gone: it can't be told
		}
		defer permits.Release(1) // when the headers have come: the body is not bounded
		return breaker.Execute(func() (*http.Response, error) {
			resp, err := client.Do(req)
			if err == nil && resp.StatusCode >= 500 {
				return resp, errors.New(resp.Status) // and who closes the body?
			}
			return resp, err // a caller's cancel is a failure of the bank's
		})
	}

	resp, err := call(get(context.Background(), server.URL))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println("all permits are free while the body is read:", permits.TryAcquire(16))
	// Output: all permits are free while the body is read: true
}

func Example_handmadeAfter() {
	server := bank()
	defer server.Close()

	sber, err := resilient.NewClient("sber", resilient.Config{}) // the same numbers: they are the defaults
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	resp, err := sber.Do(get(context.Background(), server.URL))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println("permits in use while the body is read:", sber.State().Bulkhead.Active)
	io.Copy(io.Discard, resp.Body)
	fmt.Println("and after:", sber.State().Bulkhead.Active)
	// Output:
	// permits in use while the body is read: 1
	// and after: 0
}
