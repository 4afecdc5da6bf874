package resilienttest_test

import (
	"os"
	"strings"
	"testing"
)

// The code of docs/testing.md is that of the examples, line by line, but for how far it is indented.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```")
	if len(blocks) < 11 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for i := 1; i < len(blocks); i += 2 {
		block, ok := strings.CutPrefix(blocks[i], "go\n")
		if !ok {
			t.Errorf("not declared as Go:\n%s", blocks[i])
		}
		if !strings.Contains(flush(string(code)), "\n"+flush(block)) {
			t.Errorf("not in example_test.go:\n%s", block)
		}
	}
}

// flush takes the indentation away.
func flush(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}
