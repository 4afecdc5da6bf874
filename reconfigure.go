package resilient

import (
	"fmt"
	"log/slog"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/transport"
)

// Reconfigure makes cfg, whole, the settings of c: a zero field is its default,
// not what it was. If cfg is invalid, or would bring the sum over all clients
// above WithMaxTotalConns, that is the error, with every fault in it, and
// nothing changes. A closed client returns a ClosedError.
//
// Permits that are out, those who wait and the breaker survive. Exchanges that
// begin from then on have the new bounds. If the breaker's Window, OpenFor or
// HalfOpenProbes change, it begins a new window, once it is closed. If settings of
// the connections change, the pool is replaced: exchanges that have been admitted
// keep the old one, whose idle connections are closed at once, and those that become
// idle later at the latest when the last of them has ended. For that long there may be
// connections of both.
//
// What is changed is logged at level Info.
func (c *Client) Reconfigure(cfg Config) error {
	full, err := cfg.Complete()
	if err != nil {
		return fmt.Errorf("resilient: client %q: %w", c.name, err)
	}
	c.reconfiguring.Lock()
	defer c.reconfiguring.Unlock()
	if c.closing.Load() {
		return &ClosedError{System: c.name}
	}
	old := *c.cfg.Load()
	if full == old {
		return nil
	}
	if err := c.reg.adopt(c, &full); err != nil {
		return err
	}
	swapped := c.base == nil && !samePool(old, full)
	grows := full.Bulkhead.MaxConcurrent > old.Bulkhead.MaxConcurrent
	if !grows {
		c.sem.Resize(limits(full)) // before the pool has fewer connections
	}
	c.stats.reconfigure(full)
	c.timeouts.Reconfigure(full)
	c.foreign.Reconfigure(full)
	c.retry.Reconfigure(transport.RetryPolicyOf(full))
	pending := c.breaker.Reconfigure(full)
	if swapped {
		c.stats.swap(c.newPool(full))
	}
	if grows {
		c.sem.Resize(limits(full)) // once it has more
	}
	c.logger().Info("client reconfigured", slog.String("system", c.name), slog.Any("changed", config.Changed(old, full)),
		slog.Bool("new_pool", swapped), slog.Bool("breaker_pending", pending))
	return nil
}
