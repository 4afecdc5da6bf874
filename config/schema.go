package config

import (
	"encoding/json"
	"strings"
	"time"
)

//go:generate sh -c "go run ../cmd/resilient schema >schema.json"

// The texts that parse takes. They say less than the rules, as no pattern knows
// the bounds of a duration.
const (
	unit     = `(ns|us|µs|μs|ms|s|m|h)`
	decimal  = `([0-9]+(\.[0-9]*)?|\.[0-9]+)`
	duration = `\+?(` + decimal + unit + `)+`
	ratio    = `\+?` + decimal + `([eE][-+]?[0-9]+)?`
	count    = `\+?0*[1-9][0-9]*`
	nought   = `[-+]?(([0.]+` + unit + `)+|[0.]+)`
)

type object = map[string]any

// Schema returns a JSON schema (draft 2020-12) of the files that [Load] reads, for
// editors and other tools; it is also in schema.json beside this package. It refuses
// no file that Load takes, and takes some that Load refuses: the rules between fields
// and the bounds of a duration are beyond it.
func Schema() []byte {
	settings := object{}
	for _, f := range fields {
		group, key, nested := strings.Cut(f.key, ".")
		switch {
		case !nested:
			settings[f.key] = f.schema()
			continue
		case settings[group] == nil:
			settings[group] = mapOf(object{})
		}
		settings[group].(object)["properties"].(object)[key] = f.schema()
	}
	all := object{"$ref": "#/$defs/settings"}
	text, err := json.MarshalIndent(object{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "Settings of resilient HTTP clients",
		"description": "A null or an empty text is unset. The environment (CLIENT_<SYSTEM>__READ_TIMEOUT) comes before a system's settings, these before the defaults.",
		"type":        "object", "additionalProperties": false,
		"properties": object{
			"defaults": all,
			"systems": object{
				"description": "The external systems by their names.",
				"type":        []string{"object", "null"}, "additionalProperties": all,
				"propertyNames": object{"pattern": namePattern.String(), "maxLength": maxName, "not": object{"enum": []string{"default", "defaults"}}},
			},
		},
		"$defs": object{"settings": mapOf(settings)},
	}, "", "  ")
	if err != nil {
		panic(err) // of maps and texts there is none
	}
	return append(text, '\n')
}

func mapOf(properties object) object {
	return object{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
}

func (f *field) schema() object {
	var std Config
	std.fill()
	v := f.of(&std)
	s := object{"description": f.about, "default": v.Interface()}
	types, texts := []string{"string", "null"}, ""
	switch v.Interface().(type) {
	case bool:
		types, texts = append(types, "boolean"), "true|false"
	case Protocol, string:
		if f.list == nil {
			enum := []any{}
			for _, word := range f.words {
				enum = append(enum, word)
			}
			s["enum"] = append(enum, "", nil)
			return s
		}
		types, texts = append(types, "integer"), f.list.pattern+"(,"+f.list.pattern+")*" // 503 alone is one
	case float64:
		types, texts = append(types, "number"), ratio
		s["exclusiveMinimum"], s["maximum"] = 0, 1
	case time.Duration:
		texts = duration
		s["default"] = f.format(v)
		if f.zero { // alone it needs no unit
			types = append(types, "integer")
			s["minimum"], s["maximum"] = 0, 0
		} else {
			s["not"] = object{"type": "string", "pattern": "^" + nought + "$"}
		}
	default:
		types, texts = append(types, "integer"), count
		s["minimum"], s["maximum"] = 1, f.max
		if f.zero {
			s["minimum"] = 0
		}
	}
	if f.zero {
		texts += "|" + nought
	}
	if f.off {
		texts += "|off"
	}
	if f.std != "" {
		s["description"] = f.about + " By default: " + f.std + "."
		delete(s, "default")
	}
	s["type"], s["pattern"] = types, "^("+texts+")?$"
	return s
}
