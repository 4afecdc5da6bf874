package config

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write schema.json and docs/configuration.md")

// The schema is made here, from the table, so that programs need not carry what makes it.
func TestSchema(t *testing.T) {
	made := makeSchema()
	if *update {
		if err := os.WriteFile("schema.json", []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if Schema() != made {
		t.Error("schema.json is not what the table of fields says: make generate")
	}
	for _, f := range fields {
		if about[f.name] == "" || f.list != nil && items[f.name].pattern == "" {
			t.Errorf("%s is not described", f.name)
		}
	}
}

// about says what the fields are, in the words of a file.
var about = map[string]string{
	"MaxConnsPerHost":             "Connections to one host: those being dialled, in use and idle together.",
	"MaxIdleConnsPerHost":         "Connections kept for reuse, at most max_connections.",
	"IdleConnTimeout":             "How long an unused connection is kept. At most 24h.",
	"MaxResponseHeaderBytes":      "The size of a response's headers, in bytes.",
	"MaxResponseBytes":            "The size of a response's body, in bytes as the caller reads them. off bounds none.",
	"Protocol":                    "http1 is HTTP/1.1 alone. http2 is HTTP/2 where the server offers it; it does not keep max_connections.",
	"ConnectTimeout":              "Dialling, the TLS handshake, and a proxy's answer to CONNECT, each. At most 10s, below read_timeout.",
	"ReadTimeout":                 "The longest silence of the system. At most 60s, below total_timeout.",
	"TotalTimeout":                "An exchange, to the end of its body. At least 2 × connect_timeout + read_timeout, at most 5m.",
	"Bulkhead.MaxConcurrent":      "Exchanges at one time, below max_connections (1 of 1 is allowed).",
	"Bulkhead.AcquireTimeout":     "The wait for a permit, at most 1s. 0 refuses at once.",
	"Bulkhead.MaxWaiting":         "How many may wait for a permit. 0 lets nobody wait.",
	"Breaker.Window":              "How far back results count for failure_ratio. At least 2 × total_timeout, at most 24h.",
	"Breaker.MinRequests":         "The number of results in the window from which failure_ratio counts.",
	"Breaker.FailureRatio":        "The share of failures, from above 0 to 1, at which the breaker opens.",
	"Breaker.ConsecutiveFailures": "Failures in a row at which the breaker opens, whatever the ratio. off leaves opening to the ratio alone.",
	"Breaker.OpenFor":             "How long an open breaker refuses before it lets probes through. At most 24h.",
	"Breaker.HalfOpenProbes":      "The number of probes that must succeed for the breaker to close.",
	"Breaker.SlowCall":            "The time to the headers from which a success counts as a failure, at most read_timeout. off counts none.",
	"Breaker.FailureStatus":       "The response statuses that are failures: codes and ranges from 100 to 999 with commas between them.",
	"Retry.MaxAttempts":           "How often a request is made, the first time included. 1 repeats none.",
	"Retry.PutDelete":             "Whether PUT and DELETE are repeated as GET is.",
	"Retry.Status":                "The response statuses that are repeated: codes and ranges of 408, 425, 429 and 500 to 599 with commas between them.",
	"Retry.BaseDelay":             "The longest pause before the second attempt; it doubles with each further one. At most max_delay.",
	"Retry.MaxDelay":              "How far the longest pause doubles. At most 5s.",
	"Retry.MaxElapsed":            "How long after the first attempt began the last may begin. At most 5s.",
	"Retry.MaxRetryAfter":         "The longest Retry-After that is heeded. At most 5m.",
	"Retry.BudgetRatio":           "The share of the calls within 10s, from above 0 to 1, that there may be further attempts of.",
	"Retry.BudgetFloor":           "How many further attempts there may be within 10s beyond that share.",
	"Retry.Gate":                  "Whether a 429 or 503 with a Retry-After pauses the whole client.",
	"Retry.DeadlineHeader":        "The header in which the system is told how many milliseconds are left of the caller's deadline: letters, digits and at least one -, a letter first. Unset tells nothing.",
	"Retry.DeadlineFloor":         "How much has to be left of the caller's deadline for a call to be made. At most 10s. off demands nothing.",
}

// items is what the lists hold. One item alone may be a number, to YAML.
var items = map[string]struct {
	pattern  string
	min, max int
}{
	"Breaker.FailureStatus": {statusPattern, 100, 999},
	"Retry.Status":          {statusPattern, 408, 599},
	"Retry.DeadlineHeader":  {headerPattern, 0, 0},
}

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

// makeSchema makes what Schema returns.
func makeSchema() string {
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
		panic(err)
	}
	return string(text) + "\n"
}

func mapOf(properties object) object {
	return object{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
}

func (f *field) schema() object {
	var std Config
	std.fill()
	v := f.of(&std)
	s := object{"description": about[f.name], "default": v.Interface()}
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
		item := items[f.name]
		texts = item.pattern
		if item.max > 0 {
			texts += "(," + item.pattern + ")*"
			types = append(types, "integer")
			s["minimum"], s["maximum"] = item.min, item.max
		}
	case float64:
		types, texts = append(types, "number"), ratio
		s["exclusiveMinimum"], s["maximum"] = 0, 1
	case time.Duration:
		texts = duration
		s["default"] = f.format(v)
		if f.zero { // alone it needs no unit
			types, texts = append(types, "integer"), duration+"|"+nought
			s["minimum"], s["maximum"] = 0, 0
		} else {
			s["not"] = object{"type": "string", "pattern": "^" + nought + "$"}
		}
	default:
		types, texts = append(types, "integer"), count
		s["minimum"], s["maximum"] = 1, f.max
		if f.zero {
			texts += "|[-+]?0+"
			s["minimum"] = 0
		}
	}
	if f.off {
		texts += "|off"
	}
	if f.std != "" {
		s["description"] = about[f.name] + " By default: " + f.std + "."
		delete(s, "default")
	}
	s["type"], s["pattern"] = types, "^("+texts+")?$"
	return s
}
