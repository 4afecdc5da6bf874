package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/cmd/demo/api"
)

const (
	// slots is how many requests the service works on at once. Every service has
	// such a limit, be it workers, memory, or connections to its database; that
	// is how a partner that hangs gets at the calls of one that does not.
	slots = 80

	// patience is how long whoever calls the service waits for a slot.
	patience = time.Second

	// Each tick two payments and two policies are asked for: 200 a second of
	// either. While sber hangs, payments alone would need 200/s × 0.7 s = 140 slots.
	tick    = 10 * time.Millisecond
	perTick = 2
)

// A service answers requests, each with one call of a partner.
type service struct {
	clients *clients
	log     *record
	slots   chan struct{}
	phase   atomic.Int64
}

func newService(c *clients, log *record) *service {
	return &service{clients: c, log: log, slots: make(chan struct{}, slots)}
}

// handle is one request, from its arrival to its answer.
func (s *service) handle(ctx context.Context, of system, n int) {
	arrived := time.Now()
	c := call{system: of, phase: int(s.phase.Load())}
	select {
	case s.slots <- struct{}{}:
		c.open = s.clients.refusing(of)
		began := time.Now()
		err := s.ask(ctx, of, n)
		c.outcome, c.asked = judge(err), time.Since(began)
		<-s.slots
	case <-time.After(patience):
		c.outcome = turnedAway
	case <-ctx.Done():
	}
	if ctx.Err() == nil { // else the demo is over
		c.took = time.Since(arrived)
		s.log.add(c)
	}
}

// ask calls a partner. The generated client neither knows nor minds what it runs over.
func (s *service) ask(ctx context.Context, of system, n int) error {
	id := fmt.Sprint(n)
	switch partner := s.clients.api[of]; {
	case of == insurance:
		r, err := partner.GetPolicyWithResponse(ctx, id)
		if err == nil && r.JSON200 == nil {
			return fmt.Errorf("policy: %s", r.Status())
		}
		return err
	case n%2 == 0:
		r, err := partner.CreatePaymentWithResponse(ctx, api.NewPayment{Amount: 9900, Currency: "RUB"})
		if err == nil && r.JSON201 == nil {
			return fmt.Errorf("payment: %s", r.Status())
		}
		return err
	default:
		r, err := partner.GetPaymentWithResponse(ctx, id)
		if err == nil && r.JSON200 == nil {
			return fmt.Errorf("payment: %s", r.Status())
		}
		return err
	}
}

// judge tells what became of a call. A real service would answer with
// resilient.StatusCode(err), and its Retry-After.
func judge(err error) outcome {
	switch {
	case err == nil:
		return answered
	case errors.Is(err, resilient.ErrUnavailable): // full or open: sber was not asked
		return refused
	default:
		return failed
	}
}
