// Package sber is the adapter to a bank: it speaks the bank's API with a
// generated client, and the domain's words to the rest of the service.
package sber

//go:generate go tool -modfile=../../../tools/codegen/go.mod oapi-codegen -config oapi-codegen.yaml -o api/api.gen.go openapi.yaml

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/adapter/payment"
	"github.com/resilient-go/resilient/examples/adapter/sber/api"
)

// Name is the bank's one name: of its client, in metrics, logs and errors, in
// clients.yaml and in the environment (CLIENT_SBER__…).
const Name = "sber"

// A Bank is the adapter: a payment.Bank over a resilient client.
type Bank struct {
	client *resilient.Client
	api    *api.ClientWithResponses
	last   lastKnown
}

// New returns an adapter to the bank at url, which knows the service by key.
func New(url, key string, client *resilient.Client) (*Bank, error) {
	// As it was generated: it takes the resilient client for an http.Client.
	generated, err := api.NewClientWithResponses(url, api.WithHTTPClient(client),
		api.WithRequestEditorFn(func(_ context.Context, req *http.Request) error {
			req.Header.Set("Authorization", "Bearer "+key)
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("sber: %w", err)
	}
	return &Bank{client: client, api: generated}, nil
}

// Pay pays an order: two requests under one permit, with one verdict for the
// breaker and one total for both. It has no fallback, as nothing can stand in for
// a payment.
func (b *Bank) Pay(ctx context.Context, o payment.Order) (payment.Receipt, error) {
	receipt, err := resilient.Execute(ctx, b.client, func(ctx context.Context) (payment.Receipt, error) {
		token, err := b.token(ctx, o)
		if err != nil {
			return payment.Receipt{}, err
		}
		return b.pay(ctx, o, token)
	})
	b.trace(ctx, err)
	return receipt, toDomain(err)
}

// Status asks the bank. When the bank can't be asked, or does not answer, it is
// what the bank said last, which the result tells; if it never did, that is an error.
func (b *Bank) Status(ctx context.Context, id string) (payment.Status, error) {
	status, err := resilient.Call[payment.Status]{
		Fallback: func(ctx context.Context, err error) (payment.Status, error) {
			b.trace(ctx, err)
			return b.last.get(id, err)
		},
		// Not only for a refusal: what only reads may be asked of somebody else even if it was sent.
		FallbackIf: func(err error) bool { return errors.Is(err, resilient.ErrTimeout) },
	}.Do(ctx, b.client, func(ctx context.Context) (payment.Status, error) {
		resp, err := b.api.GetPaymentWithResponse(ctx, id)
		if err != nil {
			return payment.Status{}, err
		}
		b.trace(ctx, nil)
		status, err := toStatus(resp)
		if err == nil {
			b.last.set(id, status)
		}
		return status, err
	})
	return status, toDomain(err)
}

func (b *Bank) token(ctx context.Context, o payment.Order) (string, error) {
	resp, err := b.api.CreateTokenWithResponse(ctx, api.NewToken{Amount: o.Kopecks})
	if err != nil {
		return "", err
	}
	return toToken(resp)
}

// pay makes the payment. Whatever goes wrong once it has been sent leaves it in doubt.
func (b *Bank) pay(ctx context.Context, o payment.Order, token string) (payment.Receipt, error) {
	// The key is the order's, so that it is paid once however often it is tried:
	// by Retry (see clients.yaml), by a person, by the service after a restart.
	resp, err := b.api.CreatePaymentWithResponse(ctx, &api.CreatePaymentParams{IdempotencyKey: o.ID}, toPayment(o, token))
	switch {
	case err != nil && resilient.NotSent(err):
		return payment.Receipt{}, err
	case err != nil:
		return payment.Receipt{}, fmt.Errorf("%w: %w", payment.ErrInDoubt, err)
	}
	return toReceipt(resp)
}
