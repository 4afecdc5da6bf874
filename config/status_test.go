package config

import (
	"fmt"
	"strconv"
	"strings"
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
		if (err == nil) != (want != "") || canonical(got) != want {
			t.Errorf("%q: %q, %v; want %q", list, canonical(got), err, want)
		}
		fieldsOf(t, err)
	}
	want := `config: list of statuses = "5xx": must be statuses and ranges from 100 to 999 with commas between (429,500-599); ` +
		`choose such a value, or leave it unset for the default`
	if _, err := ParseStatuses("5xx"); err.Error() != want {
		t.Error(err)
	}
}

// canonical lists s sorted, in as few items as possible.
func canonical(s Statuses) string {
	var items []string
	for low := 0; low <= 1000; low++ {
		high := low
		for s.Contains(high) {
			high++
		}
		switch high - low {
		case 0:
		case 1:
			items = append(items, strconv.Itoa(low))
		default:
			items = append(items, fmt.Sprintf("%d-%d", low, high-1))
		}
		low = high
	}
	return strings.Join(items, ",")
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
	if (Statuses{}).Contains(0) || (Statuses{}).Contains(500) || canonical(Statuses{}) != "" {
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
		if back, err := ParseStatuses(canonical(s)); err != nil || back != s {
			t.Errorf("%q: %q, %v", list, canonical(s), err)
		}
		if _, err := (Config{Breaker: Breaker{FailureStatus: list}}).Complete(); err != nil {
			t.Error(err)
		}
	})
}
