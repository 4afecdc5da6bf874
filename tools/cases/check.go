package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// check says what of the table is not true of the sources, and what of the page not of the table.
func (t *table) check(o options) error {
	errs := []error{t.checkList(filepath.Join(o.root, o.list))}
	tests := tests{}
	for _, e := range t.entries {
		errs = append(errs, e.check(o.root, tests))
	}
	page, err := t.page(o.root)
	errs = append(errs, err)
	if have, err := os.ReadFile(filepath.Join(o.root, o.doc)); err != nil || string(have) != page {
		errs = append(errs, fmt.Errorf("%s is not what the table says: make cases-page", o.doc))
	}
	return errors.Join(errs...)
}

// checkList compares the ids with those of the list of faults, if that is there.
func (t *table) checkList(path string) error {
	var errs []error
	seen := map[string]bool{}
	for _, e := range t.entries {
		if seen[e.id] {
			errs = append(errs, fmt.Errorf("%s is there twice", e.id))
		}
		if e.id[:1] != e.chapter[:1] {
			errs = append(errs, fmt.Errorf("%s is in chapter %s", e.id, e.chapter))
		}
		seen[e.id] = true
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return errors.Join(errs...)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### ([A-Z]-\d\d) `).FindAllSubmatch(data, -1) {
		id := string(m[1])
		if listed[id] = true; !seen[id] {
			errs = append(errs, fmt.Errorf("%s is not in the table", id))
		}
	}
	for _, e := range t.entries {
		if !listed[e.id] {
			errs = append(errs, fmt.Errorf("%s is not in the list of faults", e.id))
		}
	}
	return errors.Join(errs...)
}

func (e *entry) check(root string, all tests) error {
	_, errMutation := e.mutate(root)
	errs := []error{errMutation}
	pkg, err := all.of(filepath.Join(root, e.pkg))
	if err != nil {
		return errors.Join(errMutation, err)
	}
	switch test := pkg[e.test]; {
	case test == nil:
		errs = append(errs, fmt.Errorf("%s: there is no %s in %s", e.id, e.test, e.pkg))
	case !test.names(e.id):
		errs = append(errs, fmt.Errorf("%s: neither the name nor the comment of %s has it", e.id, e.test))
	case strings.Contains(e.over, "HTTP/2") && !regexp.MustCompile(`inBoth\(|HTTP2`).MatchString(test.body):
		errs = append(errs, fmt.Errorf("%s: %s uses no HTTP/2", e.id, e.test))
	}
	if e.sum != e.digest() {
		errs = append(errs, fmt.Errorf("%s: its mutation has not been seen red: make cases ARGS='-only %s -update'", e.id, e.id))
	}
	return errors.Join(errs...)
}

// A test is a test's name, comment and source.
type test struct{ name, doc, body string }

// names reports whether t names the case: P-02 as TestCase_P02 or TestCase_P02_P04, or in its comment.
func (t *test) names(id string) bool {
	parts := strings.Split(t.name, "_")
	return parts[0] == "TestCase" && slices.Contains(parts[1:], strings.ReplaceAll(id, "-", "")) ||
		regexp.MustCompile(`\b`+id+`\b`).MatchString(t.doc)
}

// tests are those of the packages that were asked for, by directory and name.
type tests map[string]map[string]*test

func (all tests) of(dir string) (map[string]*test, error) {
	if all[dir] != nil {
		return all[dir], nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no tests in %s: %w", dir, err)
	}
	all[dir] = map[string]*test{}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range tree.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				base := tree.FileStart
				all[dir][f.Name.Name] = &test{f.Name.Name, f.Doc.Text(), string(src[f.Pos()-base : f.End()-base])}
			}
		}
	}
	return all[dir], nil
}
