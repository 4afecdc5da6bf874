package sber

import (
	"errors"
	"fmt"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/adapter/payment"
	"github.com/resilient-go/resilient/examples/adapter/sber/api"
)

// What the bank says becomes the domain's here, and nowhere else: no type of
// package api leaves this one.

func toPayment(o payment.Order, token string) api.NewPayment {
	return api.NewPayment{Token: token, Amount: o.Kopecks, Currency: api.RUB}
}

func toToken(resp *api.CreateTokenResponse) (string, error) {
	if resp.JSON201 == nil {
		return "", unexpected("a token", resp.Status())
	}
	return resp.JSON201.Token, nil
}

func toReceipt(resp *api.CreatePaymentResponse) (payment.Receipt, error) {
	switch {
	case resp.JSON402 != nil:
		return payment.Receipt{}, fmt.Errorf("%w: %s", payment.ErrDeclined, resp.JSON402.Reason)
	case resp.JSON201 == nil:
		return payment.Receipt{}, fmt.Errorf("%w: %w", payment.ErrInDoubt, unexpected("a payment", resp.Status()))
	}
	state, err := toState(resp.JSON201.Status)
	if err != nil {
		return payment.Receipt{}, fmt.Errorf("%w: %w", payment.ErrInDoubt, err)
	}
	return payment.Receipt{PaymentID: resp.JSON201.Id, State: state}, nil
}

func toStatus(resp *api.GetPaymentResponse) (payment.Status, error) {
	switch {
	case resp.StatusCode() == 404:
		return payment.Status{}, payment.ErrUnknown
	case resp.JSON200 == nil:
		return payment.Status{}, unexpected("a payment's status", resp.Status())
	}
	state, err := toState(resp.JSON200.Status)
	return payment.Status{State: state, AsOf: time.Now()}, err
}

func toState(s api.PaymentStatus) (payment.State, error) {
	switch s {
	case api.Accepted:
		return payment.Accepted, nil
	case api.Settled:
		return payment.Settled, nil
	}
	return "", fmt.Errorf("sber: a state that its description does not have: %q", s)
}

func unexpected(of, status string) error {
	return fmt.Errorf("sber: asked for %s, it answered %s", of, status)
}

// toDomain says in the domain's words what no mapper has said yet. Full, open and
// closed are one thing to the domain: the bank was not asked. What it is called
// below, and when to come again, stays in the chain.
func toDomain(err error) error {
	if errors.Is(err, resilient.ErrUnavailable) && !errors.Is(err, payment.ErrInDoubt) {
		return fmt.Errorf("%w: %w", payment.ErrUnavailable, err)
	}
	return err
}
