package resilient_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every func that a package offers has an example of its own, and every type that does something has one at least, be it of
// the type, of what makes it or of a method: go doc and pkg.go.dev show them there. Each has an output, so that it is run.
func TestExamples(t *testing.T) {
	for _, path := range public {
		pkg := documented(t, path)
		name := strings.TrimPrefix(path, public[0]+"/")
		checked := 0
		for _, f := range funcsOf(pkg) {
			checked++
			if len(f.Examples) == 0 {
				t.Errorf("%s.%s has no example", name, f.Name)
			}
		}
		for _, typ := range pkg.Types {
			examples := slices.Clone(typ.Examples)
			for _, f := range slices.Concat(typ.Funcs, typ.Methods) {
				examples = append(examples, f.Examples...)
			}
			if does := slices.ContainsFunc(typ.Methods, func(f *doc.Func) bool { return !ofErrors[f.Name] }); does {
				checked++
				if len(examples) == 0 {
					t.Errorf("%s.%s has no example, nor has any method of it", name, typ.Name)
				}
			}
			for _, e := range examples {
				if e.Output == "" && !e.EmptyOutput {
					t.Errorf("%s: Example%s is not run, as it has no output", name, e.Name)
				}
			}
		}
		if checked < 8 {
			t.Errorf("%s: only %d entries were found", name, checked)
		}
	}
}

// ofErrors are the methods by which an error is no more than one.
var ofErrors = map[string]bool{"Error": true, "Is": true, "Unwrap": true, "Timeout": true, "Temporary": true, "LogValue": true}

func funcsOf(pkg *doc.Package) []*doc.Func {
	all := slices.Clone(pkg.Funcs)
	for _, typ := range pkg.Types {
		all = append(all, typ.Funcs...)
	}
	return all
}

// documented is what go doc knows of a package.
func documented(t *testing.T, path string) *doc.Package {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(".", strings.TrimPrefix(path, public[0]), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	pkg, err := doc.NewFromFiles(fset, files, path)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}
