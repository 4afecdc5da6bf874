package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// README names every rule of the rule book, and no other; every file of ours, and no other; and its code is ours.
func TestReadme(t *testing.T) {
	t.Parallel()
	page, rules := read(t, "README.md"), read(t, filepath.Join("..", "..", "docs", "rules.md"))
	id := regexp.MustCompile(`\b[A-Z]+-X?\d\b`)
	var want []string
	for _, heading := range regexp.MustCompile(`(?m)^### .*`).FindAllString(rules, -1) {
		want = append(want, id.FindAllString(heading, -1)...)
	}
	var got []string
	for _, bold := range regexp.MustCompile(`\*\*([^*]*)\*\*`).FindAllStringSubmatch(page, -1) {
		got = append(got, id.FindAllString(bold[1], -1)...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) || len(want) < 40 {
		t.Errorf("the rules are\n%q\nwant\n%q", got, want)
	}

	code := ""
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		if !strings.HasSuffix(path, "_test.go") {
			code += "\n" + flush(read(t, path))
			if !strings.Contains(page, "`"+filepath.ToSlash(path)+"`") && !strings.Contains(path, ".gen.") {
				t.Errorf("no word of %s", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, file := range regexp.MustCompile("`([a-z_/]+\\.(?:go|yaml))`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(file[1]); err != nil {
			t.Error(err)
		}
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) != 4 {
		t.Errorf("%d blocks of code", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(code, "\n"+flush(b[1])) {
			t.Errorf("nowhere in the code:\n%s", b[1])
		}
	}
}

// flush takes the indentation away.
func flush(code string) string {
	return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(code, "")
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
