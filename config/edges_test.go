package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// A name that no file lists is taken for a slip of one that is within two edits of it, and not beyond.
func TestNamesTwoEditsApart(t *testing.T) {
	for other, slip := range map[string]bool{"SBR": true, "SR": true, "S": false, "SBERBA": true, "SBERBANK": false} {
		e := explainText(t, "systems: {sber: {}}", "CLIENT_"+other+"__READ_TIMEOUT=4s")
		if said := strings.Contains(e.String(), "looks like sber"); said != slip {
			t.Errorf("%s: %s", other, e)
		}
	}
}

// A second document is the fault, whatever follows it: nobody reads a third.
func TestThirdDocumentIsNotRead(t *testing.T) {
	_, err := loadText("f.yaml", "systems: {}\n---\nsystems: {}\n---\n]\n")
	if err == nil || !strings.Contains(err.Error(), "a second document") {
		t.Error(err)
	}
}

// An alias of a broken file is named if its name is one of ours, else it might be a password.
func TestAliases(t *testing.T) {
	for name, shown := range map[string]string{"defaults": "*defaults", "hunter2": "= an alias: "} {
		_, err := loadText("f.yaml", "defaults: &"+name+" {}\nsystems: *"+name+"\n")
		if err == nil || !strings.Contains(err.Error(), shown) || name == "hunter2" && strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A line that is no YAML is shown up to 64 bytes.
func TestLongLines(t *testing.T) {
	for n, shown := range map[int]bool{64: true, 65: false} {
		line := "]" + strings.Repeat("true ", 20)[:n-1]
		_, err := loadText("f.yaml", line+"\n")
		if err == nil || strings.Contains(err.Error(), line) != shown {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// What opens and cannot be read is an error that says so, and nothing stays open.
func TestFilesAreClosed(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "nothing") {
		t.Errorf("a directory: %v", err)
	}
	path := filepath.Join(dir, "f.yaml")
	if err := os.WriteFile(path, []byte("systems: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func() int {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("this system does not list a process's files")
		}
		return len(files)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would close what was forgotten
	before := open()
	for range 100 {
		if _, err := Load(path); err != nil {
			t.Fatal(err)
		}
	}
	if after := open(); after >= before+100 {
		t.Errorf("%d files are open, %d before", after, before)
	}
}

// The parser counts more kinds of line breaks than we do, and may name a line that is not there.
func TestLineBeyondTheEnd(t *testing.T) {
	for _, text := range []string{"[\r\r\r", "\u2028\"*"} {
		if _, err := loadText("f.yaml", text); err == nil || !strings.Contains(err.Error(), "f.yaml:1 = ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A value that a variable is stronger than is judged too: without the variable it would hold.
func TestOverruledIsJudged(t *testing.T) {
	_, err := loadText("f.yaml", "systems: {a: {bulkhead: {acquire_timeout: 2s}}}", "CLIENT_A__BULKHEAD_ACQUIRE_TIMEOUT=100ms")
	if err == nil || !strings.Contains(err.Error(), "f.yaml:1 systems.a.bulkhead.acquire_timeout = 2s") {
		t.Error(err)
	}
}

// Both lines of a setting that is there twice may be the first of the file.
func TestTwiceInTheFirstLine(t *testing.T) {
	_, err := loadText("f.yaml", "systems: {a: {read_timeout: 4s, read_timeout: 4s}}")
	if err == nil || !strings.Contains(err.Error(), "is there twice, first in line 1") {
		t.Error(err)
	}
}

// What is in a map that is refused is not read, and so has no faults of its own.
func TestRefusedMapIsNotRead(t *testing.T) {
	_, err := loadText("f.yaml", "systems: !x {a: {read_timeout: soon}}")
	if n := len(faults(t, err)); n != 1 {
		t.Errorf("%d faults: %v", n, err)
	}
}

// A key is taken for a slip of a word within two edits of it, and not beyond. Its own name is in the path up to 64 bytes.
func TestUnknownKeys(t *testing.T) {
	for key, want := range map[string]string{
		"systm":                  "write systems",
		"syste":                  "write systems",
		"sytm":                   "the nearest name is",
		"sstms":                  "write systems",
		strings.Repeat("k", 64):  "f.yaml:1 " + strings.Repeat("k", 64) + " = ",
		strings.Repeat("k", 65):  "f.yaml:1 (not shown) = ",
		"systems.a.read_timeout": "is not known here",
	} {
		_, err := loadText("f.yaml", key+": {}")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// A variable that begins as none of ours does is the application's, though it is named as a setting is.
func TestForeignVariables(t *testing.T) {
	c, err := fromEnv("sber", []string{"READ_TIMEOUT=soon", "_READ_TIMEOUT=soon", "SBER__READ_TIMEOUT=soon"})
	if err != nil || c != (Config{}) {
		t.Error(c, err)
	}
}

// What may be shown of a text that was meant as a value or as a name.
func TestQuotes(t *testing.T) {
	long := strings.Repeat("n", 64)
	for text, shown := range map[string]bool{
		"max_attemptsxx": true, "max_attemptsxxx": false, // two edits from a name without its group, and three
		"4#7!9$x": false, "4-7+9%x": true,
	} {
		if got := quote(text) != notShown; got != shown {
			t.Errorf("value %s: shown: %t", text, got)
		}
	}
	for name, shown := range map[string]bool{
		"sber 2.b_c-d": true, "банк": true, "https://sber": false, "a/b": false, "a@b": false,
		long: true, long + "n": false,
	} {
		if got := quoteName(name) != notShown; got != shown {
			t.Errorf("name %s: shown: %t", name, got)
		}
	}
}

// The systems of an explanation are in the order of their names, a blank line between them, and only what there is below each.
func TestExplanationOfThree(t *testing.T) {
	e := explainText(t, "systems: {c: {}, a: {}, b: {}}", "CLIENT_B_LEVEL=9")
	var names []string
	for _, s := range e.Systems {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "a b c" {
		t.Errorf("in the order %s", got)
	}
	out := e.String()
	if strings.HasPrefix(out, "\n") || strings.Count(out, "\n\n") != 2 || strings.Contains(out, "\n\n\n") {
		t.Errorf("blank lines: %q", out)
	}
	if strings.Count(out, "the application's:") != strings.Count(out, "CLIENT_B_LEVEL") {
		t.Errorf("variables: %s", out)
	}
}

// Status by status: which are the caller's own mistakes, and which the least that a breaker should count.
func TestAdviceOfStatuses(t *testing.T) {
	say := func(statuses string) string {
		return explainText(t, fmt.Sprintf("systems: {a: {breaker: {slow_call: off, failure_status: '%s'}}}", statuses)).String()
	}
	for code := 395; code < 430; code++ {
		mistake := map[int]bool{400: true, 401: true, 403: true, 404: true, 409: true, 422: true}[code]
		if out := say(fmt.Sprintf("%d,500-599", code)); strings.Contains(out, "own mistakes") != mistake {
			t.Errorf("%d: %s", code, out)
		}
	}
	for code := 495; code < 510; code++ {
		counts := map[int]bool{500: true, 502: true, 503: true, 504: true}[code]
		if out := say(fmt.Sprint(code)); strings.Contains(out, "a server that fails does not") == counts {
			t.Errorf("%d: %s", code, out)
		}
	}
}

// The highest status there is is no more repeated than any other that is no failure of the system's.
func TestRepeatedStatuses(t *testing.T) {
	for list, ok := range map[string]bool{"500-599": true, "600": false, "999": false, "499": false} {
		if _, err := (Config{Retry: Retry{MaxAttempts: 2, Status: list}}).Complete(); (err == nil) != ok {
			t.Errorf("%s: %v", list, err)
		}
	}
}
