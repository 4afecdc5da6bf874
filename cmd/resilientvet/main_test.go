package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// build makes the program as its users do.
func build(t *testing.T) string {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "resilientvet")
	if out, err := exec.Command("go", "build", "-o", tool, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return tool
}

// run runs a command in dir, and returns what it says and whether it succeeds.
func run(t *testing.T, dir string, args ...string) (string, bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// findings returns the places and what was found there, by a word of the message.
func findings(out string) []string {
	words := map[string]string{
		"DefaultClient": "bareclient", "never closed": "bodyclose", "each request": "perrequest",
		"Timeout over": "clienttimeout", "takes the permits": "twosystems",
	}
	var found []string
	for _, m := range regexp.MustCompile(`(?m)(\w+\.go:\d+):\d+: (.*)$`).FindAllStringSubmatch(out, -1) {
		name := "?"
		for word, n := range words {
			if strings.Contains(m[2], word) {
				name = n
			}
		}
		found = append(found, m[1]+" "+name)
	}
	slices.Sort(found)
	return slices.Compact(found) // a package and its test variant
}

func TestProgram(t *testing.T) {
	tool, dir := build(t), filepath.Join("testdata", "service")
	every := []string{
		"service.go:12 bareclient", "service.go:12 bodyclose", "service.go:20 perrequest",
		"service.go:30 clienttimeout", "service.go:33 twosystems",
	}
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{"alone", []string{tool, "./..."}, every},
		{"go vet", []string{"go", "vet", "-vettool=" + tool, "./..."}, every},
		{"tests too", []string{"go", "vet", "-vettool=" + tool, "-bareclient.tests", "./..."}, append(slices.Clone(every), "service_test.go:9 bareclient")},
		{"one analyzer", []string{"go", "vet", "-vettool=" + tool, "-twosystems", "./..."}, every[4:]},
		{"not one", []string{tool, "-twosystems=false", "./..."}, every[:4]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, ok := run(t, dir, tt.args...)
			if got := findings(out); !slices.Equal(got, tt.want) {
				t.Errorf("found\n%q\nwant\n%q\n%s", got, tt.want, out)
			}
			if ok {
				t.Error("succeeded, though there are findings")
			}
		})
	}
}

// The library and its demo keep to what they ask of others.
func TestOwnRepository(t *testing.T) {
	tool := build(t)
	for _, dir := range []string{filepath.Join("..", ".."), filepath.Join("..", "demo")} {
		if out, ok := run(t, dir, "go", "vet", "-vettool="+tool, "./..."); !ok {
			t.Errorf("%s:\n%s", dir, out)
		}
	}
}
