// The demo shows what package resilient is for: a service calls two partners,
// sber and insurance, over real sockets; sber hangs, and later recovers.
//
// The same traffic runs twice, through the same generated clients: once over a
// resilient client for each partner, once over a plain http.Client for both.
// A table at the end says what was measured, and the demo fails unless what
// resilient promises was seen.
//
// Where to look first: clients.go makes the clients, service.go uses them.
package main

//go:generate go tool -modfile=../../tools/codegen/go.mod oapi-codegen -config oapi-codegen.yaml -o api/api.gen.go openapi.yaml

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/resilient-go/resilient"
)

const usage = `Usage: demo [-serve [-port n]]

A service calls two partners, sber and insurance, over real sockets. Sber hangs;
later it recovers. The same traffic runs twice, in turn: over a resilient client
for each partner, then over one plain http.Client for both. A table at the end
compares them. Takes about half a minute, or more on a machine that stalls, where
what was measured over resilient clients is measured again (twice at most).

  -serve     play it over and over, with the resilient clients only, until
             interrupted, with a live page of their states on
             http://127.0.0.1:PORT/ and Prometheus metrics on /metrics there
  -port n    the port of -serve; 0 takes any free one (default 2112)

Exit status: 0 all promises were kept; 1 one was not (it says which), or the
demo could not run; 2 wrong usage.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout *os.File, stderr io.Writer) int {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // usage says more than the flags' own text
	serving := flags.Bool("serve", false, "")
	port := flags.Uint("port", 2112, "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument: %s", flags.Arg(0))
	case err == nil && *port > 65535:
		err = fmt.Errorf("no such port: %d", *port)
	}
	if err != nil {
		fmt.Fprintf(stderr, "demo: %v\n\n%s", err, usage)
		return 2
	}

	if *serving {
		err = serve(ctx, *port, stdout)
	} else {
		err = compare(ctx, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return 1
	}
	return 0
}

// compare plays the script with either kind of client and judges what it saw.
func compare(ctx context.Context, out *os.File) error {
	if err := printIntroduction(out); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n1 of 2: a resilient client for each partner\n")
	ours, err := tryOurs(ctx, out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n2 of 2: the same traffic, one plain http.Client for both partners\n")
	plain, err := try(ctx, newView(out), unguarded)
	if err != nil {
		return err
	}
	rows := report(ours, plain)
	fmt.Fprintf(out, "\n%s", table(rows))
	return verdict(rows)
}

// tryOurs plays the script with resilient clients. A machine that is busy with
// other things keeps nobody's promises in milliseconds: where it stalled and one
// of them was broken, it gets another two chances. There is none for too many
// exchanges at once, which no stall excuses.
func tryOurs(ctx context.Context, out *os.File) (result, error) {
	for chances := 2; ; chances-- {
		r, err := try(ctx, newView(out), func(p *partners) (*clients, error) {
			return guarded(resilient.NewRegistry(), p, true)
		})
		if err != nil || chances == 0 || r.late <= refusalSlack || r.exchanges > maxExchanges {
			return r, err
		}
		broken := verdict(report(r, result{}))
		if broken == nil {
			return r, nil
		}
		fmt.Fprintf(out, "\n%v\nBut this machine stalled: a tick came %s late. Once more.\n", broken, ms(r.late))
	}
}

// try plays the script once with the clients that connect makes.
func try(ctx context.Context, v view, connect func(*partners) (*clients, error)) (result, error) {
	p, err := startPartners()
	if err != nil {
		return result{}, err
	}
	defer p.close()
	c, err := connect(p)
	if err != nil {
		return result{}, err
	}
	defer c.close()

	s := newStage(p, c)
	if err := s.play(ctx, v); err != nil {
		return result{}, err
	}
	v.end(s.look())
	return s.result(), nil
}
