package resilient_test

import (
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// The packages that a user imports.
var public = []string{
	"github.com/resilient-go/resilient", "github.com/resilient-go/resilient/config",
	"github.com/resilient-go/resilient/semaphore", "github.com/resilient-go/resilient/transport",
}

// compiled is what the compiler has written of the packages that snippets may use, the public ones among them, and of what
// they need: files by import paths.
var compiled = sync.OnceValues(func() (map[string]string, error) {
	files := map[string]string{}
	lines, err := golist(append([]string{"-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, surroundingImports...)...)
	for _, line := range lines {
		path, file, _ := strings.Cut(line, " ")
		files[path] = file
	}
	return files, err
})

// newImporter returns an importer of those.
func newImporter(t *testing.T) types.Importer {
	t.Helper()
	files, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, errors.New("no package that is needed here")
		}
		return os.Open(files[path])
	})
}

func golist(args ...string) ([]string, error) {
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}

// An exported is a func, or a method, that a package offers.
type exported struct {
	name string // "NewClient", "Client.Do"
	*types.Signature
}

// exports returns the funcs and methods of a package, also those that are fields.
func exports(t *testing.T, path string) (all []exported) {
	t.Helper()
	pkg, err := newImporter(t).Import(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pkg.Scope().Names() {
		switch o := pkg.Scope().Lookup(name).(type) {
		case *types.Func:
			if o.Exported() {
				all = append(all, exported{name, o.Signature()})
			}
		case *types.TypeName:
			if !o.Exported() {
				continue
			}
			for m := range types.NewMethodSet(types.NewPointer(o.Type())).Methods() {
				if f := m.Obj(); f.Exported() {
					all = append(all, exported{name + "." + f.Name(), f.Type().(*types.Signature)})
				}
			}
			if s, ok := o.Type().Underlying().(*types.Struct); ok {
				for f := range s.Fields() {
					if signature, ok := f.Type().Underlying().(*types.Signature); ok && f.Exported() {
						all = append(all, exported{name + "." + f.Name(), signature})
					}
				}
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s offers nothing", path)
	}
	return all
}

// written returns the types of a signature's parameters or results, as they are written.
func written(vars *types.Tuple) (all []string) {
	for v := range vars.Variables() {
		all = append(all, types.TypeString(v.Type(), nil))
	}
	return all
}

// WHERE-X1: it stands around calls of other systems, never around local operations: nothing is offered for databases, caches or files.
func TestRule_WHEREX1(t *testing.T) {
	needed, err := golist(append([]string{"-deps"}, public...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range needed {
		if strings.HasPrefix(path, "database/") || strings.Contains(path, "sql") || strings.Contains(path, "redis") {
			t.Errorf("the library needs %s", path)
		}
	}
	for _, path := range public {
		for _, f := range exports(t, path) {
			for _, typ := range append(written(f.Params()), written(f.Results())...) {
				for _, local := range []string{"database/sql", "io/fs.", "os.", "driver."} {
					if strings.Contains(typ, local) {
						t.Errorf("%s.%s has %s", path, f.name, typ)
					}
				}
			}
		}
	}
}
