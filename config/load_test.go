package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// loadText is Load of a file of that name and text, in that environment.
func loadText(file, text string, environ ...string) (map[string]Config, error) {
	root, err := document(file, []byte(text))
	if err != nil {
		return nil, err
	}
	systems, err := assemble(root, environ)
	if err != nil {
		return nil, err
	}
	return configs(systems), nil
}

// complete completes what a test expects.
func complete(t testing.TB, given map[string]Config) map[string]Config {
	t.Helper()
	full := map[string]Config{}
	for name, c := range given {
		var err error
		if full[name], err = c.Complete(); err != nil {
			t.Fatal(err)
		}
	}
	return full
}

// What the files in testdata/taken set.
var taken = map[string]map[string]Config{
	"all": {"sber": {
		MaxConnsPerHost: 40, MaxIdleConnsPerHost: 30, IdleConnTimeout: 20 * s, MaxResponseHeaderBytes: 65536, MaxResponseBytes: 1 << 20, Protocol: HTTP2,
		ConnectTimeout: 500 * ms, ReadTimeout: 3 * s, TotalTimeout: 6 * s,
		Bulkhead: Bulkhead{MaxConcurrent: 20, AcquireTimeout: 50 * ms, MaxWaiting: 7},
		Breaker: Breaker{
			Window: time.Minute, MinRequests: 5, FailureRatio: 0.25, ConsecutiveFailures: 8,
			OpenFor: 10 * s, HalfOpenProbes: 2, SlowCall: 1500 * ms, FailureStatus: "429, 500-599",
		},
		Retry: Retry{
			MaxAttempts: 3, PutDelete: true, Status: "429, 502-504", BaseDelay: 50 * ms, MaxDelay: 2 * s, MaxElapsed: 4 * s, MaxRetryAfter: time.Minute,
			BudgetRatio: 0.05, BudgetFloor: 5, Gate: true, DeadlineHeader: "X-Deadline-Ms", DeadlineFloor: 30 * ms,
		},
	}},
	"defaults": {
		"sber":      {ReadTimeout: 4 * s, TotalTimeout: 20 * s, Bulkhead: Bulkhead{MaxConcurrent: 10, MaxWaiting: NoQueue}},
		"insurance": {ReadTimeout: 4 * s, Bulkhead: Bulkhead{MaxConcurrent: 10, MaxWaiting: 5}},
		"fiscal":    {ReadTimeout: 4 * s, Bulkhead: Bulkhead{MaxConcurrent: 10, MaxWaiting: 5}},
	},
	"text": {"sber": {
		MaxConnsPerHost: 20, MaxIdleConnsPerHost: 20, ReadTimeout: 4 * s, Protocol: HTTP2,
		Bulkhead: Bulkhead{MaxConcurrent: 10, AcquireTimeout: NoWait, MaxWaiting: NoQueue},
		Breaker:  Breaker{FailureRatio: 0.5, ConsecutiveFailures: Off, FailureStatus: "503"},
	}},
	"zero": {
		"a": {Bulkhead: Bulkhead{AcquireTimeout: NoWait}},
		"b": {Bulkhead: Bulkhead{AcquireTimeout: NoWait}},
		"c": {Bulkhead: Bulkhead{AcquireTimeout: NoWait, MaxWaiting: NoQueue}},
		"d": {Bulkhead: Bulkhead{AcquireTimeout: NoWait}},
		"e": {Bulkhead: Bulkhead{AcquireTimeout: NoWait}},
	},
	"unset":   {"sber": {}},
	"nobody":  {},
	"neither": {},
	"names":   {"on": {}, "no": {}, "y": {}, "null": {}, "sber_reports": {}, "sber-payments": {}, "a1": {}},
	"anchors": {"sber": {ReadTimeout: 4 * s, TotalTimeout: 8 * s}},
	"decimals": {"sber": {
		ConnectTimeout: 500 * ms, ReadTimeout: 1500 * ms, TotalTimeout: 6 * s,
		Breaker: Breaker{FailureRatio: 0.5, OpenFor: 1500 * ms, Window: time.Hour + 2*time.Minute + 3*s},
	}},
	"reordered": {"sber": {ReadTimeout: 6 * s, TotalTimeout: 8 * s}},
}

// files returns the texts of testdata by their names.
func files(t testing.TB, kind string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/" + kind + "/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal("no files: ", err)
	}
	texts := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[strings.TrimSuffix(filepath.Base(path), ".yaml")] = string(text)
	}
	return texts
}

func TestLoadTakes(t *testing.T) {
	texts := files(t, "taken")
	if len(texts) != len(taken) {
		t.Error(slices.Sorted(maps.Keys(texts)))
	}
	for name, want := range taken {
		for _, newline := range []string{"\n", "\r\n"} {
			got, err := loadText("taken.yaml", strings.ReplaceAll(texts[name], "\n", newline))
			if diff := cmp.Diff(complete(t, want), got); err != nil || diff != "" {
				t.Errorf("%s: %v\n%s", name, err, diff)
			}
		}
	}
	for _, f := range fields { // a new setting has to be there too
		c := taken["all"]["sber"]
		if f.of(&c).IsZero() {
			t.Error("no file sets ", f.name)
		}
	}
}

