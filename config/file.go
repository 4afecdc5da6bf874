package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFile is far more than thousands of systems need, and bounds what a wrong file
// (a log, a device) costs.
const maxFile = 1 << 20

// node is a value in a file, and where it stands.
type node struct {
	*yaml.Node
	file string
	line int    // its key's, as the value may begin lines below
	name string // its key
	path string // its key, with those that it is in before it
}

func (n node) place() string {
	return strings.TrimSuffix(fmt.Sprintf("%s:%d %s", n.file, n.line, n.path), " ")
}

// what describes a value for a message.
func what(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		if plain(n.Value) {
			return "*" + n.Value
		}
		return "an alias" // or a password without quotes
	}
	return quote(n.Value)
}

// readFile returns the one document of a YAML file.
func readFile(path string) (node, error) {
	f, err := os.Open(path)
	if err != nil {
		return node{}, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return node{}, fmt.Errorf("config: %w", err)
	}
	return document(path, text)
}

func document(path string, text []byte) (node, error) {
	fault := func(line int, value, rule, remedy string) (node, error) {
		place := node{file: path, line: line}.place()
		return node{}, &FieldError{Place: place, Value: value, Rule: rule, Remedy: remedy}
	}
	if len(text) > maxFile {
		return fault(1, "a larger file", fmt.Sprintf("must have at most %d bytes", maxFile), "give the path of a file of settings")
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if i := slices.IndexFunc(lines, func(line []byte) bool { return !utf8.Valid(line) }); i >= 0 {
		return fault(i+1, notShown, "must be UTF-8", "save the file as UTF-8")
	}
	docs, err := parseYAML(text)
	switch {
	case err != nil:
		line, problem := syntaxError(lines, err)
		return fault(line, quoteLine(string(lines[line-1])), "is no YAML: "+problem, "correct it there, or just above")
	case len(docs) == 0 || docs[0].Content[0].Tag == "!!null":
		return fault(1, "nothing", "must have defaults or systems", `write "systems: {}" if no system is meant`)
	case len(docs) > 1:
		return fault(docs[1].Line, "a second document", "must be the only one", "remove the line of dashes, or what follows it")
	}
	return node{Node: docs[0].Content[0], file: path, line: docs[0].Content[0].Line}, nil
}

// parseYAML returns the first two documents.
func parseYAML(text []byte) (docs []*yaml.Node, err error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	for len(docs) < 2 {
		doc := new(yaml.Node)
		switch err := d.Decode(doc); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, err
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

// syntaxError finds the line of an error of the parser's: the fewest lines that have
// it. The parser itself names the line where the block around it begins, counted
// from 0 or from 1, or none at all.
func syntaxError(lines [][]byte, err error) (line int, problem string) {
	m := yamlError.FindStringSubmatch(err.Error())
	begin, _ := strconv.Atoi(m[1])
	begin = min(max(begin, 1), len(lines))
	more := sort.Search(len(lines)-begin, func(n int) bool {
		_, err := parseYAML(bytes.Join(lines[:begin+n], nil))
		return err != nil && strings.HasSuffix(err.Error(), m[2])
	})
	if strings.HasPrefix(m[2], "unknown anchor") {
		return begin + more, "unknown anchor" // and not its name: see what
	}
	return begin + more, m[2]
}

// quoteLine shows a line of what is no YAML, which may hold anything, if all in it might be ours.
func quoteLine(line string) string {
	line = strings.TrimSpace(line)
	parts := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(":{}[],\"'*%@\\\x00 ", r) })
	foreign := slices.ContainsFunc(parts, func(part string) bool { return !plain(part) })
	return quoteIf(len(line) <= 64 && !foreign, line)
}
