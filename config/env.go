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
func FromEnv(system string) (Config, error) {
	return fromEnv(system, os.Environ())
}

func fromEnv(system string, environ []string) (Config, error) {
	if err := CheckName(system); err != nil {
		return Config{}, err
	}
	prefix := EnvPrefix(system)
	d := newDraft(Config{}, func(f *field) string { return prefix + f.env })
	d.setEnv(prefix, environ)
	if _, err := d.complete(); err != nil {
		return Config{}, err
	}
	return d.given, nil
}

// setEnv takes every variable under prefix that is a setting or looks meant as one.
func (d *draft) setEnv(prefix string, environ []string) {
	seen := map[string]bool{}
	for _, variable := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(variable, "=")
		f := meant(prefix, name)
		switch {
		case f == nil: // the application's, or another system's
		case name != prefix+f.env:
			d.fault(f, name, quote(value), "is no setting", "rename it to "+prefix+f.env)
		case seen[name]:
			d.fault(f, name, quote(value), "is set twice", "set it once")
		default:
			seen[name] = true
			d.set(f, value)
		}
	}
}

// meant returns the setting that a variable is, or is a misspelling of; nil if the
// variable is none of ours.
func meant(prefix, variable string) *field {
	upper := strings.ToUpper(variable)
	rest, ours := strings.CutPrefix(upper, prefix)
	if !ours {
		// One underscore after the system is a typo if an exact name follows; a name of
		// another system holds a "__", and so cannot.
		rest, ours = strings.CutPrefix(upper, strings.TrimSuffix(prefix, "_"))
		i := slices.IndexFunc(fields, func(f *field) bool { return f.env == rest })
		if !ours || i < 0 {
			return nil
		}
		return fields[i]
	}
	if f, near := nearest(rest); near {
		return f
	}
	return nil
}

// nearest returns the field whose name is the fewest edits from name, which is in
// upper case, and whether that is near enough to be what was meant: within two
// edits, right but on the wrong level, or in one of our groups.
func nearest(name string) (best *field, near bool) {
	group, bare := "", name
	for _, g := range []string{"BULKHEAD_", "BREAKER_"} {
		if strings.HasPrefix(name+"_", g) {
			group, bare = g, strings.TrimPrefix(name, g)
		}
	}
	least := math.MaxInt
	for _, f := range fields {
		edits := distance(name, f.env)
		switch leaf := f.key[strings.LastIndex(f.key, ".")+1:]; {
		case strings.EqualFold(leaf, bare):
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
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
