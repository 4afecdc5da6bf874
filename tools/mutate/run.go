package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

// runAll tests the mutants, several at a time, and sets their status.
func runAll(o options, pkgs []*pkg, all []*mutant) error {
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	timeout := func(pattern string) (time.Duration, error) { // from the slowest package without a mutant
		out, err := goTest(o.root, pattern, "", 0, time.Hour)
		if err != nil {
			return 0, fmt.Errorf("the tests of %s fail without a mutant:\n%s", pattern, out)
		}
		slowest := time.Duration(0)
		for _, ok := range regexp.MustCompile(`(?m)^ok\s+\S+\s+([\d.]+s)`).FindAllSubmatch(out, -1) {
			took, _ := time.ParseDuration(string(ok[1])) // 0 would leave the grace
			slowest = max(slowest, took)
		}
		return 5*slowest + o.grace, nil
	}
	for _, p := range pkgs {
		if p.timeout, err = timeout(p.ImportPath); err != nil {
			return err
		}
	}
	for _, p := range pkgs {
		if o.each {
			break
		}
		if err := p.schemas(o, tmp, all); err != nil {
			return err
		}
	}
	var whole time.Duration
	if !o.own {
		if whole, err = timeout("./..."); err != nil {
			return err
		}
	}

	todo := make(chan *mutant)
	var wg sync.WaitGroup
	var mu sync.Mutex
	count, start, shown := map[status]int{}, time.Now(), time.Now()
	for i := range o.jobs {
		wg.Go(func() {
			for m := range todo {
				if m.status == "" {
					m.try(o.root, filepath.Join(tmp, fmt.Sprint(i)), whole)
				}
				mu.Lock()
				count[m.status]++
				if m.status == survived && m.reason == "" { // to begin with before the end
					fmt.Fprintln(os.Stderr, "survived:", m)
				}
				done := count[caught] + count[survived] + count[notViable]
				if done == len(all) || time.Since(shown) > 10*time.Second {
					shown = time.Now()
					fmt.Fprintf(os.Stderr, "%d/%d mutants after %s: %d caught, %d survived, %d not viable\n",
						done, len(all), time.Since(start).Round(time.Second), count[caught], count[survived], count[notViable])
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range all {
		todo <- m
	}
	close(todo)
	wg.Wait()
	return nil
}

// try tests the mutant: with its package's tests first, which are quick, then with all of the module's, if whole is set.
func (m *mutant) try(root, dir string, whole time.Duration) {
	var overlay string
	var out []byte
	var err error
	if m.schema != nil {
		overlay = m.schema.overlay
		out, err = m.schema.run(m.number, m.pkg.timeout)
	} else {
		if overlay, err = m.write(dir); err != nil {
			panic(err) // without a temporary directory nothing that follows would mean anything
		}
		out, err = goTest(root, m.pkg.ImportPath, overlay, 0, m.pkg.timeout)
	}
	if err == nil && whole > 0 {
		if out, err = goTest(root, "./...", overlay, m.number, whole); err != nil {
			out, err = goTest(root, "./...", overlay, m.number, whole) // a test that fails now and then is no catch
		}
	}
	switch {
	case err == nil:
		m.status = survived
	case bytes.Contains(out, []byte("[build failed]")): // the type checker lets a little through
		m.status = notViable
	default:
		m.status = caught
	}
}

// write puts the mutated file into the directory, and the overlay that has the go command take it for the original one.
func (m *mutant) write(dir string) (overlay string, err error) {
	mutated, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{m.pkg.files[m.file].path: mutated}})
	return overlay, errors.Join(err,
		os.MkdirAll(dir, 0o700), os.WriteFile(mutated, m.apply(), 0o600), os.WriteFile(overlay, data, 0o600))
}

// With a limit: a mutant that allocates for ever must not take the machine's memory.
const limited = `ulimit -v 4000000; exec "$0" "$@"`

// goTest runs tests. A binary that hangs ends itself at the timeout, or else the go command ends it a minute later.
func goTest(root, pattern, overlay string, number int, timeout time.Duration) ([]byte, error) {
	// Without vet, which would catch mutants that no test does.
	cmd := exec.Command("go", "test", "-count=1", "-failfast", "-vet=off", "-timeout="+timeout.String(), "-overlay="+overlay,
		"-exec", "sh -c '"+limited+"'", pattern)
	cmd.Dir, cmd.Env = root, append(os.Environ(), fmt.Sprintf("%s=%d", variable, number))
	return cmd.CombinedOutput()
}
