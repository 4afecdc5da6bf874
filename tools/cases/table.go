package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// An entry is one case of the table: which test holds it, and what turns that red.
type entry struct {
	chapter, id, title string
	pkg, test          string
	over               string // the protocols
	file               string
	old, text          []string // lines; old is found once in file, and becomes text
	why                string   // DESIGN decides otherwise, or more

	said string // what the test said of the mutation
	sum  string // of the mutation then
}

type table struct {
	chapters []string
	entries  []*entry
}

// protocols are the words for over.
var protocols = map[string]bool{"HTTP/1.1, HTTP/2": true, "HTTP/1.1": true, "HTTP/2": true, "any": true, "no HTTP": true}

var (
	chapterLine = regexp.MustCompile(`^## ([A-Z])\. (.+)$`)
	caseLine    = regexp.MustCompile(`^([A-Z]-\d\d)  (\S.*)$`)
	fieldLine   = regexp.MustCompile(`^  (test|over|in|why|-|\+) *(.*)$`)
)

// readTable reads the table and what was seen.
func readTable(o options) (*table, error) {
	data, err := os.ReadFile(o.table)
	if err != nil {
		return nil, err
	}
	t := &table{}
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimRight(line, " \t")
		if line == "" || line[0] == '#' && !strings.HasPrefix(line, "##") {
			continue
		}
		if err := t.take(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w: %s", o.table, i+1, err, line)
		}
	}
	for _, e := range t.entries {
		if e.pkg == "" || e.file == "" || len(e.old) == 0 || !protocols[e.over] {
			return nil, fmt.Errorf("%s: %s: needs test, over (%v), in and -", o.table, e.id, protocols)
		}
	}
	return t, t.readSeen(o.seen)
}

func (t *table) take(line string) error {
	if m := chapterLine.FindStringSubmatch(line); m != nil {
		t.chapters = append(t.chapters, line[len("## "):])
		return nil
	}
	if m := caseLine.FindStringSubmatch(line); m != nil {
		if len(t.chapters) == 0 {
			return errors.New("before the first chapter")
		}
		t.entries = append(t.entries, &entry{chapter: t.chapters[len(t.chapters)-1], id: m[1], title: m[2]})
		return nil
	}
	m := fieldLine.FindStringSubmatch(line)
	if m == nil || len(t.entries) == 0 {
		return errors.New("is no line of a table")
	}
	e := t.entries[len(t.entries)-1]
	switch value := m[2]; m[1] {
	case "test":
		e.pkg, e.test, _ = strings.Cut(value, " ")
		e.test = strings.TrimSpace(e.test)
	case "over":
		e.over = value
	case "in":
		e.file = value
	case "-":
		e.old = append(e.old, value)
	case "+":
		e.text = append(e.text, value)
	case "why":
		e.why = strings.TrimSpace(e.why + " " + value)
	}
	return nil
}

// mutate returns the file with the mutation in it. The old lines are found whatever their indentation is.
func (e *entry) mutate(root string) ([]byte, error) {
	src, err := os.ReadFile(filepath.Join(root, e.file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.id, err)
	}
	var lines []string
	for _, line := range e.old {
		lines = append(lines, regexp.QuoteMeta(line))
	}
	found := regexp.MustCompile(strings.Join(lines, `\n\s*`)).FindAllIndex(src, -1)
	if len(found) != 1 {
		return nil, fmt.Errorf("%s: %q is %d times in %s, and has to be there once", e.id, strings.Join(e.old, "⏎"), len(found), e.file)
	}
	from, to := found[0][0], found[0][1]
	mutated := append([]byte{}, src[:from]...)
	mutated = append(mutated, strings.Join(e.text, "\n")...)
	return append(mutated, src[to:]...), nil
}

// digest tells one proof from another: what was seen of another mutation, or by another test, proves nothing.
func (e *entry) digest() string {
	parts := []string{e.pkg, e.test, e.file, strings.Join(e.old, "\n"), strings.Join(e.text, "\n")}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, "\x00"))))[:12]
}

// readSeen reads what was seen: id, digest, and what the test said, with tabs between. Without the file nothing was.
func (t *table) readSeen(path string) error {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(data)) {
		part := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(part) != 3 {
			return fmt.Errorf("%s: %q has no three parts", path, line)
		}
		for _, e := range t.entries {
			if e.id == part[0] {
				e.sum, e.said = part[1], part[2]
			}
		}
	}
	return nil
}

func (t *table) writeSeen(path string) error {
	var b strings.Builder
	for _, e := range t.entries {
		if e.sum != "" {
			fmt.Fprintf(&b, "%s\t%s\t%s\n", e.id, e.sum, e.said)
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
