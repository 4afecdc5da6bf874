package config

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// An Explanation is what [Load] makes of a file and the environment, and why. It is
// data of the caller's own; its String is for people to read.
type Explanation struct {
	Systems []System // sorted by their names
}

// System is the settings of one system.
type System struct {
	Name     string
	Config   Config    // as Load returns it
	Settings []Setting // the same, in the order of the package comment
	// Others are the variables under the system's prefix that are no settings, sorted:
	// the application's. Only their names are kept, as they may hold secrets.
	Others []string
	// Warnings are what is allowed but unwise, each with its remedy.
	Warnings []*FieldError
}

// Setting is one field of a system's [Config], in force.
type Setting struct {
	Field string // by its Go path, such as "Bulkhead.MaxWaiting"
	Key   string // as in a file, below the system: "bulkhead.max_waiting"
	Value string // as in a file
	// Source is where the value was set: a place in the file ("clients.yaml:7
	// systems.sber.read_timeout"), a variable, or "default", with what the default
	// depends on after it.
	Source  string
	Default bool
}

// Explain says which settings [Load] returns for a path, and where each comes from.
// Its errors are Load's.
func Explain(path string) (*Explanation, error) {
	environ := os.Environ()
	systems, err := load(path, environ)
	if err != nil {
		return nil, err
	}
	return explain(systems, environ), nil
}

func explain(systems []*system, environ []string) *Explanation {
	slices.SortFunc(systems, func(a, b *system) int { return strings.Compare(a.name, b.name) })
	e := &Explanation{}
	for _, s := range systems {
		s.advise()
		s.adviseName(systems)
		out := System{Name: s.name, Config: s.full, Warnings: s.faults, Others: others(EnvPrefix(s.name), environ)}
		for _, f := range fields {
			set := Setting{Field: f.name, Key: f.key, Value: cmp.Or(f.format(f.of(&s.full)), `""`), Source: s.at[f], Default: s.at[f] == ""}
			if set.Default {
				set.Source = strings.TrimSuffix("default: "+f.std, ": ")
			}
			out.Settings = append(out.Settings, set)
		}
		e.Systems = append(e.Systems, out)
	}
	return e
}

// Settings returns the fields of c as they would stand in a file, without their sources.
func Settings(c Config) []Setting {
	var all []Setting
	for _, f := range fields {
		all = append(all, Setting{Field: f.name, Key: f.key, Value: cmp.Or(f.format(f.of(&c)), `""`)})
	}
	return all
}

// others returns the variables under a prefix that are no settings.
func others(prefix string, environ []string) (names []string) {
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, prefix) && meant(prefix, name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// String returns a table for each system, and what there is to say about it below.
// The same settings give the same text.
func (e *Explanation) String() string {
	var b strings.Builder
	for i, s := range e.Systems {
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat("\n", min(i, 1)), s.Name)
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, set := range s.Settings {
			fmt.Fprintf(table, "  %s\t%s\t%s\n", set.Key, set.Value, set.Source)
		}
		table.Flush()
		if len(s.Others) > 0 {
			fmt.Fprintf(&b, "  the application's: %s\n", strings.Join(s.Others, ", "))
		}
		for _, w := range s.Warnings {
			fmt.Fprintf(&b, "  warning: %s\n", strings.TrimPrefix(w.Error(), "config: "))
		}
	}
	return cmp.Or(b.String(), "no systems\n")
}
