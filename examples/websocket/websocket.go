// Package websocket has a WebSocket by coder/websocket.
package websocket

import (
	"context"

	"github.com/coder/websocket"

	"github.com/resilient-go/resilient"
)

func connect(ctx context.Context, sber *resilient.Client, url string) (*websocket.Conn, error) {
	// drop-in
	conn, resp, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: sber.HTTPClient()})
	// end
	_ = resp
	return conn, err
}
