package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
)

// checkRelease compares with the last release.
func checkRelease(dir string, now library) error {
	tag, err := lastTag(dir)
	if err != nil {
		return err
	}
	if tag == "" {
		fmt.Println("no tag v* yet: the API is compared with its listing alone")
		return nil
	}
	old, err := atTag(dir, tag)
	if err != nil {
		return fmt.Errorf("%s: %w", tag, err)
	}
	allowed, err := allowedBreaks(dir)
	if err != nil {
		return err
	}
	broken, added := compare(old, now)
	for _, line := range added {
		fmt.Printf("since %s: %s\n", tag, line)
	}
	var faults []error
	for _, line := range broken {
		if !slices.Contains(allowed, line) {
			faults = append(faults, fmt.Errorf("breaks the users of %s: %s", tag, line))
		}
	}
	for _, line := range allowed {
		if !slices.Contains(broken, line) {
			faults = append(faults, fmt.Errorf("%s/%s: no such change since %s: %s", folder, breaks, tag, line))
		}
	}
	return errors.Join(faults...)
}

// lastTag returns the last tag v* of the module that HEAD comes from, or "".
func lastTag(dir string) (string, error) {
	// The tags of modules below have their directory in front.
	out, err := git(dir, "tag", "--list", "v[0-9]*", "--merged", "HEAD", "--sort=-version:refname")
	if err != nil {
		return "", err
	}
	tag, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(tag), nil
}

func git(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, exit.Stderr)
	}
	return out, err
}

// atTag loads the library as it was.
func atTag(dir, tag string) (library, error) {
	archive, err := git(dir, "archive", "--format=tar", tag)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "apicheck")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if err := extract(archive, tmp); err != nil {
		return nil, err
	}
	return load(tmp)
}

func extract(archive []byte, dir string) error {
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name) {
			continue
		}
		name := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
	}
}

// allowedBreaks reads api/breaks.txt: changes as they are printed; # begins a comment.
func allowedBreaks(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, folder, breaks))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// compare returns the changes that break users, and those that do not.
func compare(old, now library) (broken, added []string) {
	for rel, was := range old {
		is, ok := now[rel]
		name := strings.TrimSuffix(file(rel, was), ".txt")
		if !ok {
			broken = append(broken, name+": package removed")
			continue
		}
		for _, c := range apidiff.Changes(was, is).Changes {
			if line := name + ": " + c.Message; c.Compatible {
				added = append(added, line)
			} else {
				broken = append(broken, line)
			}
		}
	}
	for rel, is := range now {
		if _, ok := old[rel]; !ok {
			added = append(added, strings.TrimSuffix(file(rel, is), ".txt")+": package added")
		}
	}
	slices.Sort(broken)
	slices.Sort(added)
	return broken, added
}
