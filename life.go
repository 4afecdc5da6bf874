package resilient

import (
	"context"
	"log/slog"

	"github.com/resilient-go/resilient/internal/exchange"
)

// Shutdown ends c: from now on requests are refused with a ClosedError, also
// those that wait for a permit. It returns when the exchanges under way have
// ended. If ctx ends first it cancels them, upgraded connections included, and
// returns ctx.Err() without waiting for them.
//
// The name is free, and the series are gone, when the last exchange has ended.
func (c *Client) Shutdown(ctx context.Context) error {
	c.closing.Store(true)
	c.sem.Close(&ClosedError{System: c.name})
	if c.stats.close() {
		c.finish()
	}
	c.CloseIdleConnections()
	select {
	case <-c.drained:
		return nil
	default:
	}
	select {
	case <-c.drained:
		return nil
	case <-ctx.Done():
	}
	cut := &ClosedError{System: c.name, Started: true}
	for _, x := range c.stats.all() {
		x.Interrupt(exchange.Owner, cut, context.Canceled)
	}
	select {
	case <-c.drained: // nobody was in the middle of anything
		return nil
	default:
		return ctx.Err()
	}
}

// Close ends c at once: it is Shutdown with a context that has ended, and
// returns nil. An exchange in the middle of a round trip or a Read ends when
// that returns, which with net/http is at once.
func (c *Client) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Shutdown(ctx)
	return nil
}

// finish is called when c is closed and nothing is under way any more.
func (c *Client) finish() {
	c.drain.Do(func() {
		c.CloseIdleConnections()
		c.reg.remove(c)
		release(c)
		close(c.drained)
	})
}

func (c *Client) log(t Transition) {
	logger := c.opts.logger
	if logger == nil {
		logger = slog.Default()
	}
	attrs := []any{slog.String("system", t.System), slog.String("prev_state", t.From), slog.String("new_state", t.To)}
	switch {
	case t.From == "closed":
		attrs = append(attrs, slog.Float64("failure_rate", t.FailureRate))
	case t.To == "open":
		attrs = append(attrs, slog.Bool("failed_probe", true))
	}
	logger.Warn("circuit breaker "+t.To, attrs...)
}
