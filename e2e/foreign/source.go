package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A workshop is where the sources are while they are tested: a directory that goes with the program.
type workshop struct {
	dir     string
	root    string            // of our module
	version string            // of the toolchain
	replace map[string]string // by file, what the go command sees in its place
}

// hook is what net/http is given: its Clients ask it for their transport.
const hook = `package http

// ForeignWrap, if set, returns what a Client uses in place of its transport.
var ForeignWrap func(rt RoundTripper, sending bool) RoundTripper

func foreign(rt RoundTripper, sending bool) RoundTripper {
	if ForeignWrap == nil {
		return rt
	}
	return ForeignWrap(rt, sending)
}
`

// hooked are the two places where a Client has to do with its transport.
var hooked = [][2]string{
	{"send(req, c.transport(), deadline)", "send(req, foreign(c.transport(), true), deadline)"},
	{"c.transport().(closeIdler)", "foreign(c.transport(), false).(closeIdler)"},
}

// starter is what each package under test is given.
const starter = `package %s

import (
	foreignhttp "net/http"
	foreignos "os"

	foreignwrap "github.com/resilient-go/resilient/e2e/foreign/wrap"
)

func init() {
	if foreignos.Getenv("FOREIGN_NOTES") != "" {
		foreignhttp.ForeignWrap = foreignwrap.Wrap
	}
}
`

// A place is a suite's source, ready to be tested.
type place struct {
	dir     string // where the go command is run
	env     []string
	replace map[string]string
	pkgs    []*pkg
}

type pkg struct {
	ImportPath, Dir, Name     string
	TestGoFiles, XTestGoFiles []string
}

func newWorkshop(ctx context.Context, dir string) (*workshop, error) {
	text, err := output(ctx, "", nil, "go", "env", "-json", "GOMOD", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	var env struct{ GOMOD, GOROOT, GOVERSION string }
	if err := json.Unmarshal([]byte(text), &env); err != nil {
		return nil, err
	}
	w := &workshop{dir: dir, root: filepath.Join(filepath.Dir(env.GOMOD), "..", ".."), version: env.GOVERSION}
	at := filepath.Join(env.GOROOT, "src", "net", "http")
	client, err := os.ReadFile(filepath.Join(at, "client.go"))
	if err != nil {
		return nil, err
	}
	for _, h := range hooked {
		if bytes.Count(client, []byte(h[0])) != 1 {
			return nil, fmt.Errorf("%s: %q is not there once: this toolchain's client is another", at, h[0])
		}
		client = bytes.Replace(client, []byte(h[0]), []byte(h[1]), 1)
	}
	w.replace = map[string]string{filepath.Join(at, "client.go"): filepath.Join(dir, "client.go"), filepath.Join(at, "zz_foreign.go"): filepath.Join(dir, "hook.go")}
	return w, errors.Join(os.WriteFile(filepath.Join(dir, "client.go"), client, 0o600), os.WriteFile(filepath.Join(dir, "hook.go"), []byte(hook), 0o600))
}

// prepare brings a suite's source, and has its tests wrap when they are asked to.
func (w *workshop) prepare(ctx context.Context, s suite) (*place, error) {
	p := &place{dir: filepath.Join(w.dir, strings.ReplaceAll(s.name, "/", "-")), replace: maps.Clone(w.replace)}
	p.env = []string{"GOWORK=" + filepath.Join(p.dir, "go.work"), "GOFLAGS=-overlay=" + filepath.Join(p.dir, "overlay.json")}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return nil, err
	}
	uses := []string{w.root, filepath.Join(w.root, "e2e", "foreign")}
	if s.module != "" {
		if err := p.bring(ctx, s); err != nil {
			return nil, err
		}
		uses = append(uses, p.dir)
	}
	// A workspace, so that the library keeps its go.mod: its versions are at least those, and its language is its own.
	work := []byte("go 1.26.0\n")
	for _, dir := range uses {
		work = fmt.Appendf(work, "use %q\n", dir)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "go.work"), work, 0o600); err != nil {
		return nil, err
	}
	if err := p.overlay(); err != nil {
		return nil, err
	}
	list, err := output(ctx, p.dir, p.env, "go", append([]string{"list", "-json=ImportPath,Dir,Name,TestGoFiles,XTestGoFiles"}, s.packages...)...)
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(strings.NewReader(list)); d.More(); {
		one := new(pkg)
		if err := d.Decode(one); err != nil {
			return nil, err
		}
		if len(one.TestGoFiles)+len(one.XTestGoFiles) == 0 {
			continue
		}
		if err := p.start(one); err != nil {
			return nil, err
		}
		p.pkgs = append(p.pkgs, one)
	}
	return p, p.overlay()
}

// overlay tells the go command what to see in place of which files.
func (p *place) overlay() error {
	text, err := json.Marshal(struct{ Replace map[string]string }{p.replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.dir, "overlay.json"), text, 0o600)
}

// bring copies a module's source from the module cache, where it can't be written.
func (p *place) bring(ctx context.Context, s suite) error {
	text, err := output(ctx, p.dir, []string{"GOWORK=off"}, "go", "mod", "download", "-json", s.module+"@"+s.version)
	if err != nil {
		return err
	}
	var m struct{ Dir, Sum string }
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	if m.Sum != s.sum {
		return fmt.Errorf("%s %s is %s, not the %s it was", s.module, s.version, m.Sum, s.sum)
	}
	if err := os.CopyFS(p.dir, os.DirFS(m.Dir)); err != nil {
		return err
	}
	// The cache's files are read-only, and so are their copies; tests write beside theirs.
	return filepath.WalkDir(p.dir, func(name string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(name, 0o700)
		}
		return os.Chmod(name, 0o600)
	})
}

// start adds the file that sets the hook to a package's tests: by the overlay, as the toolchain's are not copied.
func (p *place) start(one *pkg) error {
	name := one.Name
	if len(one.XTestGoFiles) > 0 { // net/http's own tests can't import what imports net/http
		name += "_test"
	}
	file := filepath.Join(p.dir, strings.ReplaceAll(one.ImportPath, "/", "_")+".start")
	p.replace[filepath.Join(one.Dir, "zz_foreign_test.go")] = file
	return os.WriteFile(file, fmt.Appendf(nil, starter, name), 0o600)
}

// output runs a command and returns what it printed; its complaints are in the error.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(slices.Concat([]string{name}, args), " "), err, out, stderr.Bytes())
	}
	return string(out), nil
}
