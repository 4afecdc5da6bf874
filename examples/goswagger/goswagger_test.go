package goswagger

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/goswagger/bank/client/operations"
	"github.com/resilient-go/resilient/examples/internal/drill"
	"github.com/resilient-go/resilient/internal/testserver"
)

func TestDropIn(t *testing.T) {
	drill.Run(t, drill.Drill{
		Server: testserver.Options{Handler: drill.Payment},
		Connect: func(_ *testing.T, sber *resilient.Client, url string) drill.Call {
			api := connect(sber, strings.TrimPrefix(url, "http://"))
			return func(ctx context.Context) error {
				got, err := api.Operations.GetPaymentContext(ctx, operations.NewGetPaymentParams().WithID("1"))
				if err == nil && *got.Payload.Status != "settled" {
					err = errors.New("another payment")
				}
				return err
			}
		},
	})
}

// Its own timeout, 30 s unless set, is a deadline of the caller's.
func TestTrapTimeoutOfParams(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: testserver.HangBeforeHeaders()}, drill.Touchy)
	api := connect(b.Client, strings.TrimPrefix(b.URL(), "http://"))
	_, err := api.Operations.GetPayment(operations.NewGetPaymentParamsWithTimeout(50 * time.Millisecond).WithID("1"))
	b.CallersDeadline(err)
}
