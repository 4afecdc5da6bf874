package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// tell prints what became of a suite, and of what failed the end of its output.
func (c *comparison) tell(w io.Writer) {
	fmt.Fprintf(w, "%-29s %4d bare, %4d wrapped, %5.1f %%, %6d requests, %4.0fs\n", c.name, c.bare, c.wrapped, c.share(), c.requests, c.took.Seconds())
	for _, r := range sorted(c.alone) {
		fmt.Fprintf(w, "    fails bare: %s\n", r.name)
	}
	for _, r := range sorted(c.again) {
		fmt.Fprintf(w, "    passes in a second run: %s\n", r.name)
	}
	for _, r := range sorted(c.failed) {
		if c.known(r) {
			fmt.Fprintf(w, "    differs, as is known: %s\n", r.name)
			continue
		}
		fmt.Fprintf(w, "    FAILS WRAPPED: %s %s\n", r.pkg.ImportPath, r.name)
		lines := strings.Split(strings.TrimSpace(r.output.String()), "\n")
		for _, l := range lines[max(0, len(lines)-20):] {
			fmt.Fprintf(w, "        %s\n", l)
		}
	}
	if fault := c.fault(); fault != "" {
		fmt.Fprintf(w, "    FAULT: %s\n", fault)
	}
}

func sorted(all []*result) []*result {
	return slices.SortedFunc(slices.Values(all), func(a, b *result) int { return strings.Compare(a.name, b.name) })
}

// verdict prints the sum, and returns an error if a suite is not as it should be.
func verdict(w io.Writer, all []*comparison) error {
	sum := total(all)
	fmt.Fprintf(w, "%-29s %4d bare, %4d wrapped, %5.2f %%, %6d requests\n", "all", sum.bare, sum.wrapped, sum.share(), sum.requests)
	var faulty []string
	for _, c := range all {
		if c.fault() != "" {
			faulty = append(faulty, c.name)
		}
	}
	if len(all) == 0 || len(faulty) > 0 {
		return fmt.Errorf("%d suites, not as they should be: %q", len(all), faulty)
	}
	return nil
}

func total(all []*comparison) (sum comparison) {
	for _, c := range all {
		sum.bare += c.bare
		sum.wrapped += c.wrapped
		sum.requests += c.requests
	}
	return sum
}

// page is docs/foreign.md.
func page(w *workshop, all []*comparison) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Suites of others

Written by `+"`make foreign ARGS=-write`"+`, with %s. It runs the tests of net/http and of libraries that use an http.Client twice,
bare and with the transport of every http.Client in the process, the library's and its tests', wrapped by this library:
one client of ours over each transport, bulkhead, breaker and timeouts on, with settings so generous that none has a reason to
refuse (bounds of 60 s and 5 min, a breaker that only counts). Nothing of a suite is changed for that: net/http's Client
asks for its transport in two places, which the go command's -overlay has ask us. The same program is run both times.

Sources come from the toolchain and through the module proxy, checked by their sums, and are kept nowhere. A test is a test
or a subtest; those that are skipped count nowhere. What passes only in a second run, alone, counts, and the program says so.
It fails if less than %d %% of what passes bare in a suite passes wrapped, if a test fails that is not named below, or if no request went
through the library. A RoundTrip on a transport itself, without an http.Client, is not wrapped.

| suite | what it is | version | pass bare | pass wrapped | | requests |
|---|---|---|--:|--:|--:|--:|
`, w.version, least)
	for _, c := range all {
		version := c.version
		if c.module == "" {
			version = w.version
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %.1f %% | %d |\n", c.name, c.what, version, c.bare, c.wrapped, c.share(), c.requests)
	}
	sum := total(all)
	fmt.Fprintf(&b, "| all | | | %d | %d | %.2f %% | %d |\n", sum.bare, sum.wrapped, sum.share(), sum.requests)
	list(&b, all, "Excluded", "They look inside *http.Transport, and are not run wrapped.", func(c *comparison) []note { return c.excluded })
	list(&b, all, "Known to differ", "They are run, and count as failed when they fail.", func(c *comparison) []note { return c.differs })
	list(&b, all, "Not run", "Neither bare nor wrapped.", func(c *comparison) []note { return c.unfit })
	list(&b, all, "Failed bare", "In the run that wrote this. They count nowhere.", func(c *comparison) (notes []note) {
		for _, r := range sorted(c.alone) {
			notes = append(notes, note{r.name, ""})
		}
		return notes
	})
	return b.Bytes()
}

func list(w io.Writer, all []*comparison, title, about string, of func(*comparison) []note) {
	fmt.Fprintf(w, "\n## %s\n\n%s\n\n", title, about)
	for _, c := range all {
		for _, n := range of(c) {
			fmt.Fprintf(w, "- %s: `%s`", c.name, strings.ReplaceAll(n.tests, "|", "`, `"))
			if n.reason != "" {
				fmt.Fprintf(w, " %s.", n.reason)
			}
			fmt.Fprintln(w)
		}
	}
}
