package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `// Package p is counted.
package p // 1

/* a comment
over lines */
var s = ` + "`two" + `

lines` + "`" + ` // 2, 3, 4

func f() { // 5
	// nothing
	/* x */ g() // 6
} // 7
`

func TestCodeLines(t *testing.T) {
	if got := codeLines([]byte(sample)); got != 7 {
		t.Errorf("codeLines = %d, want 7", got)
	}
}

func TestLimits(t *testing.T) {
	dir := t.TempDir()
	for name, src := range map[string]string{"a.go": sample, "a_test.go": sample} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		limit, fileLimit int
		want             string
	}{
		{8, 14, ""},
		{7, 14, "7 lines of code"},
		{8, 12, "has 13 lines"},
	} {
		err := run([]string{dir}, tt.limit, tt.fileLimit)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("run(%d, %d) = %v, want %q", tt.limit, tt.fileLimit, err, tt.want)
		}
	}
	if run([]string{t.TempDir()}, 8, 14) == nil {
		t.Error("no complaint about a directory without code")
	}
}
