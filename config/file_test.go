package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestLoadRefusesTexts(t *testing.T) {
	sber := "systems:\n  sber:\n"
	flows := sber // valid, but cut after one of its lines it has another error
	for i := range 20 {
		flows += fmt.Sprintf("    {}\n  a%d: {\n    bulkhead: {\n      max_waiting: 5}\n\n\n\n\n\n\n\n\n\n  }\n  b%d:\n", i, i)
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", `f.yaml:1 = nothing: must have defaults or systems; write "systems: {}" if no system is meant`},
		{"blank", "\n \n", "f.yaml:1 = nothing"},
		{"comments", "# nothing yet\n", "f.yaml:1 = nothing"},
		{"null", "---\n~\n", "f.yaml:1 = nothing"},
		{"dashes", "---\n", "f.yaml:1 = nothing"},
		{"two documents", sber + "---\nsystems: {}\n", "f.yaml:3 = a second document: must be the only one"},
		{"an empty second", sber + "---\n", "f.yaml:3 = a second document"},
		{"a second that is no YAML", sber + "---\na: ]\n", "f.yaml:4 = \"a: ]\": is no YAML: did not find expected node content"},
		{"Latin-1", sber + "    protocol: \"http\xb9\"\n", "f.yaml:3 = (not shown): must be UTF-8; save the file as UTF-8"},
		{"UTF-16", "\xff\xfes\x00y\x00s\x00", "f.yaml:1 = (not shown): must be UTF-8"},
		{"NUL", sber + "\x00", "f.yaml:3 = \"\\x00\": is no YAML: control characters are not allowed"},
		{"huge", "systems: {}\n" + strings.Repeat("#", maxFile-11), "f.yaml:1 = a larger file: must have at most 1048576 bytes"},

		// The parser's own lines are those of the block, or none.
		{"tab", sber + "    read_timeout: 5s\n\ttotal_timeout: 9s\n    protocol: http2\n", `f.yaml:4 = "total_timeout: 9s": is no YAML: found`},
		{"tab first", "\tsystems: {}\n", `f.yaml:1 = "systems: {}": is no YAML: found character that cannot start any token; correct it there, or just above`},
		{"open quote", sber + "    protocol: \"http2\n    read_timeout: 5s\n", `f.yaml:3 = "protocol: \"http2": is no YAML: found unexpected end of stream`},
		{"open brace", sber + "    bulkhead: {max_waiting: 5\n    protocol: http2\n", `f.yaml:3 = "bulkhead: {max_waiting: 5": is no YAML: did not find expected ',' or '}'`},
		{"open brace after others", "systems:\n  a: {\n    protocol: http1}\n  b: {protocol: http1\n  c: {}\n  d: {}\n", `f.yaml:4 = "b: {protocol: http1"`},
		{"open brace after many", flows + "    {protocol: http1\n  c: {}\n", `f.yaml:303 = "{protocol: http1": is no YAML: did not find expected ',' or '}'`},
		{"indent after many", flows + "    protocol: http1\n   read_timeout: 5s\n", `f.yaml:304 = "read_timeout: 5s": is no YAML: did not find expected key`},
		{"two commas", sber + "    bulkhead: {max_waiting: 5,, }\n    protocol: http2\n", `f.yaml:3 = "bulkhead: {max_waiting: 5,, }": is no YAML: did not find expected node content`},
		{"indent", sber + "    protocol: http2\n   read_timeout: 5s\n    total_timeout: 9s\n", `f.yaml:4 = "read_timeout: 5s": is no YAML: did not find expected key`},
		{"indent below a value", sber + "    protocol: http2\n      read_timeout: 5s\n", `f.yaml:4 = "read_timeout: 5s": is no YAML: mapping values are not allowed`},
		{"a list in a map", sber + "    protocol: http2\n    - read_timeout\n", `f.yaml:4 = "- read_timeout"`},
		{"two colons", sber + "    protocol: http2: x\n", `f.yaml:3 = "protocol: http2: x": is no YAML: mapping values are not allowed`},
		{"no colon", sber + "    protocol http2\n    read_timeout: 5s\n", `f.yaml:4 = "read_timeout: 5s": is no YAML: mapping values are not allowed`},
		{"unknown anchor", sber + "    protocol: *x\n    read_timeout: 5s\n", `f.yaml:3 = "protocol: *x": is no YAML: unknown anchor;`},
		{"percent", sber + "    protocol: %x\n    read_timeout: 5s\n", `f.yaml:3 = "protocol: %x": is no YAML`},
		{"at", sber + "    protocol: @x\n", `f.yaml:3 = "protocol: @x": is no YAML`},
		{"escape", sber + "    protocol: \"\\q\"\n", `f.yaml:3 = "protocol: \"\\q\"": is no YAML: found unknown escape character`},
		{"flow without end", strings.Repeat("[", 20000), "f.yaml:1 = (not shown): is no YAML: exceeded max depth of 10000"},
	} {
		got, err := loadText("f.yaml", c.text)
		if got != nil || err == nil || !strings.HasPrefix(err.Error(), "config: "+c.want) {
			t.Errorf("%s: %v, %v\nwant config: %s", c.name, got, err, c.want)
			continue
		}
		if len(faults(t, err)) != 1 {
			t.Errorf("%s: %v", c.name, err)
		}
		fieldsOf(t, err)
	}
	for name, text := range map[string]string{
		"the largest":       "systems: {}\n" + strings.Repeat("#", maxFile-12),
		"a byte order mark": "\ufeffsystems: {}\n",
		"directives":        "%YAML 1.1\n---\nsystems: {}\n...\n",
		"JSON":              `{"systems": {"sber": {"bulkhead": {"max_waiting": 5}}}}`,
	} {
		if _, err := loadText("f.yaml", text); err != nil {
			t.Error(name, err)
		}
	}
}

// An alias is never followed, so that these cost no more than their text.
func TestLoadAliasBomb(t *testing.T) {
	text := "defaults: &a0 {read_timeout: 4s}\nsystems:\n"
	for i := range 60 {
		text += fmt.Sprintf("  s%d: &a%d {a: *a%d, b: *a%d}\n", i, i+1, i, i)
	}
	start := time.Now()
	_, err := loadText("f.yaml", text)
	if n := len(faults(t, err)); n != 120 {
		t.Errorf("%d faults", n)
	}
	if took := time.Since(start); took > 5*s {
		t.Error(took)
	}
}
