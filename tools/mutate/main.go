// Mutate measures what a package's tests notice: it changes the code in one place at a time and runs them.
//
//	go -C tools run ./mutate -C .. ./internal/exchange ./semaphore
//
// A mutant negates a condition, deletes a statement, drops a case, moves a comparison's boundary, makes a whole number one
// more or less, or returns something else: nothing, the opposite, two results in each other's place. It is caught when a test
// of its package fails or hangs, or else one of the whole module. The tree is never written to: mutants reach the go command
// as overlays, most of them together, each behind a switch. Survivors that change nothing a test could see are argued for in a
// file, and not counted.
// The exit status is 1 when fewer than -min percent of the viable, unargued mutants are caught.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

type options struct {
	root, argued, filter string
	least                float64
	list, each, own      bool
	sample, jobs         int
	seed                 uint64
	grace                time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.root, "C", ".", "root directory of the module under test")
	flag.StringVar(&o.argued, "argued", "mutate/argued.txt", "file of survivors argued to be equivalent")
	flag.StringVar(&o.filter, "run", "", "only mutants whose line in -list matches this regular expression")
	flag.Float64Var(&o.least, "min", 95, "least percentage of viable, unargued mutants caught")
	flag.BoolVar(&o.list, "list", false, "list the mutants and run nothing")
	flag.BoolVar(&o.each, "each", false, "build each mutant by itself, which takes longer, and changes nothing else in its file")
	flag.BoolVar(&o.own, "own", false, "only the tests of the mutant's package: quicker, and finds survivors that other packages' tests catch")
	flag.IntVar(&o.sample, "sample", 0, "only so many mutants, chosen at random; 0 = all")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of -sample")
	flag.IntVar(&o.jobs, "j", runtime.NumCPU(), "mutants tested at the same time")
	flag.DurationVar(&o.grace, "grace", 10*time.Second, "a mutant hangs when its tests take this and ten times as long as without it")
	flag.Parse()
	ok, err := mutate(o, flag.Args(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	if !ok {
		os.Exit(1)
	}
}

// mutate tests the mutants of the packages and says whether enough of them were caught.
func mutate(o options, patterns []string, out io.Writer) (bool, error) {
	filter, err := regexp.Compile(o.filter)
	if err != nil {
		return false, err
	}
	pkgs, err := load(o.root, patterns)
	if err != nil {
		return false, err
	}
	var all []*mutant
	for _, p := range pkgs {
		all = append(all, p.mutants()...)
	}
	if err := readArgued(o.argued, pkgs, all, out); err != nil {
		return false, err
	}
	all = slices.DeleteFunc(all, func(m *mutant) bool { return !filter.MatchString(m.String()) })
	if o.sample > 0 && o.sample < len(all) {
		fmt.Fprintf(out, "%d of %d mutants, -seed %d\n", o.sample, len(all), o.seed)
		rand.New(rand.NewPCG(o.seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:o.sample]
	}
	if len(all) == 0 {
		return false, fmt.Errorf("no mutants in %v", patterns)
	}
	for _, m := range all {
		if !m.viable() {
			m.status = notViable
		}
		if o.list {
			fmt.Fprintf(out, "%-10s %s\n", m.status, m)
		}
	}
	if o.list {
		return true, nil
	}
	if err := runAll(o, pkgs, all); err != nil {
		return false, err
	}
	return report(out, pkgs, all) >= o.least, nil
}

// readArgued reads the lines `path: function: kind: text: reason` and gives each mutant its reason, if it has one.
// The first four are as -list prints them, without the line number, which shifts. Entries without a mutant are reported.
func readArgued(path string, pkgs []*pkg, all []*mutant, out io.Writer) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		used := false
		for _, m := range all {
			key := strings.Join([]string{m.file, m.function, m.kind, m.text, ""}, ": ") // the text may have colons too
			if reason := strings.TrimPrefix(line, key); reason != line && reason != "" {
				m.reason, used = reason, true
			}
		}
		file, _, _ := strings.Cut(line, ": ")
		if !used && slices.ContainsFunc(pkgs, func(p *pkg) bool { return p.files[file] != nil }) {
			fmt.Fprintln(out, "argued, but there is no such mutant:", line)
		}
	}
	return nil
}

// report prints the survivors and the table, and returns the percentage caught in all.
func report(out io.Writer, pkgs []*pkg, all []*mutant) (percent float64) {
	count := map[string]map[status]int{"all": {}}
	names := []string{}
	for _, p := range pkgs {
		names, count[p.ImportPath] = append(names, p.ImportPath), map[status]int{}
	}
	for _, m := range all {
		switch {
		case m.status == survived && m.reason != "":
			m.status = arguedFor
			fmt.Fprintf(out, "%s: %s\n    %s\n    %s\n", m.status, m, m.source, m.reason)
		case m.status == survived:
			fmt.Fprintf(out, "%s: %s\n    %s\n", m.status, m, m.source)
		case m.reason != "":
			fmt.Fprintf(out, "%s, though it is argued for: %s\n", m.status, m)
		}
		count[m.pkg.ImportPath][m.status]++
		count["all"][m.status]++
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "package\tmutants\tnot viable\tcaught\targued\tsurvived\tcaught %\t")
	for _, name := range append(names, "all") {
		n := count[name]
		missed := float64(n[survived]) / float64(max(1, n[caught]+n[survived]))
		percent = 100 * (1 - missed)
		sum := n[caught] + n[survived] + n[arguedFor] + n[notViable]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%.1f\t\n", name, sum, n[notViable], n[caught], n[arguedFor], n[survived], percent)
	}
	w.Flush()
	return percent
}
