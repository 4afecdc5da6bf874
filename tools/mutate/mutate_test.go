package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const tiny = "testdata/tiny"

func TestFates(t *testing.T) {
	argued := filepath.Join(t.TempDir(), "argued.txt")
	write(t, argued, `
# a comment
tiny.go: Max: boundary: a > b: of two equal numbers either is the greater
tiny.go: Kind: case: case string:: to show that the text may have colons
tiny.go: Shout: negate: loud: wrong, a test catches it
tiny.go: Gone: delete: x++: the code has changed
other.go: Gone: delete: x++: of a package that is not under test
`)
	before := read(t, filepath.Join(tiny, "tiny.go"))
	for _, each := range []bool{false, true} { // the fates are the same
		o := options{each: each, root: tiny, argued: argued, filter: "Max|Shout|Wait|Kind: case|Send", least: 95, jobs: 2, grace: time.Second}
		var out bytes.Buffer
		ok, err := mutate(o, []string{"."}, &out)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			t.Error("18 of 19 are not 95 %")
		}
		for _, want := range []string{
			"argued: tiny.go:8: Max: boundary: a > b\n    if a > b {\n    of two equal numbers",
			"argued: tiny.go:37: Kind: case: case string:\n    case string:\n    to show",
			"survived: tiny.go:18: Shout: delete: n = len(s)\n    n = len(s)\n",
			"caught, though it is argued for: tiny.go:17: Shout: negate: loud\n",
			"argued, but there is no such mutant: tiny.go: Gone: delete: x++",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q", want)
			}
		}
		for _, not := range []string{"other.go", "Wait", "Send", "survived: tiny.go:8"} { // Wait's mutants fail or hang; Send's is caught by package use
			if strings.Contains(out.String(), not) {
				t.Errorf("unexpected %q", not)
			}
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if got := strings.Join(strings.Fields(lines[len(lines)-1]), " "); got != "all 34 13 18 2 1 94.7" {
			t.Errorf("in all: %s", got)
		}
		if !bytes.Equal(before, read(t, filepath.Join(tiny, "tiny.go"))) {
			t.Error("the source has changed")
		}
		if t.Failed() {
			t.Logf("each by itself: %t\n%s", each, out.String())
		}
	}
}

// TestViable deletes the last use of an import and of nothing else, and a variable's declaration, which cannot go.
func TestViable(t *testing.T) {
	pkgs, err := load(tiny, []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{
		"s = strings.ToUpper(s)": true,  // the import stays, as _
		"n := len(s)":            false, // n is used further down
		"return b":               false, // missing return
		"i++":                    true,
		"i := 0":                 false,
	}
	for _, m := range pkgs[0].mutants() {
		if viable, ok := want[m.text]; ok && m.kind == "delete" {
			delete(want, m.text)
			if m.viable() != viable {
				t.Errorf("%s: viable = %t", m, !viable)
			}
		}
	}
	if len(want) > 0 {
		t.Error("no such mutants:", want)
	}
}

// TestTogether finds those that have to be built by themselves: what has no guard, or none that compiles.
func TestTogether(t *testing.T) {
	pkgs, err := load(tiny, []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	p := pkgs[0]
	all := p.mutants()
	for _, m := range all {
		if !m.viable() {
			m.status = notViable
		}
	}
	p.timeout = time.Minute
	if err := p.schemas(options{root: tiny}, t.TempDir(), all); err != nil {
		t.Fatal(err)
	}
	var alone []string
	for _, m := range all {
		if m.status == "" && m.schema == nil {
			alone = append(alone, m.kind+": "+m.text)
		}
	}
	want := []string{"case: case int:", "case: case string:", "step: i++ -> i--", "delete: i++"}
	slices.Sort(alone)
	slices.Sort(want)
	if !slices.Equal(alone, want) {
		t.Errorf("alone: %q", alone)
	}
}

func TestSample(t *testing.T) {
	o := options{root: tiny, argued: os.DevNull, list: true, sample: 3, seed: 7}
	list := func() string {
		var out bytes.Buffer
		if _, err := mutate(o, []string{"."}, &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	first := list()
	if n := strings.Count(first, "\n"); n != 4 { // with a line that names the seed
		t.Errorf("%d lines:\n%s", n, first)
	}
	if again := list(); again != first {
		t.Errorf("another sample with the same seed:\n%s%s", first, again)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
