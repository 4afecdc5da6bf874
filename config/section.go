package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	unshown = "(not shown)" // a value that is none of ours may be a secret

	ruleNotRead   = "has an alias, a merge key or a tag, which are not read here"
	remedyNotRead = "write the settings themselves; those that systems share go under defaults"
)

// entries returns the entries of a map that holds such things. What can't be read
// is a fault, and left out. A null is an empty map.
func (d *draft) entries(n node, things string) (entries []node) {
	switch {
	case d.refuses(n):
		return nil
	case n.Tag == "!!null":
		return nil
	case n.Kind != yaml.MappingNode:
		d.fault(nil, n.place(), what(n.Node), "must be a map of "+things, "indent them below it, each as a name, a colon and what belongs to it")
		return nil
	}
	first := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		e := node{Node: n.Content[i+1], file: n.file, line: key.Line, name: key.Value, path: strings.TrimPrefix(n.path+"."+word(key.Value), ".")}
		switch line := first[e.name]; {
		case key.Kind == yaml.MappingNode, key.Kind == yaml.SequenceNode:
			e.path = n.path
			d.fault(nil, e.place(), what(key), "is no name", "write a name there")
		case key.Kind == yaml.AliasNode, key.Tag == "!!merge", key.Style&yaml.TaggedStyle != 0:
			e.path = n.path
			d.fault(nil, e.place(), what(key), ruleNotRead, remedyNotRead)
		case line > 0:
			d.fault(nil, e.place(), what(e.Node), fmt.Sprintf("is there twice, first in line %d", line), "remove one of the two")
		default:
			first[e.name] = e.line
			entries = append(entries, e)
		}
	}
	return entries
}

// refuses records the fault of a node that is not read whatever it stands for. An
// alias would be a value of two places, or of itself; a tag would have no effect.
func (d *draft) refuses(n node) bool {
	bad := n.Kind == yaml.AliasNode || n.Style&yaml.TaggedStyle != 0
	if bad {
		d.fault(nil, n.place(), strings.TrimSpace(n.Tag+" "+what(n.Node)), ruleNotRead, remedyNotRead)
	}
	return bad
}

// section takes the settings of a map. Home is the path of the whole section, group
// the beginning of the keys here.
func (d *draft) section(n node, home, group string) {
	for _, e := range d.entries(n, "settings") {
		key := group + e.name
		f := find(func(f *field) bool { return f.key == key && !strings.Contains(e.name, ".") })
		switch {
		case f == nil && slices.Contains(groups, key):
			d.section(e, home, key+".")
		case f == nil:
			d.unknown(e, home, key)
		case d.refuses(e):
			d.bad = append(d.bad, f)
		case e.Kind != yaml.ScalarNode:
			d.fault(f, e.place(), what(e.Node), f.rule(f.of(&d.given)), remedyValue)
		case e.Tag != "!!null":
			d.set(f, e.Value, e.place())
		}
	}
}

// unknown records the fault of a key that is none, and what was probably meant.
func (d *draft) unknown(n node, home, key string) {
	f, near := nearestKey(key)
	switch group := misspelt(key, groups); {
	case group != "":
		d.fault(nil, n.place(), what(n.Node), "is no setting", "write "+home+"."+group)
	case near:
		d.fault(f, n.place(), what(n.Node), "is no setting", "write "+home+"."+f.key)
	default:
		d.fault(nil, n.place(), unshown, "is no setting", "remove it; the nearest setting is "+home+"."+f.key)
	}
}

// misplaced records the fault of a key at the top.
func (d *draft) misplaced(n node) {
	remedy := "put settings for all systems under defaults, and those of one under its name in systems"
	f, near := nearestKey(n.name)
	switch section := misspelt(n.name, []string{"defaults", "systems"}); {
	case section != "":
		remedy = "write " + section
	case near:
		remedy = "write defaults." + f.key + ", or put it under a system"
	}
	d.fault(nil, n.place(), unshown, "is neither defaults nor systems", remedy)
}

func nearestKey(key string) (*field, bool) {
	return nearest(strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key)))
}

// misspelt returns which of the words is within two edits of text, or "".
func misspelt(text string, words []string) string {
	text = text[:min(len(text), 64)]
	for _, word := range words {
		if distance(word, text) <= 2 {
			return word
		}
	}
	return ""
}

// word is a key as a part of a path: as it is if it might be a name, else quoted.
func word(key string) string {
	if len(key) > 64 || strings.Trim(strings.ToLower(key), "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" || key == "" {
		return quote(key)
	}
	return key
}
