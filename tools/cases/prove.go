package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// patience is how long a test may take with a mutation: one that hangs is red.
const patience = time.Minute

// prove runs the tests of the cases whose id matches, and says of each whether it is green, and red with its mutation.
func (t *table) prove(o options, only *regexp.Regexp, out io.Writer) error {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "cases")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var todo []*entry
	byPackage := map[string][]string{}
	for _, e := range t.entries {
		if only.MatchString(e.id) {
			todo = append(todo, e)
			byPackage[e.pkg] = append(byPackage[e.pkg], e.test)
		}
	}
	if len(todo) == 0 {
		return fmt.Errorf("no case matches %s", only)
	}
	green := map[string]bool{}
	for pkg, names := range byPackage {
		text, _ := goTest(root, "", pkg, names) // what failed is in the text
		for _, m := range regexp.MustCompile(`(?m)^--- PASS: (\S+)`).FindAllSubmatch(text, -1) {
			green[pkg+" "+string(m[1])] = true
		}
		for _, name := range names {
			if !green[pkg+" "+name] {
				fmt.Fprintf(out, "%s\n", text)
				break
			}
		}
	}

	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(1, o.jobs))
	for i, e := range todo {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			said, err := "", fmt.Errorf("%s is not green as it is", e.test)
			if green[e.pkg+" "+e.test] {
				said, err = e.red(root, filepath.Join(tmp, fmt.Sprint(i)))
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", e.id, err))
				fmt.Fprintf(out, "%s  %-22s %v\n", e.id, e.test, err)
				return
			}
			e.sum, e.said = e.digest(), said
			fmt.Fprintf(out, "%s  %-22s green; red with %s: %s\n", e.id, e.test, e.file, said)
		})
	}
	wg.Wait()
	fmt.Fprintf(out, "%d of %d cases are proved\n", len(todo)-len(errs), len(todo))
	return errors.Join(errs...)
}

// red runs e's test with its mutation, which it must not survive, and returns what it said.
func (e *entry) red(root, dir string) (string, error) {
	src, err := e.mutate(root)
	if err != nil {
		return "", err
	}
	mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, e.file): mutated}})
	if err := errors.Join(err, os.MkdirAll(dir, 0o700), os.WriteFile(mutated, src, 0o600), os.WriteFile(overlay, data, 0o600)); err != nil {
		return "", err
	}
	text, err := goTest(root, overlay, e.pkg, []string{e.test})
	switch {
	case err == nil:
		return "", errors.New("survives the mutation: the test is worth nothing, or the mutation changes nothing")
	case bytes.Contains(text, []byte("[build failed]")), bytes.Contains(text, []byte("[setup failed]")):
		return "", fmt.Errorf("the mutation does not compile:\n%s", text)
	case !bytes.Contains(text, []byte("=== RUN   "+e.test+"\n")):
		return "", fmt.Errorf("the test did not run:\n%s", text)
	}
	return complaint(string(text), dir, root), nil
}

// goTest runs the tests of a package. The overlay goes by GOFLAGS, where a test that reads sources can see it too.
func goTest(root, overlay, pkg string, names []string) ([]byte, error) {
	// Without vet, which would catch mutations that no test does; with a limit on the memory of one that does not end.
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	cmd := exec.Command("go", "test", "-v", "-count=1", "-vet=off", "-timeout="+patience.String(),
		"-exec", `sh -c 'ulimit -v 4000000; exec "$0" "$@"'`,
		"-run=^("+strings.Join(names, "|")+")$", "./"+pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if overlay != "" {
		cmd.Env = append(cmd.Env, strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	return cmd.CombinedOutput()
}

var (
	failure = regexp.MustCompile(`(?m)^ +\w+_test\.go:\d+: (.*(?:\n {8}.*){0,4})`)
	more    = regexp.MustCompile(`\n +\w+_test\.go:\d+: .*`)
	crash   = regexp.MustCompile(`(?m)^(?:panic|fatal error): (.*?)(?: \[recovered.*)?$`)
	noise   = regexp.MustCompile(`0x[0-9a-f]+|\s+`)
)

// complaint is the first thing that a failed test said, on one line and not too long.
func complaint(text, dir, root string) string {
	said := "it failed"
	if m := failure.FindStringSubmatch(text); m != nil {
		said = more.ReplaceAllString(m[1], "")
	} else if m := crash.FindStringSubmatch(text); m != nil {
		said = "panic: " + m[1]
	}
	said = strings.NewReplacer(dir, "…", root, "…").Replace(said)
	said = strings.TrimSpace(noise.ReplaceAllStringFunc(said, func(s string) string {
		if strings.HasPrefix(s, "0x") {
			return "0x…"
		}
		return " "
	}))
	const most = 110
	if r := []rune(said); len(r) > most {
		said = string(r[:most]) + "…"
	}
	return said
}
