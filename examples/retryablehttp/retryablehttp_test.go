package retryablehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/internal/drill"
	"github.com/resilient-go/resilient/internal/testserver"
)

// quick has the pauses of a test.
func quick(c *retryablehttp.Client) *retryablehttp.Client {
	c.RetryMax, c.RetryWaitMin, c.RetryWaitMax, c.Logger = 2, time.Millisecond, time.Millisecond, nil
	return c
}

func TestDropIn(t *testing.T) {
	drill.Run(t, drill.Drill{
		Server:  testserver.Options{Handler: drill.Payment},
		Repeats: drill.Repeats{Status: 3, Timeout: 3}, // a cut body is the caller's to read: it is not repeated
		Connect: func(_ *testing.T, sber *resilient.Client, url string) drill.Call {
			again := quick(connect(sber))
			return func(ctx context.Context) error {
				req, err := retryablehttp.NewRequestWithContext(ctx, "GET", url, nil)
				if err != nil {
					return err
				}
				resp, err := again.Do(req)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				_, err = io.Copy(io.Discard, resp.Body)
				return err
			}
		},
	})
}

// No permit is held in its pauses: each attempt is an exchange of its own.
func TestPausesHoldNothing(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: testserver.Burst(1, 503, drill.Payment)}, resilient.Config{})
	again, pauses := quick(connect(b.Client)), 0
	again.Backoff = func(time.Duration, time.Duration, int, *http.Response) time.Duration {
		pauses++
		return time.Millisecond
	}
	again.PrepareRetry = func(*http.Request) error {
		b.Idle()
		return nil
	}
	resp, err := again.Get(b.URL())
	if err != nil || pauses != 1 {
		t.Fatalf("%d pauses, %v", pauses, err)
	}
	resp.Body.Close()
}

// Left as it is, it repeats refusals, each after a pause.
func TestTrapRefusals(t *testing.T) {
	b := drill.Open(t, testserver.Options{}, resilient.Config{})
	b.Client.ForceOpen(time.Minute)
	again, pauses := quick(connect(b.Client)), 0
	again.CheckRetry = retryablehttp.DefaultRetryPolicy
	again.PrepareRetry = func(*http.Request) error { pauses++; return nil }
	_, err := again.Get(b.URL())
	if !errors.Is(err, resilient.ErrCircuitOpen) || pauses != 2 {
		t.Errorf("%d pauses, %v", pauses, err)
	}
}

// When it gives up, be it for a refusal or the caller's end, it closes the idle connections of the http.Client that it
// has, and the next call dials anew. So it gets one that does not know how.
func TestTrapIdleConnections(t *testing.T) {
	for name, conns := range map[string]int{"hidden": 1, "as it is": 2} {
		t.Run(name, func(t *testing.T) {
			b := drill.Open(t, testserver.Options{Handler: drill.Payment}, resilient.Config{})
			again := quick(connect(b.Client))
			if name != "hidden" {
				again.HTTPClient = b.Client.HTTPClient()
			}
			get := func() error {
				resp, err := again.Get(b.URL())
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				return err
			}
			if err := get(); err != nil {
				t.Fatal(err)
			}
			b.Client.ForceOpen(0)
			if err := get(); !errors.Is(err, resilient.ErrCircuitOpen) {
				t.Fatal(err)
			}
			b.Client.Automatic()
			if err := get(); err != nil {
				t.Fatal(err)
			}
			if n := b.Stats().Conns; n != conns {
				t.Errorf("%d connections, want %d", n, conns)
			}
		})
	}
}

// It asks no method: a payment whose answer did not come is sent again.
func TestTrapPost(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: testserver.Burst(1, 503, drill.Payment)}, resilient.Config{})
	resp, err := quick(connect(b.Client)).Post(b.URL(), "application/json", strings.NewReader(`{"amount":100}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	b.Asked(2)
}
