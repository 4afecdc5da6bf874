package websocket

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/internal/drill"
	"github.com/resilient-go/resilient/internal/testserver"
)

// echo sends back what it gets.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for {
		kind, message, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		if err := conn.Write(r.Context(), kind, message); err != nil {
			return
		}
	}
})

func say(ctx context.Context, conn *websocket.Conn) error {
	if err := conn.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		return err
	}
	_, got, err := conn.Read(ctx)
	if err == nil && string(got) != "hello" {
		err = errors.New("another message")
	}
	return err
}

func TestDropIn(t *testing.T) {
	drill.Run(t, drill.Drill{
		Server: testserver.Options{Handler: echo},
		Connect: func(_ *testing.T, sber *resilient.Client, url string) drill.Call {
			return func(ctx context.Context) error {
				conn, err := connect(ctx, sber, url)
				if err != nil {
					return err
				}
				defer conn.CloseNow()
				if err := say(ctx, conn); err != nil {
					return err
				}
				return conn.Close(websocket.StatusNormalClosure, "")
			}
		},
	})
}

// A connection holds its permit until it is closed, which the end of the context of Dial does not do: with the
// bulkhead of short calls a few of them leave no room.
func TestTrapPermit(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: echo}, resilient.Config{MaxConnsPerHost: 1})
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := connect(ctx, b.Client, b.URL())
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	b.Held(1)
	if _, err := connect(t.Context(), b.Client, b.URL()); !errors.Is(err, resilient.ErrBulkheadFull) {
		t.Errorf("%v", err)
	}
	if err := say(t.Context(), conn); err != nil {
		t.Error(err)
	}
	conn.CloseNow()
	b.Idle()
}

// After the handshake there are no bounds but the caller's: a peer that has gone is found by a Ping with a deadline.
func TestTrapNoBounds(t *testing.T) {
	mute := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, err := websocket.Accept(w, r, nil); err == nil {
			defer conn.CloseNow()
			testserver.Hang(r) // and reads nothing, so answers no ping
		}
	})
	b := drill.Open(t, testserver.Options{Handler: mute}, resilient.Config{})
	ctx := resilient.WithBounds(t.Context(), resilient.Bounds{Read: 300 * time.Millisecond, Total: 600 * time.Millisecond})
	conn, err := connect(ctx, b.Client, b.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	conn.CloseRead(t.Context())
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := conn.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, resilient.ErrTimeout) {
		t.Errorf("%#v, %v", err, err)
	}
	b.Held(1)
	conn.CloseNow()
	b.Idle()
}

// A client that speaks HTTP/2 can dial too: net/http makes the handshake over HTTP/1.1, in a connection of its own.
func TestOverHTTP2(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: echo, Protocol: testserver.HTTP2}, resilient.Config{})
	conn, err := connect(t.Context(), b.Client, b.URL())
	if err != nil {
		t.Fatal(err)
	}
	if err := say(t.Context(), conn); err != nil {
		t.Error(err)
	}
	conn.CloseNow()
	b.Idle()
}
