package connect

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/connect/bank"
	"github.com/resilient-go/resilient/examples/connect/bank/bankconnect"
	"github.com/resilient-go/resilient/examples/internal/drill"
	"github.com/resilient-go/resilient/internal/testserver"
)

// server is a bank that connect-go serves.
type server struct{ pause time.Duration }

func (server) GetPayment(_ context.Context, req *connect.Request[bank.GetPaymentRequest]) (*connect.Response[bank.Payment], error) {
	return connect.NewResponse(&bank.Payment{Id: req.Msg.GetId(), Status: "settled"}), nil
}

func (s server) Follow(ctx context.Context, req *connect.Request[bank.GetPaymentRequest], stream *connect.ServerStream[bank.Payment]) error {
	for _, status := range []string{"accepted", "settled"} {
		if err := stream.Send(&bank.Payment{Id: req.Msg.GetId(), Status: status}); err != nil {
			return err
		}
		select {
		case <-time.After(s.pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func handler(s server) http.Handler {
	_, h := bankconnect.NewBankHandler(s)
	return h
}

func request() *connect.Request[bank.GetPaymentRequest] {
	return connect.NewRequest(&bank.GetPaymentRequest{Id: "1"})
}

func TestDropIn(t *testing.T) {
	protocols := map[string][]connect.ClientOption{"connect": nil, "grpc-web": {connect.WithGRPCWeb()}, "grpc": {connect.WithGRPC()}}
	for name, opts := range protocols {
		t.Run(name, func(t *testing.T) {
			drill.Run(t, drill.Drill{
				Server: testserver.Options{Handler: handler(server{}), Protocol: testserver.HTTP2},
				Connect: func(_ *testing.T, sber *resilient.Client, url string) drill.Call {
					api := connectWith(sber, url, opts)
					return func(ctx context.Context) error {
						got, err := api.GetPayment(ctx, request())
						if err == nil && got.Msg.GetStatus() != "settled" {
							err = errors.New("another payment")
						}
						return err
					}
				},
			})
		})
	}
}

func connectWith(sber *resilient.Client, url string, opts []connect.ClientOption) bankconnect.BankClient {
	if opts == nil {
		return dropIn(sber, url)
	}
	return bankconnect.NewBankClient(sber, url, opts...)
}

// Its codes are of its own making: a refusal is Unavailable and a timeout DeadlineExceeded, as if the server had said so. Ours is inside.
func TestTrapCodes(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: testserver.HangBeforeHeaders()}, resilient.Config{})
	api := dropIn(b.Client, b.URL())
	_, err := api.GetPayment(drill.Impatient(t.Context()), request())
	if connect.CodeOf(err) != connect.CodeDeadlineExceeded || !errors.Is(err, resilient.ErrTimeout) {
		t.Errorf("timeout: %v, %v", connect.CodeOf(err), err)
	}
	b.Client.ForceOpen(time.Minute)
	_, err = api.GetPayment(t.Context(), request())
	if connect.CodeOf(err) != connect.CodeUnavailable || !errors.Is(err, resilient.ErrUnavailable) {
		t.Errorf("open: %v, %v", connect.CodeOf(err), err)
	}
}

// A stream is under the bounds of a call until they are lifted, and holds its permit until it is received to its end or closed.
func TestTrapStream(t *testing.T) {
	follow := func(t *testing.T, bounds resilient.Bounds, s server) (messages int, err error) {
		ctx := resilient.WithBounds(t.Context(), bounds)
		b := drill.Open(t, testserver.Options{Handler: handler(s), Protocol: testserver.HTTP2}, resilient.Config{})
		api := dropIn(b.Client, b.URL())
		if _, err := api.GetPayment(t.Context(), request()); err != nil { // so that there is a connection
			t.Fatal(err)
		}
		stream, err := api.Follow(ctx, request())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for stream.Receive() {
			if n++; n == 1 {
				b.Held(1)
			}
		}
		err = stream.Err()
		stream.Close()
		b.Idle()
		return n, err
	}
	t.Run("bounded", func(t *testing.T) {
		n, err := follow(t, resilient.Bounds{Total: 500 * time.Millisecond}, server{pause: time.Hour})
		if n != 1 || !errors.Is(err, resilient.ErrTimeout) {
			t.Errorf("%d messages, %v", n, err)
		}
	})
	t.Run("lifted", func(t *testing.T) {
		n, err := follow(t, resilient.Bounds{Total: resilient.Unbounded, Read: time.Minute}, server{pause: 50 * time.Millisecond})
		if n != 2 || err != nil {
			t.Errorf("%d messages, %v", n, err)
		}
	})
}
