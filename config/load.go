package config

import (
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Load returns the settings of every system that a YAML file lists or that the
// environment has a setting for, by the system's name. The package comment says
// what may stand in either. The path "" is the environment alone.
//
// Each [Config] is complete: it is what NewClient or Reconfigure would make of
// it, equal to what another Load of the same settings returns, and to the Config in
// a client's State. So a program that loads again reconfigures those that differ. To
// set more in code, set derived fields too, or to 0 for their default.
//
// The error is that of opening or reading the file (os.ErrNotExist, say), or every
// fault at once, each a [*FieldError] behind one [errors.Join]; then there are no
// settings. Load keeps nothing, and is safe for concurrent use.
func Load(path string) (map[string]Config, error) {
	systems, err := load(path, os.Environ())
	if err != nil {
		return nil, err
	}
	return configs(systems), nil
}

func configs(systems []*system) map[string]Config {
	out := make(map[string]Config, len(systems))
	for _, s := range systems {
		out[s.name] = s.full
	}
	return out
}

// system is the draft of one system.
type system struct {
	draft
	name   string
	listed bool // in the file
}

var noFile = node{Node: &yaml.Node{Kind: yaml.MappingNode}} // an empty map

func load(path string, environ []string) ([]*system, error) {
	if path == "" {
		return assemble(noFile, environ)
	}
	root, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return assemble(root, environ)
}

// assemble makes the drafts of all systems from a file and the environment, in the
// order of the file, and then of the names.
func assemble(root node, environ []string) ([]*system, error) {
	environ = slices.Sorted(slices.Values(environ))
	base := draft{home: func(f *field) string { return "defaults." + f.key }}
	var listed []node
	for _, n := range base.entries(root, "defaults and systems") {
		switch n.name {
		case "defaults":
			base.section(n, n.path, "")
		case "systems":
			listed = base.entries(n, "systems by their names")
		default:
			base.unknown(n, n.name, "", "defaults.", []string{"defaults", "systems"}, "put each system under systems, and settings for all under defaults")
		}
	}
	base.judge()

	var systems []*system
	known := map[string]string{} // where a system is, by its Key
	for _, n := range listed {
		s := &system{name: n.name, listed: true, draft: base.over(func(f *field) string { return n.path + "." + f.key })}
		s.section(n, n.path, "")
		s.judge() // also what a variable is stronger than
		if s.named(n.place(), known) {
			s.setEnv(EnvPrefix(s.name), environ)
		}
		systems = append(systems, s)
	}
	for _, variable := range environ {
		name := unlisted(variable)
		if _, is := known[Key(name)]; is || name == "" {
			continue
		}
		s := &system{name: name, draft: base.over(func(f *field) string { return EnvPrefix(name) + f.env })}
		variable, _, _ := strings.Cut(variable, "=")
		if s.named(variable, known) {
			s.setEnv(EnvPrefix(name), environ)
		}
		systems = append(systems, s)
	}

	faults := base.faults
	for _, s := range systems {
		_ = s.complete() // leaves its faults in s
		faults = append(faults, s.faults...)
	}
	return systems, join(faults)
}

// named takes the name for s, and reports whether it may have it.
func (s *system) named(place string, known map[string]string) bool {
	fault := checkName(s.name, place)
	first, twice := known[Key(s.name)]
	switch {
	case fault != nil && isDefault(s.name):
		fault.Remedy = "put settings for all systems under defaults in a file, and name those of one after it"
	case fault == nil && twice:
		fault = &FieldError{Place: place, Value: quoteName(s.name), Rule: "shares the variables " + EnvPrefix(s.name) + "… with " + first, Remedy: "rename one of the two"}
	}
	known[Key(s.name)] = place
	if fault != nil {
		s.faults = append(s.faults, fault)
	}
	return fault == nil
}

// unlisted returns the name of the system that a variable is a setting of, with '-'
// for '_', or "": what is no setting's exact name may be anybody's.
func unlisted(variable string) string {
	variable, value, _ := strings.Cut(variable, "=")
	part, setting, _ := strings.Cut(strings.TrimPrefix(variable, "CLIENT_"), "__")
	name := strings.ToLower(strings.ReplaceAll(part, "_", "-"))
	if value == "" || EnvPrefix(name)+setting != variable || find(func(f *field) bool { return f.env == setting }) == nil {
		return ""
	}
	return name
}
