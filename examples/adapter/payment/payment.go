// Package payment is the domain: what the service does, in its own words. It
// knows of no bank in particular, no HTTP and no bulkhead.
package payment

import (
	"context"
	"errors"
	"time"
)

// A Bank takes money. It is the port: package sber has an adapter for it.
type Bank interface {
	// Pay pays an order. To call it again with the same order is safe: it is paid once.
	Pay(ctx context.Context, o Order) (Receipt, error)

	// Status says how far a payment is. The answer may be an old one, and then says so.
	Status(ctx context.Context, paymentID string) (Status, error)
}

// What the errors of a Bank match. Whatever else they match says more to who wants to know.
var (
	ErrUnavailable = errors.New("the bank is unavailable")       // nothing was paid
	ErrInDoubt     = errors.New("the bank may have been paid")   // ask later, or pay the same order again
	ErrDeclined    = errors.New("the bank declines the payment") // nothing was paid, and it will say so again
	ErrUnknown     = errors.New("no such payment")
)

// An Order is what is to be paid.
type Order struct {
	ID      string
	Kopecks int64
}

// A Receipt is the bank's word that an order is being paid.
type Receipt struct {
	PaymentID string
	State     State
}

// A Status is how far a payment was at some time.
type Status struct {
	State State
	AsOf  time.Time
	Stale bool // the bank could not be asked: this is what it said last
}

// A State is one of a payment's.
type State string

// The states.
const (
	Accepted State = "accepted"
	Settled  State = "settled"
)
