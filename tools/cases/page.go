package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

const intro = `# Faults seen in public

Faults that users of HTTP clients, breakers, bulkheads and configuration loaders have reported in public, and what holds
each of them here. A case has a test that names it, and a mutation: a change of one place in the library that turns this
very test red. ` + "`make cases`" + ` makes every one of them, without touching the tree, and runs its test as it is (green) and
with the change (red). So no test here passes for the wrong reason. The last column is what the test said.

Tests over HTTP run over an in-memory network in fake time, over both protocols where both apply; "any" is a transport of
the test's own, which does what no real one does. Other tests that name the case are its sisters: the same kind of fault
elsewhere.

<!-- Made of tools/cases/cases.txt by make cases-page. -->
`

// page is docs/cases.md.
func (t *table) page(root string) (string, error) {
	var b strings.Builder
	b.WriteString(intro)
	named := tests{}
	packages, err := packagesWithTests(root)
	if err != nil {
		return "", err
	}
	for _, chapter := range t.chapters {
		fmt.Fprintf(&b, "\n## %s\n\n| | fault | test | over | mutation | then the test says |\n|---|---|---|---|---|---|\n", chapter)
		var notes strings.Builder
		for _, e := range t.entries {
			if e.chapter != chapter {
				continue
			}
			sisters := ""
			for _, pkg := range packages {
				all, err := named.of(filepath.Join(root, pkg))
				if err != nil {
					return "", err
				}
				for _, name := range slices.Sorted(maps.Keys(all)) {
					if all[name].names(e.id) && (pkg != e.pkg || name != e.test) {
						sisters += ", " + where(pkg, name)
					}
				}
			}
			if sisters != "" {
				sisters = "; also " + sisters[2:]
			}
			fmt.Fprintf(&b, "| **%s** | %s | %s%s | %s | %s: %s → %s | %s |\n",
				e.id, cell(e.title), where(e.pkg, e.test), sisters, e.over, e.file, code(e.old), code(e.text), cell(e.said))
			if e.why != "" {
				fmt.Fprintf(&notes, "- **%s**: %s\n", e.id, e.why)
			}
		}
		if notes.Len() > 0 {
			fmt.Fprintf(&b, "\nWhat is decided here:\n\n%s", notes.String())
		}
	}
	return b.String(), nil
}

// packagesWithTests returns the directories of the module that have tests, from its root, without those of other modules.
func packagesWithTests(root string) ([]string, error) {
	var all []string
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "*/*/*_test.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			dir, err := filepath.Rel(root, filepath.Dir(file))
			if err != nil {
				return nil, err
			}
			if first, _, _ := strings.Cut(filepath.ToSlash(dir), "/"); !slices.Contains([]string{"bench", "cmd", "e2e", "examples", "tools"}, first) {
				all = append(all, filepath.ToSlash(dir))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// where is a test by its package, of which the root's goes without saying.
func where(pkg, name string) string {
	if pkg == "." {
		return name
	}
	return pkg + " " + name
}

func code(lines []string) string {
	text := strings.ReplaceAll(strings.Join(lines, " ⏎ "), "|", `\|`)
	if text == "" {
		return "nothing"
	}
	return "`" + text + "`"
}

// cell is text that stands in a table's cell as it is.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "`", "'").Replace(s)
}
