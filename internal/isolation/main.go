// The isolation program measures what one partner that is gone does to calls of the others, with a client for each system and
// with one plain client for all, and writes docs/isolation.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/resilient-go/resilient"
)

// A plan is what is measured.
type plan struct {
	Systems  int
	Rate     int // calls a second of each system
	Times    int // as many of the sick one, from its death on
	Takes    time.Duration
	Workers  int           // how many calls the service makes at the same time
	Patience time.Duration // an answer that comes later is worth nothing
	Well     time.Duration // before the death
	Dead     time.Duration
	After    time.Duration // the recovery
	Config   resilient.Config
}

// full is measured on a quiet machine.
var full = plan{
	Systems: 20, Rate: 40, Times: 10, Takes: 5 * time.Millisecond, Workers: 256, Patience: time.Second,
	Well: 5 * time.Second, Dead: 14 * time.Second, After: 16 * time.Second,
	Config: resilient.Config{Breaker: resilient.BreakerConfig{OpenFor: 10 * time.Second}},
}

func main() {
	out := flag.String("out", "", "the file to write; none: to the standard output")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "isolation:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string) error {
	var all []result
	for _, c := range []struct {
		guarded, fault bool
	}{{true, false}, {true, true}, {false, false}, {false, true}} {
		r, err := measure(ctx, full, c.guarded, c.fault)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	page, err := report(full, all)
	if err != nil {
		return err
	}
	if out == "" {
		_, err = fmt.Print(page)
		return err
	}
	return os.WriteFile(out, []byte(page), 0o644)
}
