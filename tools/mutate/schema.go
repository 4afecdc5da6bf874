package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// A schema is a package's tests with all mutants of one file in them, each behind a guard; a variable of the environment
// says which one is on. Compiling and linking cost more than most runs of tests: this way they are paid once for a file.
type schema struct {
	overlay, binary string
	dir             string // of the package
}

// Variable is what a schema's binary looks at for the number of the mutant that is on; 0 is none.
const variable = "MUTANT"

const switchboard = `package %s

import (
	"os"
	"strconv"
)

var mutantOn, _ = strconv.Atoi(os.Getenv("` + variable + `"))

func mutantStep(n, by int) int {
	if mutantOn == n {
		return by
	}
	return 0
}
`

// guard returns what stands before and after the mutant's node where it is one of many, or nothing where it cannot be.
func (m *mutant) guard() (before, after string) {
	on := fmt.Sprintf("mutantOn == %d", m.number)
	source := func(n ast.Node) string {
		return string(m.pkg.files[m.file].src[m.pkg.offset(n.Pos()):m.pkg.offset(n.End())])
	}
	switch n := m.node.(type) {
	case *ast.IncDecStmt:
		if m.kind == "step" {
			other := map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok]
			return fmt.Sprintf("if %s { %s%s } else { ", on, source(n.X), other), " }"
		}
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return "", "" // in a block of its own it would declare nothing
		}
	case *ast.BasicLit:
		if t := m.pkg.info.Types[n].Type; m.kind == "step" && t != nil {
			name := types.TypeString(t, func(p *types.Package) string {
				if p.Path() == m.pkg.ImportPath {
					return ""
				}
				return p.Name()
			})
			return "(", fmt.Sprintf(" + %s(mutantStep(%d, %s)))", name, m.number, m.change)
		}
	case *ast.BinaryExpr:
		if m.kind == "boundary" && pure(n.X) && pure(n.Y) {
			equal := fmt.Sprintf("%s && (%s) == (%s)", on, source(n.X), source(n.Y))
			if n.Op == token.LSS || n.Op == token.GTR {
				return "(", " || " + equal + ")"
			}
			return "(", " && !(" + equal + "))"
		}
	}
	switch {
	case m.kind == "negate", m.kind == "return" && m.change == "not":
		return "((", ") != (" + on + "))"
	case m.kind == "delete":
		return "if !(" + on + ") { ", " }"
	}
	return "", ""
}

// pure says that the expression may be evaluated twice.
func pure(e ast.Expr) bool {
	twice := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name, ok := n.Fun.(*ast.Ident)
			twice = twice && ok && slices.Contains([]string{"len", "cap", "min", "max"}, name.Name)
		case *ast.UnaryExpr:
			twice = twice && n.Op != token.ARROW
		}
		return twice
	})
	return twice
}

// guarded returns the file's source with the mutants in it, each behind its guard.
func guarded(f *file, all []*mutant) []byte {
	type insert struct {
		at, from, to, number int
		closes               bool
		text                 string
	}
	var inserts []insert
	for _, m := range all {
		before, after := m.guard()
		from, to := m.pkg.offset(m.node.Pos()), m.pkg.offset(m.node.End())
		inserts = append(inserts, insert{from, from, to, m.number, false, before}, insert{to, from, to, m.number, true, after})
	}
	slices.SortFunc(inserts, func(a, b insert) int {
		switch {
		case a.at != b.at:
			return a.at - b.at
		case a.closes != b.closes && a.closes: // what ends here, then what begins here
			return -1
		case a.closes != b.closes:
			return 1
		case a.closes: // from the inside out
			return cmp.Or(b.from-a.from, b.number-a.number)
		}
		return cmp.Or(b.to-a.to, a.number-b.number)
	})
	var out []byte
	at := 0
	for _, i := range inserts {
		out = append(append(out, f.src[at:i.at]...), i.text...)
		at = i.at
	}
	return append(out, f.src[at:]...)
}

// schemas builds the package's schemas and gives them to the mutants that can be in one. The others, and those of a file
// with which the tests fail though none is on (a guard may cost a function its inlining), are built one by one.
func (p *pkg) schemas(o options, tmp string, all []*mutant) error {
	byFile := map[string][]*mutant{}
	for _, m := range all {
		if m.pkg != p || m.status != "" {
			continue
		}
		if before, _ := m.guard(); before == "" {
			continue
		}
		if len(p.check(m.file, guarded(p.files[m.file], []*mutant{m}))) == 0 {
			byFile[m.file] = append(byFile[m.file], m)
		}
	}
	for name, of := range byFile {
		source := guarded(p.files[name], of)
		if errs := p.check(name, source); len(errs) > 0 {
			fmt.Fprintf(os.Stderr, "%s: one by one: %v\n", name, errs[0])
			continue
		}
		dir, err := os.MkdirTemp(tmp, "schema")
		if err != nil {
			return err
		}
		s := &schema{overlay: filepath.Join(dir, "overlay.json"), binary: filepath.Join(dir, "tests"), dir: p.Dir}
		mutated, board := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "board.go")
		overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
			p.files[name].path: mutated, filepath.Join(p.Dir, "mutant_switchboard.go"): board,
		}})
		if err := errors.Join(err, os.WriteFile(mutated, source, 0o600), os.WriteFile(s.overlay, overlay, 0o600),
			os.WriteFile(board, fmt.Appendf(nil, switchboard, p.files[name].tree.Name), 0o600)); err != nil {
			return err
		}
		build := exec.Command("go", "test", "-c", "-vet=off", "-overlay="+s.overlay, "-o="+s.binary, p.ImportPath)
		build.Dir = o.root
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%s with its mutants: %w\n%s", name, err, out)
		}
		out, err := s.run(0, p.timeout)
		if err != nil {
			out, err = s.run(0, p.timeout)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: one by one: its tests fail with guards:\n%s", name, out)
			continue
		}
		for _, m := range of {
			m.schema = s
		}
	}
	return nil
}

// run runs the package's tests with one mutant on.
func (s *schema) run(number int, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout+time.Minute) // of one that cannot end itself
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", limited, s.binary, "-test.failfast", "-test.timeout="+timeout.String())
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), fmt.Sprintf("%s=%d", variable, number))
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}
