package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resilient-go/resilient/config"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fine := file("fine.yaml", "systems: {sber: {breaker: {slow_call: off}}}\n")
	unwise := file("unwise.yaml", "systems:\n  sber: {breaker: {slow_call: off, min_requests: 1}}\n  insurance: {}\n")
	wrong := file("wrong.yaml", "systems:\n  sber: {read_timeout: 30}\n  insurance: {totl_timeout: 5s, protocol: h2}\n")
	t.Setenv("CLIENT_SBER__TOKEN", "secret")

	const warned = "wise.yaml:2 systems.sber.breaker.min_requests = 1: the first failure"
	for _, c := range []struct {
		args   string
		status int
		stdout []string // nil: nothing
		stderr []string
		faults int // lines on stderr
	}{
		{"explain " + fine, 0, []string{"sber\n", "  read_timeout                  5s       default\n", "the application's: CLIENT_SBER__TOKEN"}, nil, 0},
		{"explain " + unwise, 0, []string{"  warning: ", warned, "insurance\n"}, nil, 0},
		{"explain -lint-fails " + fine, 0, []string{"sber\n"}, nil, 0},
		{"explain -lint-fails " + unwise, 1, []string{"  warning: ", warned}, []string{warned, "systems.insurance.breaker.slow_call"}, 2},
		{"explain " + wrong, 1, nil, []string{
			"config: " + wrong + `:2 systems.sber.read_timeout = "30": must be a duration`,
			"config: " + wrong + `:3 systems.insurance.totl_timeout = "5s"`,
			"config: " + wrong + `:3 systems.insurance.protocol = "h2"`,
		}, 3},
		{"explain " + fine + "x", 1, nil, []string{"config: open "}, 1},
		{"explain", 0, []string{"no systems\n"}, nil, 0},
		{"schema", 0, []string{`"https://json-schema.org/draft/2020-12/schema"`}, nil, 0},
		{"help", 0, []string{"Usage: resilient"}, nil, 0},
		{"-h", 0, []string{"Usage: resilient"}, nil, 0},
		{"--help", 0, []string{"Usage: resilient"}, nil, 0},
		{"explain -h", 0, []string{"Usage: resilient"}, nil, 0},
		{"schema -h", 0, []string{"Usage: resilient"}, nil, 0},
		{"", 2, nil, []string{"resilient: no command\n\nUsage: "}, -1},
		{"print " + fine, 2, nil, []string{`resilient: no such command: "print"`}, -1},
		{"explain -lint " + fine, 2, nil, []string{"resilient: flag provided but not defined: -lint"}, -1},
		{"explain " + fine + " " + wrong, 2, nil, []string{"resilient: unexpected argument: "}, -1},
		{"explain " + fine + " -lint-fails", 2, nil, []string{`unexpected argument: "-lint-fails" (flags come before FILE)`}, -1},
		{"schema " + fine, 2, nil, []string{"resilient: unexpected argument: "}, -1},
	} {
		t.Run(c.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if status := run(strings.Fields(c.args), &stdout, &stderr); status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			for name, out := range map[string]struct {
				got  string
				want []string
			}{"stdout": {stdout.String(), c.stdout}, "stderr": {stderr.String(), c.stderr}} {
				if out.want == nil && out.got != "" || strings.Contains(out.got, "secret") {
					t.Errorf("%s: %s", name, out.got)
				}
				for _, want := range out.want {
					if !strings.Contains(out.got, want) {
						t.Errorf("%s: %s\nwant %s", name, out.got, want)
					}
				}
			}
			if n := strings.Count(stderr.String(), "\n"); c.faults >= 0 && n != c.faults {
				t.Errorf("%d lines on stderr, want %d: %s", n, c.faults, stderr.String())
			}
		})
	}
}

func TestSchemaIsJSON(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if status := run([]string{"schema"}, &stdout, &stderr); status != 0 || stdout.String() != config.Schema() || !json.Valid(stdout.Bytes()) {
		t.Error(status, stdout.String(), stderr.String())
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputFails(t *testing.T) {
	for _, command := range []string{"schema", "explain", "help"} {
		var stderr bytes.Buffer
		if status := run([]string{command}, fullDisk{}, &stderr); status != 1 || stderr.String() != "resilient: no space left\n" {
			t.Error(command, status, stderr.String())
		}
	}
}
