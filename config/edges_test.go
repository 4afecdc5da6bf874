package config

import (
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
	for name, shown := range map[string]string{"defaults": "*defaults", "hunter2": "an alias"} {
		_, err := loadText("f.yaml", "defaults: &"+name+" {}\nsystems: *"+name+"\n")
		if err == nil || !strings.Contains(err.Error(), shown) || shown == "an alias" && strings.Contains(err.Error(), name) {
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
