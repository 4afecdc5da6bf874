package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const page = "../docs/drop-in.md"

// marked returns what the sources have between "// drop-in" and "// end", by directory, without its indentation.
func marked(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code, inside := "", false
		for line := range strings.Lines(string(text)) {
			switch strings.TrimSpace(line) {
			case "// drop-in":
				code, inside = "", true
			case "// end":
				dir := filepath.Dir(name)
				all[dir] = append(all[dir], code)
				inside = false
			default:
				if inside {
					code += strings.TrimPrefix(line, "\t")
				}
			}
		}
		if inside {
			t.Errorf("%s: a mark has no end", name)
		}
	}
	return all
}

// The page quotes each example's lines as they are, under a heading of its own which links to it, and the tests that
// it names are there.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	sources := marked(t)
	if len(sources) < 14 {
		t.Errorf("only %d directories have marks", len(sources))
	}
	link := regexp.MustCompile(`\]\(\.\./examples/([a-z0-9]+)\)`)
	block := regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	test := regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	found := map[string]bool{}
	for i, section := range strings.Split(string(text), "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		dirs := link.FindAllStringSubmatch(section, -1)
		blocks := block.FindAllStringSubmatch(section, -1)
		if len(dirs) == 0 {
			if len(blocks) != 0 {
				t.Errorf("%q has code of no example", title)
			}
			continue
		}
		if len(dirs) != 1 {
			t.Errorf("%q has %d examples, want one", title, len(dirs))
		}
		dir := dirs[0][1]
		found[dir] = true
		var quoted []string
		for _, b := range blocks {
			quoted = append(quoted, b[1])
		}
		if !slices.Equal(quoted, sources[dir]) {
			t.Errorf("section %d, %q:\n%s\nin %s:\n%s", i+1, title, strings.Join(quoted, "\n"), dir, strings.Join(sources[dir], "\n"))
		}
		tests := test.FindAllStringSubmatch(section, -1)
		if len(tests) == 0 {
			t.Errorf("%q names no test of its trap", title)
		}
		for _, name := range tests {
			if !has(t, dir, name[1]) {
				t.Errorf("%q: there is no %s in %s", title, name[1], dir)
			}
		}
	}
	for dir := range sources {
		if !found[dir] {
			t.Errorf("%s is not on the page", dir)
		}
	}
}

func has(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(dir + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(name string) bool {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "\nfunc "+test+"(t *testing.T) {\n")
	})
}
