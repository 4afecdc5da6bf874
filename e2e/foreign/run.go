package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// limit bounds a package's tests. It is below what the layers allow, so that a hang is the test's.
const limit = 2 * time.Minute

// results are what became of tests, subtests included, by package and name.
type results map[string]*result

type result struct {
	pkg    *pkg
	name   string
	status string // pass, fail, skip; "" if it was running when the process ended
	again  bool   // in a second run
	output bytes.Buffer
}

// build makes the tests of a package a program, the same for bare and wrapped.
func (p *place) build(ctx context.Context, one *pkg) (string, error) {
	binary := filepath.Join(p.dir, strings.ReplaceAll(one.ImportPath, "/", "_")+".test")
	_, err := output(ctx, p.dir, p.env, "go", "test", "-vet=off", "-c", "-o", binary, one.ImportPath)
	return binary, err
}

// run runs the tests of a package that match run, or all, but not those that match skip.
func (p *place) run(ctx context.Context, one *pkg, binary, notes, run, skip string, into results) error {
	args := []string{"tool", "test2json", "-t", "-p", one.ImportPath, binary, "-test.v=test2json", "-test.timeout=" + limit.String()}
	if run != "" {
		args = append(args, "-test.run="+run)
	}
	if skip != "" {
		args = append(args, "-test.skip="+skip)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.WaitDelay = one.Dir, time.Second
	cmd.Env = append(os.Environ(), "FOREIGN_NOTES="+notes, "GOWORK=off", "HTTP_PROXY=", "HTTPS_PROXY=", "http_proxy=", "https_proxy=")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := into.read(one, bufio.NewScanner(out)); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		into.of(one, "").status = "fail" // the package itself: a panic, a leak that TestMain found
	}
	return ctx.Err()
}

func (r results) of(one *pkg, test string) *result {
	key := one.ImportPath + " " + test
	if r[key] == nil {
		r[key] = &result{pkg: one, name: test}
	}
	return r[key]
}

func (r results) passed(key string) bool { return r[key] != nil && r[key].status == "pass" }

func (r results) read(one *pkg, lines *bufio.Scanner) error {
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			e.Output = lines.Text() + "\n" // a child's own
		}
		t := r.of(one, e.Test)
		switch e.Action {
		case "pass", "fail", "skip":
			t.status = e.Action
		default:
			t.output.WriteString(e.Output)
		}
	}
	return lines.Err()
}

// pattern joins notes to one for -test.run and -test.skip, where | separates whole paths.
func pattern(notes []note) string {
	var all []string
	for _, n := range notes {
		for path := range strings.SplitSeq(n.tests, "|") {
			all = append(all, exactly(path))
		}
	}
	return strings.Join(all, "|")
}

// exactly returns the pattern of a test's name: -run would take that of TestA for TestAB's too.
func exactly(path string) string {
	levels := strings.Split(path, "/")
	for i, l := range levels {
		levels[i] = "^" + regexp.QuoteMeta(l) + "$"
	}
	return strings.Join(levels, "/")
}

// about returns the note about a test or about one that it is part of.
func about(notes []note, test string) (note, bool) {
	for _, n := range notes {
		for path := range strings.SplitSeq(n.tests, "|") {
			if test == path || strings.HasPrefix(test, path+"/") {
				return n, true
			}
		}
	}
	return note{}, false
}

// A comparison is what became of a suite.
type comparison struct {
	suite
	bare, wrapped int       // tests that passed
	again         []*result // of wrapped, those that did so in a second run
	failed        []*result // of those that passed bare
	alone         []*result // failed bare
	requests      int64     // sent through the library
	took          time.Duration
	err           error
}

func (c *comparison) share() float64 {
	if c.bare == 0 {
		return 0
	}
	return 100 * float64(c.wrapped) / float64(c.bare)
}

// unexpected returns the failures without a note.
func (c *comparison) unexpected() (all []*result) {
	for _, f := range c.failed {
		if !c.known(f) {
			all = append(all, f)
		}
	}
	return all
}

// known reports whether there is a note about a failure, or about each one of its subtests that failed.
func (c *comparison) known(f *result) bool {
	if _, ok := about(c.differs, f.name); ok {
		return true
	}
	within := 0
	for _, sub := range c.failed {
		if sub.pkg == f.pkg && strings.HasPrefix(sub.name, f.name+"/") {
			if !c.known(sub) {
				return false
			}
			within++
		}
	}
	return within > 0
}

// fault returns what is wrong with c, or "".
func (c *comparison) fault() string {
	switch {
	case c.err != nil:
		return c.err.Error()
	case c.bare == 0:
		return "no test passes bare"
	case c.requests == 0:
		return "no request went through the library"
	case c.share() < least:
		return fmt.Sprintf("%.1f %% pass wrapped, less than %d %%", c.share(), least)
	case len(c.unexpected()) > 0:
		return fmt.Sprintf("%d tests fail wrapped, of which nothing is known", len(c.unexpected()))
	}
	return ""
}

// run runs a suite bare and wrapped.
func (c *comparison) run(ctx context.Context, w *workshop) {
	start := time.Now()
	c.err = c.compare(ctx, w)
	c.took = time.Since(start)
}

func (c *comparison) compare(ctx context.Context, w *workshop) error {
	p, err := w.prepare(ctx, c.suite)
	if err != nil {
		return err
	}
	bare, wrapped := results{}, results{}
	for _, one := range p.pkgs {
		binary, err := p.build(ctx, one)
		if err != nil {
			return err
		}
		notes := filepath.Join(p.dir, "requests")
		if err := p.run(ctx, one, binary, "", "", pattern(c.unfit), bare); err != nil {
			return err
		}
		skip := pattern(append(c.unfit, c.excluded...))
		if err := p.run(ctx, one, binary, notes, "", skip, wrapped); err != nil {
			return err
		}
		if err := c.repeat(ctx, p, one, binary, notes, skip, bare, wrapped); err != nil {
			return err
		}
		if f, err := os.Stat(notes); err == nil {
			c.requests = f.Size()
		}
	}
	c.count(bare, wrapped)
	return nil
}

// repeat runs what passed bare and did not wrapped a second time, alone: tests of the time something takes depend on the machine.
func (c *comparison) repeat(ctx context.Context, p *place, one *pkg, binary, notes, skip string, bare, wrapped results) error {
	var failed []string
	for key, b := range bare {
		_, out := about(c.excluded, b.name)
		if b.pkg == one && b.status == "pass" && b.name != "" && !strings.Contains(b.name, "/") && !out && !wrapped.passed(key) {
			failed = append(failed, exactly(b.name))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	second := results{}
	if err := p.run(ctx, one, binary, notes, strings.Join(failed, "|"), skip, second); err != nil {
		return err
	}
	for key, r := range second {
		if r.name != "" && r.status == "pass" && !wrapped.passed(key) {
			wrapped[key], r.again = r, true
		}
	}
	return nil
}

func (c *comparison) count(bare, wrapped results) {
	for key, b := range bare {
		_, out := about(c.excluded, b.name)
		switch {
		case b.name == "" || out || b.status == "skip":
			continue
		case b.status != "pass":
			c.alone = append(c.alone, b)
			continue
		}
		c.bare++
		w := wrapped[key]
		if w == nil { // its parent failed before it, or the process ended
			w = &result{pkg: b.pkg, name: b.name}
			w.output.WriteString("it did not run\n" + wrapped.of(b.pkg, "").output.String())
		}
		if w.status == "pass" {
			c.wrapped++
		} else {
			c.failed = append(c.failed, w)
		}
		if w.again {
			c.again = append(c.again, w)
		}
	}
}
