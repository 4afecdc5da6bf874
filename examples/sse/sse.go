// Package sse has server-sent events by go-sse.
package sse

import (
	"context"
	"net/http"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/resilient-go/resilient"
)

func connect(ctx context.Context, events *resilient.Client, url string, heartbeat time.Duration) (*sse.Connection, error) {
	// drop-in
	ctx = resilient.WithBounds(ctx, resilient.Bounds{Total: resilient.Unbounded, Read: heartbeat})
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	client := &sse.Client{HTTPClient: events.HTTPClient(), Backoff: sse.Backoff{MaxRetries: -1}}
	// end
	if err != nil {
		return nil, err
	}
	return client.NewConnection(req), nil
}
