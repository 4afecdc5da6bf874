package config

import (
	"testing"
)

// statusCases maps a list to its canonical form, "" if it is refused.
var statusCases = map[string]string{
	"500-599": "500-599", "429,500-599": "429,500-599", "500-599,429": "429,500-599", " 500-599 , 429 ": "429,500-599",
	"500,501,502": "500-502", "500-510,505-520": "500-520", "503,503": "503", "500-500": "500", "100-999": "100-999", "100": "100", "999": "999",
	"163,164": "163-164", "163,165": "163,165", // the edges of a word
	"": "", ",": "", "500,": "", ",500": "", "500,,503": "", "5xx": "", "599-500": "", "099": "", "99": "", "1000": "", "500-1000": "", "99-500": "",
	"500-": "", "-500": "", "500-599-600": "", "500 - 599": "", "+50": "", "+500": "", "5e2": "", "٥٠٠": "", "500;503": "", "off": "",
}

func TestParseStatuses(t *testing.T) {
	for list, want := range statusCases {
		got, err := ParseStatuses(list)
		if (err == nil) != (want != "") || got.String() != want {
			t.Errorf("%q: %q, %v; want %q", list, got, err, want)
		}
		fieldsOf(t, err)
	}
	if _, err := ParseStatuses("5xx"); err.Error() != `config: list of statuses = "5xx": must be statuses and ranges from 100 to 999, `+
		`the lower end first, with commas between; write it like "500-599" or "429,500-599"` {
		t.Error(err)
	}
}

func TestContains(t *testing.T) {
	s, err := ParseStatuses("429,500-599,999,100")
	if err != nil {
		t.Fatal(err)
	}
	for code := -1000; code < 3000; code++ {
		want := code == 429 || code >= 500 && code <= 599 || code == 999 || code == 100
		if s.Contains(code) != want {
			t.Error(code)
		}
	}
	if (Statuses{}).Contains(0) || (Statuses{}).Contains(500) || (Statuses{}).String() != "" {
		t.Error("the zero Statuses is not empty")
	}
}

func FuzzParseStatuses(f *testing.F) {
	for list := range statusCases {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		s, err := ParseStatuses(list)
		if err != nil {
			fieldsOf(t, err)
			return
		}
		if back, err := ParseStatuses(s.String()); err != nil || back != s {
			t.Errorf("%q: %q, %v", list, s, err)
		}
		if _, err := (Config{Breaker: Breaker{FailureStatus: list}}).Complete(); err != nil {
			t.Error(err)
		}
	})
}
