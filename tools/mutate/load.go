package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A pkg is a package under test; the exported fields are as `go list` prints them.
type pkg struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly, Standard       bool
	Module                  struct{ Dir string }

	fset     *token.FileSet
	names    []string         // of its files, relative to the module's root
	files    map[string]*file // by name
	importer types.Importer
	info     types.Info
	timeout  time.Duration
}

type file struct {
	path string
	src  []byte
	tree *ast.File
}

// load parses the packages and has what they import compiled, so that mutants can be type-checked without a build.
func load(root string, patterns []string) ([]*pkg, error) {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly,Standard,Module"}
	list := exec.Command("go", slices.Concat(args, patterns, []string{"os", "strconv"})...) // these for the switchboard
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	var pkgs []*pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := &pkg{fset: token.NewFileSet(), files: map[string]*file{}}
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if p.DepOnly || p.Standard {
			continue
		}
		p.importer = importer.ForCompiler(p.fset, "gc", open)
		for _, name := range p.GoFiles {
			f := &file{path: filepath.Join(p.Dir, name)}
			if f.src, err = os.ReadFile(f.path); err != nil {
				return nil, err
			}
			if f.tree, err = parser.ParseFile(p.fset, f.path, f.src, parser.SkipObjectResolution); err != nil {
				return nil, err
			}
			if name, err = filepath.Rel(p.Module.Dir, f.path); err != nil {
				return nil, err
			}
			name = filepath.ToSlash(name)
			p.names, p.files[name] = append(p.names, name), f
		}
		var trees []*ast.File
		for _, name := range p.names {
			trees = append(trees, p.files[name].tree)
		}
		p.info.Types = map[ast.Expr]types.TypeAndValue{}
		conf := types.Config{Importer: p.importer}
		if _, err := conf.Check(p.ImportPath, p.fset, trees, &p.info); err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
}

func (p *pkg) offset(pos token.Pos) int { return p.fset.Position(pos).Offset }

// viable says whether the mutant compiles. Where a variable or an import has lost its last use, it is kept in use.
func (m *mutant) viable() bool {
	errs := m.pkg.check(m.file, m.apply())
	for _, err := range errs {
		if !m.keepInUse(err.Error()) {
			return false
		}
	}
	return len(errs) == 0 || len(m.pkg.check(m.file, m.apply())) == 0
}

// check type-checks the package with another source of one of its files, and what all mutants together need.
func (p *pkg) check(changed string, source []byte) (errs []error) {
	board, err := parser.ParseFile(p.fset, "mutant_switchboard.go", fmt.Sprintf(switchboard, p.files[changed].tree.Name), 0)
	if err != nil {
		return []error{err}
	}
	trees := []*ast.File{board}
	for _, name := range p.names {
		tree := p.files[name].tree
		if name == changed {
			if tree, err = parser.ParseFile(p.fset, name, source, parser.SkipObjectResolution); err != nil {
				return []error{err}
			}
		}
		trees = append(trees, tree)
	}
	conf := types.Config{Importer: p.importer, Error: func(err error) { errs = append(errs, err) }}
	_, _ = conf.Check(p.ImportPath, p.fset, trees, nil) // its error is the first of errs
	return errs
}

var (
	unusedName   = regexp.MustCompile(`: declared and not used: (\w+)$`)
	unusedImport = regexp.MustCompile(`: ("[^"]+") imported`)
)

// keepInUse mends an unused variable or import that the error is about, and says whether it could.
func (m *mutant) keepInUse(err string) bool {
	if name := unusedName.FindStringSubmatch(err); name != nil && m.kind == "delete" {
		m.edits[0].text += "_ = " + name[1] + "; " // where the statement was; out of scope there, it does not compile
		return true
	}
	if path := unusedImport.FindStringSubmatch(err); path != nil {
		for _, spec := range m.pkg.files[m.file].tree.Imports {
			if spec.Path.Value == path[1] {
				m.edits = append(m.edits, edit{m.pkg.offset(spec.Pos()), m.pkg.offset(spec.Path.Pos()), "_ "})
				return true
			}
		}
	}
	return false
}