// A refused file has, in comments, what each fault says, on the line of the fault:
// those faults, all at once, and no others. Among them are keys that nobody knows
// (K-03) and systems with the same variables (K-07).
func TestLoadRefuses(t *testing.T) {
	for name, text := range files(t, "refused") {
		t.Run(name, func(t *testing.T) {
			var want []string // line, then text
			for i, line := range strings.Split(text, "\n") {
				for _, fault := range strings.Split(line, " # fault: ")[1:] {
					want = append(want, fmt.Sprintf("%d\x00%s", i+1, fault))
				}
			}
			got, err := loadText("refused.yaml", text)
			if err == nil || got != nil {
				t.Fatalf("taken: %v", got)
			}
			fieldsOf(t, err)
			for _, f := range faults(t, err) {
				i := slices.IndexFunc(want, func(w string) bool {
					line, text, _ := strings.Cut(w, "\x00")
					return strings.HasPrefix(f.Place+" ", "refused.yaml:"+line+" ") && strings.Contains(f.Error(), text)
				})
				if i < 0 {
					t.Errorf("unexpected: %v", f)
					continue
				}
				want = slices.Delete(want, i, i+1)
			}
			if len(want) > 0 {
				t.Errorf("missing: %q", want)
			}
		})
	}
}

// The example of the package comment is a file that loads (see ExampleLoad).
func TestDocumentedFile(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/clients.yaml")
	if err != nil {
		t.Fatal(err)
	}
	comment := regexp.MustCompile(`(?m)^//\t?`).ReplaceAllString(string(doc), "")
	if !strings.Contains(comment, "\n"+string(text)) {
		t.Error("the file in doc.go is another")
	}
}

func TestLoadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "clients.yaml")
	if _, err := Load(path); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "config: open "+path) {
		t.Error("no file: ", err)
	}
	if got, err := Load(dir); got != nil || err == nil || !strings.Contains(err.Error(), dir) {
		t.Error("a directory: ", got, err)
	}
	if err := os.WriteFile(path, []byte("systems: {sber: {read_timeout: 4s, protocol: h2}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), "config: "+path+":1 systems.sber.protocol = \"h2\": ") {
		t.Error(err)
	}
	t.Setenv("CLIENT_SBER__PROTOCOL", "http2")
	t.Setenv("CLIENT_NEW__READ_TIMEOUT", "3s")
	if err := os.WriteFile(path, []byte("systems: {sber: {read_timeout: 4s}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := complete(t, map[string]Config{"sber": {ReadTimeout: 4 * s, Protocol: HTTP2}, "new": {ReadTimeout: 3 * s}})
	if got, err := Load(path); err != nil || cmp.Diff(want, got) != "" {
		t.Error(cmp.Diff(want, got), err)
	}
	want = complete(t, map[string]Config{"sber": {Protocol: HTTP2}, "new": {ReadTimeout: 3 * s}})
	if got, err := Load(""); err != nil || cmp.Diff(want, got) != "" {
		t.Error(cmp.Diff(want, got), err)
	}
	if _, err := os.Stat("/dev/zero"); err == nil { // a device has no size
		if _, err := Load("/dev/zero"); err == nil || !strings.Contains(err.Error(), "a larger file") {
			t.Error(err)
		}
	}
}

// K-08 and what comes before what, for every field: the environment, the system's
// section, the defaults, the built-in.
func TestLoadPrecedence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		defaults, section, env := anyConfig(t), anyConfig(t), anyConfig(t)
		var want Config
		for _, layer := range []Config{defaults, section, env} {
			for _, f := range fields {
				if v := f.of(&layer); !v.IsZero() {
					f.of(&want).Set(v)
				}
			}
		}
		full, wantErr := want.Complete()
		text := "defaults:\n" + asYAML(defaults, "  ") + "systems:\n  a:\n" + asYAML(section, "    ")
		got, err := loadText("f.yaml", text, asEnv(env, "CLIENT_A__")...)
		// A value that is none is a fault also where a stronger source has another.
		if fine := wantErr == nil && defaults.judged() && section.judged() && env.judged(); fine != (err == nil) {
			t.Fatalf("%v, %v\n%s", wantErr, err, text)
		}
		if err == nil && got["a"] != full {
			t.Fatal(cmp.Diff(full, got["a"]))
		}
	})
}

// judged reports whether every field of c is allowed by itself.
func (c Config) judged() bool {
	d := draft{given: c, home: func(f *field) string { return f.name }}
	d.judge()
	return len(d.faults) == 0
}

// asYAML writes the fields set in c as the lines of a map.
func asYAML(c Config, indent string) string {
	var b strings.Builder
	group := ""
	for _, f := range fields {
		v := f.of(&c)
		if v.IsZero() {
			continue
		}
		in, key, nested := strings.Cut(f.key, ".")
		if !nested {
			in, key = "", f.key
		}
		if in != group {
			group = in
			fmt.Fprintf(&b, "%s%s:\n", indent, group)
		}
		text := f.format(v)
		if v.Kind() == reflect.String {
			text = strconv.Quote(text)
		}
		fmt.Fprintf(&b, "%s%s%s: %s\n", indent, strings.Repeat("  ", strings.Count(f.key, ".")), key, text)
	}
	return b.String()
}
