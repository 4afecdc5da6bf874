package main

import (
	"errors"
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	folder = "api"
	breaks = "breaks.txt"
)

// listing returns the exported API of a package, a sorted line for each thing.
func listing(p *types.Package) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	names := types.RelativeTo(p)
	short := func(q *types.Package) string { // a package's name reads better than its path, and the imports tell
		if names(q) == "" {
			return ""
		}
		return q.Name()
	}
	text := func(t types.Type) string { return types.TypeString(t, short) }
	for _, name := range p.Scope().Names() {
		obj := p.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		switch obj := obj.(type) {
		case *types.Const:
			kind := text(obj.Type()) + " "
			if strings.HasPrefix(kind, "untyped ") { // its value tells
				kind = ""
			}
			add("const %s %s= %s", name, kind, obj.Val().ExactString())
		case *types.TypeName:
			describe(obj, add, text, short)
		default: // a variable or a func
			add("%s", types.ObjectString(obj, short))
		}
	}
	slices.Sort(lines)
	return lines
}

// describe lists a type, its exported fields and its methods.
func describe(obj *types.TypeName, add func(string, ...any), text func(types.Type) string, short types.Qualifier) {
	if alias, ok := obj.Type().(*types.Alias); ok {
		add("type %s = %s", obj.Name(), text(alias.Rhs()))
		return
	}
	t := text(obj.Type()) // with its type parameters
	switch u := obj.Type().Underlying().(type) {
	case *types.Struct:
		add("type %s struct", t)
		for f := range u.Fields() {
			switch {
			case !f.Exported():
			case f.Embedded():
				add("type %s struct, embedded %s", t, text(f.Type()))
			default:
				add("type %s struct, %s %s", t, f.Name(), text(f.Type()))
			}
		}
	case *types.Interface:
		add("type %s interface", t)
		for m := range u.Methods() {
			if m.Exported() {
				add("type %s interface, %s%s", t, m.Name(), strings.TrimPrefix(text(m.Type()), "func"))
			} else {
				add("type %s interface, unexported methods", t)
			}
		}
		return
	default:
		add("type %s %s", t, text(u))
	}
	values := types.NewMethodSet(obj.Type())
	for sel := range types.NewMethodSet(types.NewPointer(obj.Type())).Methods() {
		if m := sel.Obj(); m.Exported() {
			receiver := "*" + t
			if values.Lookup(m.Pkg(), m.Name()) != nil {
				receiver = t
			}
			add("method (%s) %s%s", receiver, m.Name(), strings.TrimPrefix(types.TypeString(sel.Type(), short), "func"))
		}
	}
}

func content(p *types.Package) string { return strings.Join(listing(p), "\n") + "\n" }

func writeListings(dir string, lib library) error {
	stale, err := listed(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
		return err
	}
	for rel, p := range lib {
		name := file(rel, p)
		delete(stale, name)
		if err := os.WriteFile(filepath.Join(dir, folder, name), []byte(content(p)), 0o644); err != nil {
			return err
		}
	}
	for name := range stale {
		if err := os.Remove(filepath.Join(dir, folder, name)); err != nil {
			return err
		}
	}
	return nil
}

// listed returns the content of the listings that are there.
func listed(dir string) (map[string]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	there := map[string]string{}
	for _, name := range names {
		if filepath.Base(name) == breaks {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		there[filepath.Base(name)] = string(text)
	}
	return there, nil
}

// checkListings compares the listings with the code.
func checkListings(dir string, lib library) error {
	there, err := listed(dir)
	if err != nil {
		return err
	}
	var differ []string
	for rel, p := range lib {
		name := file(rel, p)
		was, now := strings.Split(there[name], "\n"), listing(p)
		for _, line := range now {
			if !slices.Contains(was, line) {
				differ = append(differ, name+": + "+line)
			}
		}
		for _, line := range was {
			if line != "" && !slices.Contains(now, line) {
				differ = append(differ, name+": - "+line)
			}
		}
		delete(there, name)
	}
	for name := range there {
		differ = append(differ, name+": there is no such package")
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return errors.New("the API is not as " + folder + " lists it; if that is meant: make api\n  " + strings.Join(differ, "\n  "))
}
