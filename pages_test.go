package resilient_test

import (
	"errors"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/resilient-go/resilient/config"
)

// A block is what stands between the fences of a page.
type block struct {
	line     int
	language string
	from     string // "example_test.go ExampleX", if a comment above it says so: <!-- from example_test.go ExampleX -->
	text     string
}

var fromComment = regexp.MustCompile(`^<!-- from (.+) -->$`)

func blocks(page string) (all []block) {
	var b *block
	from := ""
	n := 0
	for line := range strings.Lines(page) {
		n++
		line = strings.TrimSuffix(line, "\n")
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case b != nil && line == "```":
			all, b = append(all, *b), nil
		case b != nil:
			b.text += line + "\n"
		case fence:
			b, from = &block{line: n, language: language, from: from}, ""
		case fromComment.MatchString(line):
			from = fromComment.FindStringSubmatch(line)[1]
		case line != "":
			from = ""
		}
	}
	return all
}

// pages are the texts in English but for the rule book, which has tests of its own.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("docs/*.md")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	all := map[string]string{}
	for _, name := range append(names, "README.md") {
		if strings.HasPrefix(name, "docs/rules.") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}

// What a page shows is so: its Go code is that of a program or an example which is run, or it compiles; its files of settings
// can be loaded; the targets of its commands exist.
func TestPages(t *testing.T) {
	imports := newImporter(t)
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	target := regexp.MustCompile(`(?m)^ *make ([a-z-]+)`)
	for name, text := range pages(t) {
		all := blocks(text)
		for i, b := range all {
			switch {
			case b.from != "":
				if err := isFrom(b); err != nil {
					t.Errorf("%s:%d: %v", name, b.line, err)
				}
			case b.language == "go" && strings.HasPrefix(b.text, "package main\n"):
				want := ""
				if i+1 < len(all) && all[i+1].language == "text" {
					want = all[i+1].text
				}
				program(t, name, b, want)
			case b.language == "go":
				if err := compile(imports, strings.ReplaceAll(b.text, "{ … }", `{ panic("…") }`)); err != nil && !somewhere(t, b.text) {
					t.Errorf("%s:%d: %v\n%s", name, b.line, err, b.text)
				}
			case b.language == "yaml" && strings.Contains(b.text, "systems:"):
				if configs, err := config.Load(clients(t, b.text)); err != nil || len(configs) == 0 {
					t.Errorf("%s:%d: %v", name, b.line, err)
				}
			case b.language == "sh" || b.language == "":
				for _, m := range target.FindAllStringSubmatch(b.text, -1) {
					if !strings.Contains(string(makefile), "\n"+m[1]+":") {
						t.Errorf("%s:%d: there is no make %s", name, b.line, m[1])
					}
				}
			}
		}
	}
}

// program runs one that says what it prints, and vets others, which may need a network.
func program(t *testing.T, name string, b block, want string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", file}
	if want == "" {
		args[0] = "vet"
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("%s:%d: go %s: %v\n%s\nwant\n%s", name, b.line, args[0], err, out, want)
	}
}

// isFrom compares a block with the body of the func that it is from, all of it or lines in a row, or with the file.
func isFrom(b block) error {
	name, fn, _ := strings.Cut(b.from, " ")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if fn == "" {
		if !within(b.text, string(text)) {
			return errors.New("it is not in " + name)
		}
		return nil
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == fn {
			if !within(b.text, string(text[files.Position(f.Body.Lbrace).Offset+1:files.Position(f.Body.Rbrace).Offset])) {
				return errors.New("it is not in " + fn + " of " + name)
			}
			return nil
		}
	}
	return errors.New("there is no " + fn + " in " + name)
}

// within looks for lines in a row, whatever they are indented by.
func within(part, whole string) bool {
	return strings.TrimSpace(part) != "" && strings.Contains("\n"+flat(whole), "\n"+flat(part))
}

func flat(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return strings.Trim(b.String(), "\n") + "\n"
}

// sources are the Go files of this tree, other modules' included, whose tests compile them.
var sources = sync.OnceValues(func() (all []string, err error) {
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go"):
			text, err := os.ReadFile(path)
			all = append(all, flat(string(text)))
			return err
		}
		return nil
	})
	return all, err
})

// somewhere reports whether code is part of a file of this tree: code that needs what this module has not.
func somewhere(t *testing.T, code string) bool {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(text string) bool { return within(code, text) })
}

// Go code is written as gofmt does, links lead somewhere, and the index has every page.
func TestPagesAreWellFormed(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.+)$`)
	anchors := func(text string) (all []string) {
		for _, m := range heading.FindAllStringSubmatch(text, -1) {
			all = append(all, anchor(m[1]))
		}
		return all
	}
	code := regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]*`")
	all := pages(t)
	for name, text := range all {
		for _, b := range blocks(text) {
			if b.language != "go" || name == "README.md" || strings.Contains(b.text, "…") { // README sets its comments closer
				continue
			}
			if want, err := format.Source([]byte(b.text)); err != nil || string(want) != b.text {
				t.Errorf("%s:%d: not as gofmt writes it: %v\n%s", name, b.line, err, want)
			}
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			file, part, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			path := name
			if file != "" {
				path = filepath.Join(filepath.Dir(name), file)
			}
			to, err := os.ReadFile(path)
			if err != nil {
				if info, dir := os.Stat(path); dir != nil || !info.IsDir() {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if part != "" && strings.HasSuffix(path, ".md") && !slices.Contains(anchors(string(to)), part) {
				t.Errorf("%s: %s has no heading for #%s", name, path, part)
			}
		}
		if name != "README.md" && name != "docs/README.md" {
			if !strings.Contains(all["docs/README.md"], "]("+filepath.Base(name)+")") {
				t.Errorf("docs/README.md has no link to %s", name)
			}
			if !strings.HasPrefix(text, "# ") {
				t.Errorf("%s has no title", name)
			}
		}
	}
}
