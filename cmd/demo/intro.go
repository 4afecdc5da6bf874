package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/resilient-go/resilient"
)

// printIntroduction says what is shown, and how it differs from a client by default.
func printIntroduction(out io.Writer) error {
	here, err := bounds.Complete()
	if err != nil {
		return err
	}
	usual, err := resilient.Config{}.Complete()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "A service with %d slots calls two partners, 200 times a second each. Sber hangs.\n\n", slots)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "bound\there\tdefault")
	for _, bound := range []struct {
		name string
		of   func(resilient.Config) any
	}{
		{"connections", func(c resilient.Config) any { return c.MaxConnsPerHost }},
		{"exchanges at once", func(c resilient.Config) any { return c.Bulkhead.MaxConcurrent }},
		{"wait for a permit", func(c resilient.Config) any { return c.Bulkhead.AcquireTimeout }},
		{"connect", func(c resilient.Config) any { return c.ConnectTimeout }},
		{"read", func(c resilient.Config) any { return c.ReadTimeout }},
		{"total", func(c resilient.Config) any { return c.TotalTimeout }},
		{"breaker opens for", func(c resilient.Config) any { return c.Breaker.OpenFor }},
		{"probes to close it", func(c resilient.Config) any { return c.Breaker.HalfOpenProbes }},
	} {
		fmt.Fprintf(w, "%s\t%v\t%v\n", bound.name, bound.of(here), bound.of(usual))
	}
	return w.Flush()
}
