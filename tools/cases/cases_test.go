package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table is true of the sources, and docs/cases.md of the table.
func TestTable(t *testing.T) {
	o := options{root: "../..", table: "cases.txt", seen: "seen.tsv", doc: "docs/cases.md", list: "../shared/CASES.md"}
	table, err := readTable(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.check(o); err != nil {
		t.Error(err)
	}
}

// tiny is a module with a table, in which entries stands for one chapter.
func tiny(t *testing.T, entries string) options {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module tiny\n\ngo 1.26.0\n",
		"tiny.go": "package tiny\n\nfunc Max(a, b int) int {\n\tif a > b {\n\t\treturn a\n\t}\n\treturn b\n}\n\n" +
			"func Loop() {\n\tfor range 3 {\n\t}\n}\n",
		"tiny_test.go": "package tiny\n\nimport \"testing\"\n\n" +
			"// A-01: the greater one, and A-02.\nfunc TestMax(t *testing.T) {\n\tif n := Max(2, 1); n != 2 {\n\t\tt.Errorf(\"the greater one\\nis not %d\", n)\n\t}\n}\n\n" +
			"func TestCase_A03_A04(t *testing.T) { Loop() }\n\n" +
			"// A-05\nfunc TestRed(t *testing.T) { t.Error(\"as it is\") }\n",
		"table": "# a comment\n## A. All\n\n" + entries,
		"list":  "### A-01  one\n### A-02  two\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return options{root: dir, table: filepath.Join(dir, "table"), seen: filepath.Join(dir, "seen"), doc: "page.md", list: "list", jobs: 2}
}

const proved = "A-01  one\n  test  . TestMax\n  over  no HTTP\n  in    tiny.go\n  -     if a > b {\n  -     return a\n  +     if a > b {\n  +     return b\n  why   A reason,\n  why   in two lines.\n"

func TestProve(t *testing.T) {
	o := tiny(t, proved+`
A-02  two
  test  . TestMax
  over  no HTTP
  in    tiny.go
  -     return b
  +     return c
A-03  three
  test  . TestCase_A03_A04
  over  no HTTP
  in    tiny.go
  -     range 3
  +     range 4
A-05  five
  test  . TestRed
  over  no HTTP
  in    tiny.go
  -     range 3
  +     range 4
A-06  six
  test  . TestMax
  over  no HTTP
  in    tiny.go
  -     return
`)
	table, err := readTable(o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = table.prove(o, regexp.MustCompile("A"), &out)
	for _, want := range []string{
		"A-02: the mutation does not compile", "A-03: survives the mutation", "A-05: TestRed is not green as it is",
		`A-06: "return" is 2 times in tiny.go`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	for _, want := range []string{"A-01  TestMax                green; red with tiny.go: the greater one is not 1\n", "1 of 5 cases are proved"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if err := table.writeSeen(o.seen); err != nil {
		t.Fatal(err)
	}
	again, err := readTable(o)
	if err != nil {
		t.Fatal(err)
	}
	if e := again.entries[0]; e.sum != e.digest() || e.said != "the greater one is not 1" || again.entries[1].sum != "" {
		t.Errorf("read back: %+v", e)
	}
}

func TestCheck(t *testing.T) {
	o := tiny(t, proved+`
A-04  four
  test  . TestMax
  over  HTTP/1.1, HTTP/2
  in    tiny.go
  -     return c
A-03  three
  test  . TestCase_A03_A04
  over  HTTP/1.1, HTTP/2
  in    tiny.go
  -     range 3
A-01  one again
  test  . TestGone
  over  no HTTP
  in    tiny.go
  -     range 3
B-01  of another chapter
  test  . TestMax
  over  no HTTP
  in    tiny.go
  -     range 3
`)
	table, err := readTable(o)
	if err != nil {
		t.Fatal(err)
	}
	err = table.check(o)
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{
		"A-01 is there twice", "B-01 is in chapter A. All", "A-02 is not in the table", "A-04 is not in the list of faults",
		`A-04: "return c" is 0 times in tiny.go`, "A-04: neither the name nor the comment of TestMax has it", "A-03: TestCase_A03_A04 uses no HTTP/2",
		"A-01: there is no TestGone in .", "A-01: its mutation has not been seen red", "page.md is not what the table says",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "A-01: neither") || strings.Contains(err.Error(), "A-03: neither") {
		t.Error(err)
	}
}

func TestPage(t *testing.T) {
	o := tiny(t, proved)
	table, err := readTable(o)
	if err != nil {
		t.Fatal(err)
	}
	table.entries[0].said = "a | b"
	if err := table.writePage(o); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(o.root, o.doc))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"## A. All\n", "| **A-01** | one | TestMax | no HTTP | tiny.go: `if a > b { ⏎ return a` → `if a > b { ⏎ return b` | a \\| b |\n", "- **A-01**: A reason, in two lines.\n",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in:\n%s", want, page)
		}
	}
}

func TestReadTable(t *testing.T) {
	for entries, want := range map[string]string{
		"A-01  one\n  tset  . TestMax\n":                "is no line of a table",
		"  test  . TestMax\n":                           "is no line of a table",
		"A-01  one\n  test  . TestMax\n":                "needs test",
		strings.Replace(proved, "no HTTP", "HTTP/3", 1): "needs test",
	} {
		if _, err := readTable(tiny(t, entries)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", entries, err)
		}
	}
}
