package main

import (
	"errors"
	"fmt"
	"go/types"
	"os"
	"path"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A library is its packages that others can import, by what follows the module's path in theirs: "" for the root's.
type library map[string]*types.Package

func load(dir string) (library, error) {
	cfg := &packages.Config{
		Dir: dir,
		// These packages from source, what they import from the compiler's cache, which takes a tenth of the time.
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedImports | packages.NeedExportFile | packages.NeedModule,
		// One platform for all, or the listing would depend on whose machine it was written on.
		Env: append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOWORK=off"),
	}
	all, err := packages.Load(cfg, "./...")
	if err != nil {
		return nil, err
	}
	lib := library{}
	for _, p := range all {
		var faults []error
		for _, e := range p.Errors {
			faults = append(faults, e)
		}
		if err := errors.Join(faults...); err != nil {
			return nil, err
		}
		if p.Name == "main" || p.Module == nil || internal(p.PkgPath) {
			continue
		}
		lib[strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, p.Module.Path), "/")] = p.Types
	}
	if len(lib) == 0 {
		return nil, fmt.Errorf("no package that can be imported in %s", dir)
	}
	return lib, nil
}

func internal(pkg string) bool {
	return strings.Contains("/"+pkg+"/", "/internal/")
}

// file returns the name of a package's listing.
func file(rel string, p *types.Package) string {
	if rel == "" {
		rel = path.Base(p.Path())
	}
	return strings.ReplaceAll(rel, "/", ".") + ".txt"
}
