package sber

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/resilient-go/resilient"
)

// trace tells the caller's span what the bank's part in it was. Where there is no
// span it does nothing.
func (b *Bank) trace(ctx context.Context, err error) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("system", b.client.Name()), attribute.String("breaker", b.client.State().Breaker.State))
	if timeout, ok := errors.AsType[*resilient.TimeoutError](err); ok {
		span.SetAttributes(attribute.String("timeout", string(timeout.Phase)))
	}
	if full, ok := errors.AsType[*resilient.FullError](err); ok {
		span.SetAttributes(attribute.String("bulkhead", string(full.Reason)))
	}
}
