// Cases keeps the proof that every fault of CASES.md, the list of faults seen in public, is covered: a test that names it,
// and one line of the library that, changed, turns that test red.
//
//	go -C tools run ./cases check
//	go -C tools run ./cases prove -only 'P-0' -update
//
// The table is cases.txt, whose head says how to read it. Check looks whether it is true of the sources, and runs nothing.
// Prove runs the tests, as they are and with each mutation. The tree is never written to: mutations reach the go command as
// overlays. With -update prove writes what it has seen to seen.tsv, and docs/cases.md; check -update writes the latter alone.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

type options struct {
	root   string // of the module under test
	table  string
	seen   string
	doc    string // from root
	list   string // CASES.md, from root
	only   string
	update bool
	jobs   int
}

func main() {
	var o options
	flags := flag.NewFlagSet("cases", flag.ExitOnError)
	flags.StringVar(&o.root, "C", "..", "root directory of the module under test")
	flags.StringVar(&o.table, "table", "cases/cases.txt", "the table")
	flags.StringVar(&o.seen, "seen", "cases/seen.tsv", "what the tests said of the mutations")
	flags.StringVar(&o.doc, "doc", "docs/cases.md", "the page made of both, from the root")
	flags.StringVar(&o.list, "list", "../shared/CASES.md", "the list of faults, from the root; without it the page stands for it")
	flags.StringVar(&o.only, "only", "", "prove only cases whose id matches this regular expression")
	flags.BoolVar(&o.update, "update", false, "write the page, and prove what it has seen")
	flags.IntVar(&o.jobs, "j", 2, "mutations tested at the same time")
	do := map[string]func(options) error{"check": runCheck, "prove": runProve}
	if len(os.Args) < 2 || do[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: cases check|prove [flags]")
		flags.PrintDefaults()
		os.Exit(2)
	}
	_ = flags.Parse(os.Args[2:]) // exits by itself
	if err := do[os.Args[1]](o); err != nil {
		fmt.Fprintln(os.Stderr, "cases:", err)
		os.Exit(1)
	}
}

func runCheck(o options) error {
	t, err := readTable(o)
	if err != nil {
		return err
	}
	if o.update {
		if err := t.writePage(o); err != nil {
			return err
		}
	}
	return t.check(o)
}

func runProve(o options) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	t, err := readTable(o)
	if err != nil {
		return err
	}
	proved := t.prove(o, only, os.Stdout)
	if !o.update {
		return proved
	}
	return errors.Join(proved, t.writeSeen(o.seen), t.writePage(o))
}

func (t *table) writePage(o options) error {
	page, err := t.page(o.root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.root, o.doc), []byte(page), 0o644)
}
