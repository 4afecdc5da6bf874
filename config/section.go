package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	ruleNotRead   = "is an alias, a merge key or a tag, or has one, which are not read here"
	remedyNotRead = "write plain names and values; what systems share goes under defaults"
)

// entries returns the entries of a map that holds such things. What can't be read
// is a fault, and left out. A null is an empty map.
func (d *draft) entries(n node, things string) (entries []node) {
	switch {
	case d.refuses(n), n.Tag == "!!null":
		return nil
	case n.Kind != yaml.MappingNode:
		d.fault(nil, n.place(), what(n.Node), "must be a map of "+things, "indent them below it, each as a name, a colon and what belongs to it")
		return nil
	}
	first := map[string]int{}
	for pair := range slices.Chunk(n.Content, 2) {
		key := node{Node: pair[0], file: n.file, line: pair[0].Line, path: n.path}
		e := node{Node: pair[1], file: n.file, line: key.line, path: strings.TrimPrefix(n.path+"."+word(key.Value), "."), name: key.Value}
		switch line := first[e.name]; {
		case d.refuses(key):
		case key.Kind != yaml.ScalarNode:
			d.fault(nil, key.place(), what(key.Node), "is no name", "write a name there")
		case line > 0:
			d.fault(nil, e.place(), what(e.Node), fmt.Sprintf("is there twice, first in line %d", line), "remove one of the two")
		default:
			first[e.name] = e.line
			entries = append(entries, e)
		}
	}
	return entries
}

// refuses records the fault of a node that is not read wherever it stands. An alias
// would be a value of two places, or hold itself; a tag would have no effect.
func (d *draft) refuses(n node) bool {
	bad := n.Kind == yaml.AliasNode || n.Style&yaml.TaggedStyle != 0 || n.Tag == "!!merge"
	if bad {
		tag := n.Tag
		if !strings.HasPrefix(tag, "!!") {
			tag = strings.Repeat("a tag", min(len(tag), 1)) // its name is the file's own
		}
		d.fault(nil, n.place(), strings.TrimSpace(tag+" "+what(n.Node)), ruleNotRead, remedyNotRead)
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
			d.unknown(e, key, home+".", home+".", groups, "remove it")
		case d.refuses(e):
			d.bad = append(d.bad, f)
		case e.Kind != yaml.ScalarNode:
			d.fault(f, e.place(), what(e.Node), f.rule(f.of(&d.given)), remedyValue)
		case e.Tag != "!!null":
			d.set(f, e.Value, e.place())
		}
	}
}

// unknown records the fault of a key that is none. What was meant is one of the
// words, below home, or a setting; what is far from all may be a secret.
func (d *draft) unknown(n node, key, home, settings string, words []string, far string) {
	f, near := nearest(strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key)))
	right := settings + f.key
	if i := slices.IndexFunc(words, func(word string) bool { return distance(word, key[:min(len(key), 64)]) <= 2 }); i >= 0 {
		f, near, right = nil, true, home+words[i]
	}
	if near {
		d.fault(f, n.place(), what(n.Node), "is not known here", "write "+right)
	} else {
		d.fault(nil, n.place(), notShown, "is not known here", far+"; the nearest name is "+right)
	}
}

// word is a key as a part of a path: as it is if it might be a name, else quoted.
func word(key string) string {
	if len(key) > 64 || key == "" || strings.Trim(strings.ToLower(key), "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
		return quoteName(key)
	}
	return key
}
