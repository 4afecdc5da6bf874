// Deps checks the modules that a module's packages are made of: each has a licence that is known and allowed, and is
// written down in a file with its version, so that another one is a decision that is seen. -write writes the file.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// allowed are the licences that a library under MIT may be linked with, and whoever uses it needs no lawyer for.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "MIT", "MPL-2.0"}

// systems are the ones for which dependencies are looked at; they may differ.
var systems = []string{"linux", "darwin", "windows"}

const head = `# Dependencies

What this library's packages are made of, with the licences that were found in the modules. ` + "`make deps`" + ` compares it with
what is so, and refuses a licence other than %s; ` + "`make deps ARGS=-write`" + ` writes it.

| module | version | licence | in |
|---|---|---|---|
`

func main() {
	dir := flag.String("C", ".", "the module's directory")
	file := flag.String("file", "docs/dependencies.md", "where the modules are written down, below that")
	write := flag.Bool("write", false, "write the file")
	flag.Parse()
	if err := run(*dir, filepath.Join(*dir, *file), *write); err != nil {
		fmt.Fprintln(os.Stderr, "deps:", err)
		os.Exit(1)
	}
}

// A module is one that packages come from.
type module struct {
	Path, Version, Dir string
	Main               bool

	tests    bool // only the tests need it
	licences []string
}

func run(dir, file string, write bool) error {
	mods, err := list(dir)
	if err != nil {
		return err
	}
	for i := range mods {
		if mods[i].licences, err = licencesIn(mods[i].Dir); err != nil {
			return err
		}
	}
	if err := judge(mods); err != nil {
		return err
	}
	text := table(mods)
	if write {
		return os.WriteFile(file, []byte(text), 0o644)
	}
	known, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if diff := compare(string(known), text); diff != "" {
		return fmt.Errorf("%s is not what is so:\n%s     if that is meant: make deps ARGS=-write", file, diff)
	}
	fmt.Printf("%d modules, as they are written down\n", len(mods))
	return nil
}

// list returns the modules of the packages below dir, sorted, those that only tests need marked.
func list(dir string) ([]module, error) {
	found := map[string]module{}
	for _, tests := range []bool{false, true} {
		for _, system := range systems {
			cmd := exec.Command("go", "list", "-deps", fmt.Sprintf("-test=%v", tests), "-json=Module", "./...")
			cmd.Dir, cmd.Stderr = dir, os.Stderr
			cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
			out, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("go list: %w", err)
			}
			for d := json.NewDecoder(bytes.NewReader(out)); ; {
				var p struct{ Module *module }
				if err := d.Decode(&p); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					return nil, fmt.Errorf("go list: %w", err)
				}
				if m := p.Module; m != nil && !m.Main && found[m.Path].Path == "" {
					m.tests = tests
					found[m.Path] = *m
				}
			}
		}
	}
	var mods []module
	for _, m := range found {
		mods = append(mods, m)
	}
	slices.SortFunc(mods, func(a, b module) int {
		if a.tests != b.tests {
			return map[bool]int{false: -1, true: 1}[a.tests]
		}
		return cmp.Compare(a.Path, b.Path)
	})
	return mods, nil
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)([-.].*)?$`)

// licencesIn returns what the licence files of a module say, "unknown" for one that says none of what is known here.
func licencesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if e.IsDir() || !licenceFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, classify(string(text))...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// classify returns the licences that a text has, by the words that each of them begins with or alone has.
func classify(text string) (found []string) {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	has := func(words string) bool { return strings.Contains(text, words) }
	redistribution := has("redistribution and use in source and binary forms, with or without modification, are permitted")
	for _, l := range []struct {
		name string
		is   bool
	}{
		{"MIT", has("permission is hereby granted, free of charge, to any person obtaining a copy of this software")},
		{"Apache-2.0", has("apache license, version 2.0") || has("apache license version 2.0")},
		{"BSD-3-Clause", redistribution && has("neither the name")},
		{"BSD-2-Clause", redistribution && !has("neither the name")},
		{"MPL-2.0", has("mozilla public license, version 2.0") || has("mozilla public license version 2.0")},
		{"GPL", has("gnu general public license version") || has("gnu affero general public license version") || has("gnu lesser general public license version")},
	} {
		if l.is {
			found = append(found, l.name)
		}
	}
	if found == nil {
		return []string{"unknown"}
	}
	return found
}

// judge refuses modules without a licence, and those that have one which is not allowed.
func judge(mods []module) error {
	var errs []error
	for _, m := range mods {
		if len(m.licences) == 0 {
			errs = append(errs, fmt.Errorf("%s: it has no licence file", m.Path))
		}
		for _, l := range m.licences {
			if !slices.Contains(allowed, l) {
				errs = append(errs, fmt.Errorf("%s: licence %s, allowed are %s", m.Path, l, strings.Join(allowed, ", ")))
			}
		}
	}
	return errors.Join(errs...)
}

func table(mods []module) string {
	var b strings.Builder
	fmt.Fprintf(&b, head, strings.Join(allowed, ", "))
	for _, m := range mods {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.Path, m.Version, strings.Join(m.licences, ", "), map[bool]string{false: "library", true: "tests"}[m.tests])
	}
	return b.String()
}

// compare returns the lines that are in one of the texts only.
func compare(known, text string) string {
	var b strings.Builder
	for _, side := range []struct{ sign, has, other string }{{"-", known, text}, {"+", text, known}} {
		others := strings.Split(side.other, "\n")
		for line := range strings.SplitSeq(side.has, "\n") {
			if !slices.Contains(others, line) {
				fmt.Fprintf(&b, "     %s %s\n", side.sign, line)
			}
		}
	}
	return b.String()
}
