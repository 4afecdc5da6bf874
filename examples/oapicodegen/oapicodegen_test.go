package oapicodegen

import (
	"context"
	"errors"
	"testing"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/internal/drill"
	"github.com/resilient-go/resilient/examples/oapicodegen/bank"
	"github.com/resilient-go/resilient/internal/testserver"
)

func TestDropIn(t *testing.T) {
	drill.Run(t, drill.Drill{
		Server: testserver.Options{Handler: drill.Payment},
		Connect: func(t *testing.T, sber *resilient.Client, url string) drill.Call {
			api, err := connect(sber, url)
			if err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error {
				got, err := api.GetPaymentWithResponse(ctx, "1")
				if err == nil && got.JSON200 != nil && got.JSON200.Status != bank.Settled {
					err = errors.New("another payment")
				}
				return err
			}
		},
	})
}

// A failure status is no error: it has to be asked for. Without that the payment looks made, and is nil.
func TestTrapStatus(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: testserver.Status(503)}, resilient.Config{})
	api, err := connect(b.Client, b.URL())
	if err != nil {
		t.Fatal(err)
	}
	got, err := api.CreatePaymentWithResponse(t.Context(), bank.NewPayment{Amount: 100, Currency: "RUB"})
	if err != nil || got.StatusCode() != 503 || got.JSON201 != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// The methods without "WithResponse" hand out the body, and with it the permit: who forgets to close it keeps the
// permit until the total is over.
func TestTrapRawBody(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: drill.Payment}, resilient.Config{})
	api, err := bank.NewClient(b.URL(), bank.WithHTTPClient(b.Client))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := api.GetPayment(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	b.Held(1)
	resp.Body.Close()
	b.Idle()
}
