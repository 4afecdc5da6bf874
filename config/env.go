package config

import (
	"math"
	"os"
	"slices"
	"strings"
)

// FromEnv returns what the environment sets for a system, zero fields elsewhere, so
// that the caller can put more on top; [Config.Complete], which NewClient calls,
// fills in the defaults. The result has been validated with its defaults, so that a
// fault names the variable. The errors are those of [CheckName], or every fault at
// once, each a [*FieldError] behind one [errors.Join]. The package comment says what
// may stand in a variable.
func FromEnv(system string) (Config, error) { return fromEnv(system, os.Environ()) }

func fromEnv(system string, environ []string) (Config, error) {
	if err := CheckName(system); err != nil {
		return Config{}, err
	}
	prefix := EnvPrefix(system)
	d := draft{place: func(f *field) string { return prefix + f.env }}
	d.setEnv(prefix, environ)
	if _, err := d.complete(); err != nil {
		return Config{}, err
	}
	return d.given, nil
}

// setEnv takes every variable under prefix that is a setting or looks meant as one,
// sorted so that the faults are. A variable is there once: os.Environ sees to it.
func (d *draft) setEnv(prefix string, environ []string) {
	for _, variable := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(variable, "=")
		f := meant(prefix, name)
		switch {
		case f == nil: // the application's, or another system's
		case name == prefix+f.env:
			d.set(f, value)
		default:
			d.fault(f, name, quote(value), "is no setting", "rename it to "+prefix+f.env)
		}
	}
}

// meant returns the setting that a variable is, or is a misspelling of; nil if the
// variable is none of ours.
func meant(prefix, variable string) *field {
	rest, ours := strings.CutPrefix(strings.ToUpper(variable), strings.TrimSuffix(prefix, "_"))
	if !ours {
		return nil
	}
	name, ended := strings.CutPrefix(rest, "_")
	f, near := nearest(name)
	// With one underscore it may be the application's, or a longer-named system's,
	// unless the rest is exactly right.
	if near && (ended || name == f.env) {
		return f
	}
	return nil
}

// nearest returns the field whose name is the fewest edits from name, which is in
// upper case, and whether that is near enough to be what was meant: within two
// edits, right but on the wrong level, or in one of our groups.
func nearest(name string) (best *field, near bool) {
	name = name[:min(len(name), 64)] // more decides nothing, and costs time
	group, bare, _ := strings.Cut(name, "_")
	if group != "BULKHEAD" && group != "BREAKER" && group != "RETRY" {
		group, bare = "", name
	}
	least := math.MaxInt
	for _, f := range fields {
		edits := distance(name, f.env)
		switch leaf := f.key[strings.LastIndex(f.key, ".")+1:]; {
		case strings.EqualFold(leaf, bare), strings.EqualFold(strings.ReplaceAll(name, "_", ""), strings.ReplaceAll(f.name, ".", "")):
			edits = min(edits, 1)
		case !strings.HasPrefix(f.env, group):
			continue
		}
		if edits < least {
			best, least = f, edits
		}
	}
	return best, least <= 2 || group != ""
}

// distance is Levenshtein's: the insertions, deletions and substitutions from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			if a[i] != b[j] {
				diagonal++
			}
			diagonal, row[j+1] = row[j+1], min(diagonal, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
