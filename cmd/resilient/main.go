// Resilient says what a file of settings and the environment make of each system,
// for people and for CI.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/resilient-go/resilient/config"
)

const usage = `Usage: resilient explain [-lint-fails] [FILE]
       resilient schema

explain prints every setting of every system in FILE and in the environment (or
in the environment alone), with where it was set, the names of the variables
that are the application's, and warnings of what is allowed but unwise.

  -lint-fails  let warnings be faults

schema prints the JSON schema (draft 2020-12) of such a file, for an editor.

Exit status: 0 all is well; 1 there are faults, each in a line on stderr, or the
output could not be written; 2 wrong usage.
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	command, args := "", args
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // usage says more than the flags' own text
	lintFails := false
	files := 0
	switch command {
	case "explain":
		flags.BoolVar(&lintFails, "lint-fails", false, "")
		files = 1
	case "schema":
	case "help", "-h", "-help", "--help":
		return write(usage, stdout, stderr)
	case "":
		return misuse(errors.New("no command"), stderr)
	default:
		return misuse(fmt.Errorf("no such command: %q", command), stderr)
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return write(usage, stdout, stderr)
	case err != nil:
		return misuse(err, stderr)
	case flags.NArg() > files:
		return misuse(fmt.Errorf("unexpected argument: %q (flags come before FILE)", flags.Arg(files)), stderr)
	}
	if command == "schema" {
		return write(config.Schema(), stdout, stderr)
	}
	return explain(flags.Arg(0), lintFails, stdout, stderr)
}

func explain(file string, lintFails bool, stdout, stderr io.Writer) int {
	e, err := config.Explain(file)
	if err != nil {
		fmt.Fprintln(stderr, err) // several are a line each
		return 1
	}
	status := write(e.String(), stdout, stderr)
	if lintFails {
		for _, s := range e.Systems {
			for _, w := range s.Warnings {
				fmt.Fprintln(stderr, w)
				status = 1
			}
		}
	}
	return status
}

func write(text string, stdout, stderr io.Writer) int {
	if _, err := io.WriteString(stdout, text); err != nil {
		fmt.Fprintln(stderr, "resilient:", err)
		return 1
	}
	return 0
}

func misuse(err error, stderr io.Writer) int {
	fmt.Fprintf(stderr, "resilient: %v\n\n%s", err, usage)
	return 2
}
