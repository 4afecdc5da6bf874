// The bench measures what package resilient costs beside bare net/http and beside what else there is, and writes
// docs/performance.md with its charts.
//
// What is compared is in stacks.go and semaphores.go; how, in compare.go; each other file measures one thing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

const usage = `Usage: bench [-quick] [-only regexp] [-out dir]

Measures what resilient costs, in one process: all contenders of a comparison
run in turn, round after round. Takes some minutes, on a machine that should
have nothing else to do.

  -quick         see in some seconds that it works; the figures mean nothing
  -only regexp   only the measurements whose title matches; writes nothing unless -out is given
  -out dir       write performance.md and performance/*.svg there (default ../docs, with -quick nowhere)

Exit status: 0 it was measured, whatever the goals; 1 it could not be; 2 wrong usage.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // usage says more than the flags' own text
	short := flags.Bool("quick", false, "")
	only := flags.String("only", "", "")
	out := flags.String("out", "", "")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return 0
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument: %s", flags.Arg(0))
	}
	var match *regexp.Regexp
	if err == nil {
		match, err = regexp.Compile("(?i)" + *only)
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n\n%s", err, usage)
		return 2
	}
	if *out == "" && *only == "" && !*short {
		*out = "../docs"
	}
	e := full
	if *short {
		e = quick
	}
	if err := bench(ctx, e, match, *out, stdout); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// measurements are all sections of the report, in order.
var measurements = []struct {
	name    string
	measure func(context.Context, effort) (*section, error)
}{
	{"calls", calls},
	{"layers", layers},
	{"loopback", loopback},
	{"refusals", refusals},
	{"free permit", freeGate},
	{"queue", handOffs},
	{"lateness", lateness},
	{"overload", overload},
	{"burst", burst},
	{"idle clients", idleClients},
	{"scrape", scrape},
	{"processors", processors},
	{"scale", scale},
	{"costs", costs},
}

// bench measures, prints what came of it, and writes the report if there is a place for it.
func bench(ctx context.Context, e effort, match *regexp.Regexp, out string, stdout io.Writer) error {
	d := document{head: head(e)}
	for _, m := range measurements {
		if !match.MatchString(m.name) {
			continue
		}
		began := time.Now()
		fmt.Fprintf(stdout, "%-14s", m.name)
		s, err := m.measure(ctx, e)
		if err != nil {
			fmt.Fprintln(stdout)
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%.0f s\n", time.Since(began).Seconds())
		d.sections = append(d.sections, s)
	}
	if out == "" {
		fmt.Fprintf(stdout, "\n%s", d.markdown())
		return nil
	}
	met := 0
	fmt.Fprintln(stdout)
	for _, g := range d.goals() {
		verdict := "NOT MET"
		if g.met {
			met++
			verdict = "met"
		}
		fmt.Fprintf(stdout, "%-7s  %s: %s, measured %s\n", verdict, g.what, g.limit, g.got)
	}
	fmt.Fprintf(stdout, "\n%d of %d goals met\n", met, len(d.goals()))
	return d.write(out)
}

// head is what the report begins with.
func head(e effort) string {
	warning := ""
	if e.quick {
		warning = "**A trial run: none of the figures means anything.**\n\n"
	}
	return `# Performance

What a call through package resilient costs: beside bare net/http, beside a chain written by hand, and beside other
libraries. Written by ` + "`make bench`" + `, which measures everything again and takes some minutes; all of its code is in
[bench/](../bench).

` + warning + `Everything runs in one process, the contenders of a comparison in turn (A B C, B C A, …), ` + fmt.Sprint(e.rounds) + ` rounds of ` + fmt.Sprint(e.slice) + ` each. A
ratio is taken within a round, so that what disturbs the machine disturbs both sides; it is the median of the rounds,
with the quartiles. Only ratios of one run, allocations and bytes are worth comparing: times are those of this machine.
Unless it says otherwise, a time is CPU time of the whole process (getrusage), which includes the garbage collector and,
over loopback, the server.

` + machine() + `
## What is compared

` + stackTable()
}

func stackTable() string {
	s := newSection("")
	rows := [][]string{{"stack", "what it does", "what it does not do of what resilient does"}}
	for _, st := range stacks {
		rows = append(rows, []string{st.name, st.does, st.lacks})
	}
	s.table(rows...)
	s.para("Each guarded stack has %d permits and waits %v for one, has a breaker with a window of 30 s that opens at half of at least "+
		"10 results, and a total of %v. `promhttp` and `otelhttp` are there to compare metrics with metrics.", plenty.permits, plenty.wait, plenty.total)
	return s.body.String()
}
