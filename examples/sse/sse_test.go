package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/internal/drill"
	"github.com/resilient-go/resilient/internal/testserver"
)

// events sends n events, and then is silent if it hangs.
func events(n int, hangs bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range n {
			fmt.Fprintf(w, "id: %d\ndata: settled\n\n", i)
			http.NewResponseController(w).Flush()
		}
		if hangs {
			testserver.Hang(r)
		}
	})
}

func TestDropIn(t *testing.T) {
	drill.Run(t, drill.Drill{
		Server: testserver.Options{Handler: events(3, false)},
		Connect: func(_ *testing.T, sber *resilient.Client, url string) drill.Call {
			return func(ctx context.Context) error {
				conn, err := connect(ctx, sber, url, 2*time.Second)
				if err != nil {
					return err
				}
				n := 0
				conn.SubscribeToAll(func(sse.Event) { n++ })
				if err := conn.Connect(); !errors.Is(err, io.EOF) {
					return err
				}
				if n != 3 {
					return fmt.Errorf("%d events", n)
				}
				return nil
			}
		},
	})
}

// With the bounds of short calls a stream ends after them. Lifted, it goes on for as long as something comes, and a
// silence longer than the server's heartbeat ends it.
func TestTrapBounds(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: events(3, true)}, resilient.Config{})
	conn, err := connect(t.Context(), b.Client, b.URL(), 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	conn.SubscribeToAll(func(sse.Event) {
		n++
		b.Held(1)
	})
	err = conn.Connect()
	var timeout *resilient.TimeoutError
	if !errors.As(err, &timeout) || timeout.Phase != resilient.PhaseRead || n != 3 {
		t.Errorf("%d events, %v", n, err)
	}
	b.Idle()
}

// By default it connects again for ever, also to a client that refuses. OnRetry sees that.
func TestTrapReconnect(t *testing.T) {
	b := drill.Open(t, testserver.Options{}, resilient.Config{})
	b.Client.ForceOpen(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", b.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	refusals := 0
	client := &sse.Client{HTTPClient: b.Client.HTTPClient(), Backoff: sse.Backoff{InitialInterval: time.Millisecond}, OnRetry: func(err error, _ time.Duration) {
		b.Idle()
		if !errors.Is(err, resilient.ErrCircuitOpen) {
			t.Error(err)
		}
		if refusals++; refusals == 3 {
			cancel()
		}
	}}
	if err := client.NewConnection(req).Connect(); !errors.Is(err, context.Canceled) || refusals != 3 {
		t.Errorf("%d refusals, %v", refusals, err)
	}
}
