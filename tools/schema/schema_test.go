// Package schema tests that the schema of files of settings says what Load does.
package schema

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/resilient-go/resilient/config"
)

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := jsonschema.UnmarshalJSON(strings.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler() // which checks the schema against that of its draft
	if err := c.AddResource("schema.json", text); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if s.DraftVersion != 2020 {
		t.Error("draft ", s.DraftVersion)
	}
	return s
}

// validate validates a YAML file as editors do: as the JSON that it stands for.
func validate(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	js, err := json.Marshal(value(t, doc.Content[0]))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(js)))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// value decodes n; the names in its maps are texts, as in JSON, whatever YAML takes them for.
func value(t *testing.T, n *yaml.Node) any {
	t.Helper()
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = value(t, n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		l := []any{}
		for _, c := range n.Content {
			l = append(l, value(t, c))
		}
		return l
	}
	var v any
	if err := n.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// beyond begins the files that Load refuses for what no schema can say.
const beyond = "# beyond the schema: "

func TestFiles(t *testing.T) {
	s := compile(t)
	paths, err := filepath.Glob("../../config/testdata/*/*.yaml")
	if err != nil || len(paths) < 20 {
		t.Fatal(err, paths)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.Contains(path, "/taken/"):
			if err := validate(t, s, text); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		case !strings.HasPrefix(string(text), beyond):
			for name, part := range parts(t, text) {
				if validate(t, s, part) == nil {
					t.Errorf("%s: %s is taken", path, name)
				}
			}
		}
	}
}

// parts returns a file for each system of one whose systems are all refused, else the file.
func parts(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	var doc struct {
		Systems map[string]yaml.Node
		Others  map[string]yaml.Node `yaml:",inline"`
	}
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Others) > 0 {
		return map[string][]byte{"the file": text}
	}
	files := map[string][]byte{}
	for name, n := range doc.Systems {
		part, err := yaml.Marshal(map[string]any{"systems": map[string]any{name: &n}})
		if err != nil {
			t.Fatal(err)
		}
		files[name] = part
	}
	return files
}

// TestValues compares the schema and Load, value by value: the schema refuses nothing that Load takes, and what else it
// takes is out of a duration's bounds, or breaks a rule between fields.
func TestValues(t *testing.T) {
	s := compile(t)
	path := filepath.Join(t.TempDir(), "f.yaml")
	values := []string{
		"", "~", "0", "-0", "+0", "00", "0.0", "0s", "-0s", "0.0s", "0h0m", "1", "+1", "01", "-1", "1.5", "0.5", ".5", "5.", "1e0", "5e-1", "'inf'", "'NaN'", "'1e999'",
		"20", "1000000", "1000001", "2147483647", "2147483648", "99999999999999999999", "'1'", "'0x1'", "'1_0'", "' 1'", "'1 '",
		"1s", "+1s", "-1s", "1.5s", ".5s", "5.s", "1h1m1s1ms1us1µs1μs1ns", "500ms", "1 s", "1S", "s", ".s", "1d", "1ss", "1s ", "61s", "25h", "99999999h",
		"off", "OFF", "on", "true", "false", "http1", "http2", "HTTP1", "http3", "[http1]", "{}", "[]", "{a: b}",
		"503", "99", "1000", "'429,500-599'", "429, 500-599", "' 429 , 500-599 '", "5xx", "500-", "'500,'", "','", "500-599-600", "599-500", "500;503",
	}
	var schema struct {
		Defs struct {
			Settings struct {
				Properties map[string]struct{ Properties map[string]any }
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(config.Schema()), &schema); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for key, group := range schema.Defs.Settings.Properties {
		formats := []string{"defaults: {" + key + ": %s}\n"}
		for inner := range group.Properties {
			formats = append(formats, "defaults: {"+key+": {"+inner+": %s}}\n")
		}
		for _, format := range formats {
			for _, v := range values {
				text := fmt.Appendf(nil, format, v)
				if err := os.WriteFile(path, text, 0o600); err != nil {
					t.Fatal(err)
				}
				_, loadErr := config.Load(path)
				schemaErr := validate(t, s, text)
				tried++
				if loadErr == nil && schemaErr != nil {
					t.Errorf("%s: taken by Load, but %v", text, schemaErr)
				}
				if loadErr != nil && schemaErr == nil && !excused(v) {
					t.Errorf("%s: taken by the schema, but %v", text, loadErr)
				}
			}
		}
	}
	if tried < 21*len(values) { // 19 fields and 2 groups, at least
		t.Errorf("tried %d", tried)
	}
}

// excused reports whether a value may be beyond the schema: a duration of any length, a range that goes down, a number
// as YAML alone writes it, and one too large or small as a text.
func excused(v string) bool {
	switch v {
	case "599-500", "0.0", "1e0", "5.", "01", "00", "'1'", "'1e999'":
		return true
	}
	return strings.HasSuffix(v, "s") || strings.HasSuffix(v, "h")
}
