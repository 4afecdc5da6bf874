package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzLoad takes any bytes for a file, and any variables.
func FuzzLoad(f *testing.F) {
	for _, kind := range []string{"taken", "refused"} {
		for _, text := range files(f, kind) {
			f.Add([]byte(text), "")
		}
	}
	for _, c := range systemCases {
		f.Add([]byte(c.text), strings.Join(c.env, "\x00"))
	}
	f.Fuzz(func(t *testing.T, text []byte, env string) {
		root, err := document("f.yaml", text)
		if err != nil {
			checkFaults(t, err)
			return
		}
		checkSystems(t, root, strings.Split(env, "\x00"))
	})
}

// FuzzEnv takes any variables for the environment, without a file.
func FuzzEnv(f *testing.F) {
	for _, c := range envCases {
		f.Add(strings.Join(withPrefix(c.env), "\x00"))
	}
	for _, c := range systemCases {
		f.Add(strings.Join(c.env, "\x00"))
	}
	f.Fuzz(func(t *testing.T, env string) {
		checkSystems(t, noFile, strings.Split(env, "\x00"))
	})
}

// checkSystems checks what must hold of what any file and environment make.
func checkSystems(t *testing.T, root node, environ []string) {
	t.Helper()
	systems, err := assemble(root, environ)
	if err != nil {
		checkFaults(t, err)
		return
	}
	got := configs(systems)
	if len(got) != len(systems) {
		t.Fatal("a system is there twice")
	}
	text, env, byKey := "systems:\n  {}\n", []string{}, map[string]Config{}
	for i, name := range slices.Sorted(maps.Keys(got)) {
		c := got[name]
		if again, err := c.Complete(); err != nil || again != c || CheckName(name) != nil {
			t.Fatalf("%s: %v\n%+v\n%+v", name, err, c, again)
		}
		if i == 0 {
			text = "systems:\n"
		}
		text += fmt.Sprintf("  %q:\n%s", name, asYAML(c, "    "))
		env = append(env, asEnv(c, EnvPrefix(name))...)
		byKey[Key(name)] = c
	}

	// They survive being written as a file, and as variables.
	if back, err := loadText("f.yaml", text); err != nil || !maps.Equal(back, got) {
		t.Fatalf("%v\n%s\n%s", err, cmp.Diff(got, back), text)
	}
	back, err := assemble(noFile, env)
	if err != nil || len(back) != len(got) {
		t.Fatal(err)
	}
	for _, s := range back {
		if byKey[Key(s.name)] != s.full {
			t.Fatalf("%s: %+v", s.name, s.full)
		}
	}

	// They can be explained, and twice in the same words.
	first := explain(systems, environ)
	slices.Reverse(environ)
	if systems, err = assemble(root, environ); err != nil || explain(systems, environ).String() != first.String() {
		t.Fatal(err, first)
	}
}

var filePlace = regexp.MustCompile(`^f\.yaml:[1-9]\d*( |$)`)

// checkFaults checks that err is faults that say all, each in one line.
func checkFaults(t *testing.T, err error) {
	t.Helper()
	fieldsOf(t, err)
	for _, f := range faults(t, err) {
		inFile := filePlace.MatchString(f.Place)
		if !inFile && !strings.HasPrefix(strings.ToUpper(f.Place), "CLIENT_") || inFile && strings.ContainsAny(f.Error(), "\n\r") {
			t.Errorf("%q", f.Error())
		}
	}
}
