package ogen

import (
	"context"
	"errors"
	"testing"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/internal/drill"
	"github.com/resilient-go/resilient/examples/ogen/bank"
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
				got, err := api.GetPayment(ctx, bank.GetPaymentParams{ID: "1"})
				if err != nil {
					return err
				}
				if p, ok := got.(*bank.Payment); !ok || p.Status != bank.PaymentStatusSettled {
					return errors.New("another payment")
				}
				return nil
			}
		},
	})
}

// A status that the description does not have is an error of ogen's, and not one that StatusCode would map to 503:
// the system answered.
func TestTrapUnexpectedStatus(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: testserver.Status(503)}, resilient.Config{})
	api, err := connect(b.Client, b.URL())
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.CreatePayment(t.Context(), &bank.NewPayment{Amount: 100, Currency: "RUB"})
	if err == nil || errors.Is(err, resilient.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if code, _, ok := resilient.StatusCode(err); code != 502 || !ok {
		t.Errorf("%v: %d", err, code)
	}
}
