package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	bsd := "Redistribution and use in source and binary\nforms, with or without modification, are permitted provided that"
	for text, want := range map[string]string{
		"MIT License\n\nPermission is hereby granted, free of charge, to any person obtaining a copy\nof this software": "MIT",
		"  Apache License\n   Version 2.0, January 2004":                                                                "Apache-2.0",
		bsd:                                     "BSD-2-Clause",
		bsd + "\n * Neither the name of Google": "BSD-3-Clause",
		"Mozilla Public License Version 2.0\n \"Secondary License\" means either the GNU General Public License, Version 2.0": "MPL-2.0",
		"GNU GENERAL PUBLIC LICENSE\n  Version 3, 29 June 2007":                                                               "GPL",
		"GNU AFFERO GENERAL PUBLIC LICENSE\nVersion 3":                                                                        "GPL",
		"Business Source License 1.1":                                                                                         "unknown",
		"":                                                                                                                    "unknown",
	} {
		if got := strings.Join(classify(text), " "); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"LICENSE": "permission is hereby granted, free of charge, to any person obtaining a copy of this software", "COPYING.md": "no words", "license.go": "x", "README": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := licencesIn(dir)
	if err != nil || strings.Join(got, " ") != "MIT unknown" {
		t.Errorf("%q, %v", got, err)
	}
	for want, m := range map[string]module{"": {licences: []string{"MIT"}}, "no licence file": {}, "licence GPL": {licences: []string{"MIT", "GPL"}}, "licence unknown": {licences: got}} {
		err := judge([]module{m})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A module that is new, gone or of another version is told, and no other.
func TestCompare(t *testing.T) {
	a, b := module{Path: "a", Version: "v1"}, module{Path: "b", Version: "v1"}
	if diff := compare(table([]module{a, b}), table([]module{a, b})); diff != "" {
		t.Error(diff)
	}
	newer := b
	newer.Version = "v2"
	for _, row := range []struct {
		now  []module
		want string
	}{{[]module{a}, "- | b | v1"}, {[]module{a, newer}, "+ | b | v2"}, {[]module{a, b, {Path: "c"}}, "+ | c |"}} {
		if diff := compare(table([]module{a, b}), table(row.now)); !strings.Contains(diff, row.want) || strings.Contains(diff, "| a |") {
			t.Error(diff)
		}
	}
}
