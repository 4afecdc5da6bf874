package resilient_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program on the first screen of README works when it is pasted, and is the same in both languages.
func TestReadme(t *testing.T) {
	first := ""
	for _, name := range []string{"README.md", "README.ru.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "```go\n")
		code, _, ok := strings.Cut(rest, "```\n")
		if !ok || !strings.HasPrefix(code, "package main\n") {
			t.Fatalf("%s has no program", name)
		}
		if first == "" {
			first = code
		} else if code != first {
			t.Errorf("%s has another program", name)
		}
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
