package config

import (
	"strings"
	"testing"
)

var nameCases = map[string]bool{
	"sber": true, "a": true, "a1": true, "sber-reports": true, "sber_reports": true, "a-b_c-1": true, "default-x": true, "a-1": true,
	strings.Repeat("a", 63): true, strings.Repeat("a", 64): false,
	"": false, "default": false, "defaults": false, "Default": false, "SBER": false, "1a": false, "-a": false, "a-": false, "_a": false, "a_": false,
	"a--b": false, "a__b": false, "a-_b": false, "a b": false, "a.b": false, "a\n": false, "\na": false, "сбер": false, "a/b": false, "a\x00": false,
}

func TestCheckName(t *testing.T) {
	for name, ok := range nameCases {
		err := CheckName(name)
		if (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		if !ok && fieldsOf(t, err) != "" {
			t.Errorf("%q: %v", name, err)
		}
	}
	want := `config: name of a system = "default": names no system; name the external system, like "sber" or "sber-reports"`
	if got := CheckName("default").Error(); got != want {
		t.Error(got)
	}
}

// K-07: two names are one where their variables are.
func TestEnvPrefix(t *testing.T) {
	for name, want := range map[string]string{"sber": "CLIENT_SBER__", "pay-gw": "CLIENT_PAY_GW__", "pay_gw": "CLIENT_PAY_GW__"} {
		if got := EnvPrefix(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if Key("pay-gw") != Key("pay_gw") || Key("a-b") == Key("ab") {
		t.Error("keys")
	}
}

func FuzzName(f *testing.F) {
	for name := range nameCases {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if err := CheckName(name); err != nil {
			fieldsOf(t, err)
			return
		}
		prefix := EnvPrefix(name)
		system, rest, ok := strings.Cut(strings.TrimPrefix(prefix, "CLIENT_"), "__")
		if !ok || rest != "" || strings.ToLower(system) != Key(name) {
			t.Errorf("%q: %q does not lead back", name, prefix)
		}
		if name == "default" || name == "defaults" || len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("%q accepted", name)
		}
	})
}
