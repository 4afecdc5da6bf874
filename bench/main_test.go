package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The program still compiles against the peers, runs, and writes a report with its charts. The rest of it is run by
// `make bench ARGS=-quick`.
func TestQuick(t *testing.T) {
	dir := t.TempDir()
	var stdout, stderr strings.Builder
	if code := run(t.Context(), []string{"-quick", "-only", "^(calls|layers|refusals)$", "-out", dir}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit status %d\n%s%s", code, &stdout, &stderr)
	}
	report, err := os.ReadFile(filepath.Join(dir, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## Goals", "A trial run", "| allocations added by bulkhead | ≤ 4 |", "failsafe-go", "](performance/calls.svg)"} {
		if !strings.Contains(string(report), want) {
			t.Errorf("not in the report: %s", want)
		}
	}
	if svg, err := os.ReadFile(filepath.Join(dir, "performance", "calls.svg")); err != nil || !strings.HasPrefix(string(svg), "<svg") {
		t.Errorf("%v, %.20q", err, svg)
	}
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]int{"-help": 0, "-nothing": 2, "more": 2, "-only (": 2} {
		var stdout, stderr strings.Builder
		if code := run(t.Context(), strings.SplitN(args, " ", 2), &stdout, &stderr); code != want {
			t.Errorf("%s: exit status %d, want %d", args, code, want)
		}
		if out := stdout.String() + stderr.String(); !strings.Contains(out, "Usage: bench") {
			t.Errorf("%s: %s", args, out)
		}
	}
}
