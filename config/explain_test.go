package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func explainText(t testing.TB, text string, environ ...string) *Explanation {
	t.Helper()
	root, err := document("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	systems, err := assemble(root, environ)
	if err != nil {
		t.Fatal(err)
	}
	return explain(systems, environ)
}

func TestExplain(t *testing.T) {
	environ := []string{
		"CLIENT_SBER__TOTAL_TIMEOUT=9s", "CLIENT_SBER__TOKEN=secret", "CLIENT_SBER__BASE_URL=https://secret", "CLIENT_SBER__PROTOCOL=",
		"CLIENT_SBER2__TOKEN=secret", "CLIENT_SBER_TOKEN=secret", "client_sber__token=secret",
	}
	text := "defaults:\n  read_timeout: 4s\n  protocol: http2\nsystems:\n  sber:\n    protocol: http1\n    breaker:\n      slow_call:\n        off\n"
	e := explainText(t, text, environ...)
	if len(e.Systems) != 1 {
		t.Fatal(e)
	}
	sber := e.Systems[0]
	want := map[string]Setting{
		"read_timeout":            {Field: "ReadTimeout", Value: "4s", Source: "f.yaml:2 defaults.read_timeout"},
		"protocol":                {Field: "Protocol", Value: "http1", Source: "f.yaml:6 systems.sber.protocol"},
		"total_timeout":           {Field: "TotalTimeout", Value: "9s", Source: "CLIENT_SBER__TOTAL_TIMEOUT"},
		"connect_timeout":         {Field: "ConnectTimeout", Value: "1s", Source: "default", Default: true},
		"breaker.slow_call":       {Field: "Breaker.SlowCall", Value: "off", Source: "f.yaml:8 systems.sber.breaker.slow_call"},
		"bulkhead.max_waiting":    {Field: "Bulkhead.MaxWaiting", Value: "160", Source: "default: 10 × max_concurrent", Default: true},
		"bulkhead.max_concurrent": {Field: "Bulkhead.MaxConcurrent", Value: "16", Source: "default: 0.8 × max_connections, rounded down, at least 1", Default: true},
	}
	for i, got := range sber.Settings {
		if got.Key != fields[i].key {
			t.Errorf("%d: %s, want %s", i, got.Key, fields[i].key)
		}
		w, ok := want[got.Key]
		if w.Key = got.Key; ok && got != w {
			t.Errorf("%+v, want %+v", got, w)
		}
	}
	if len(sber.Settings) != len(fields) || sber.Warnings != nil || sber.Name != "sber" {
		t.Errorf("%+v", sber)
	}
	if diff := cmp.Diff([]string{"CLIENT_SBER__BASE_URL", "CLIENT_SBER__TOKEN"}, sber.Others); diff != "" {
		t.Error(diff)
	}
	if c, err := loadText("f.yaml", text, environ...); err != nil || c["sber"] != sber.Config {
		t.Error(c, err)
	}
	out := e.String()
	if strings.Contains(out, "secret") || !strings.Contains(out, "\n  the application's: CLIENT_SBER__BASE_URL, CLIENT_SBER__TOKEN\n") {
		t.Error(out)
	}
	if got := explainText(t, "{}").String(); got != "no systems\n" {
		t.Error(got)
	}
}

// Explain refuses what Load does, in the same words.
func TestExplainFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(path, []byte("systems: {a: {protocol: h2}, b: {read_timeout: 9s}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, want := Load(path)
	if e, err := Explain(path); e != nil || err == nil || err.Error() != want.Error() {
		t.Errorf("%v\n%v", err, want)
	}
	if e, err := Explain(path + "x"); e != nil || err == nil {
		t.Error(e, err)
	}
	t.Setenv("CLIENT_A__READ_TIMEOUT", "4s")
	if e, err := Explain(""); err != nil || len(e.Systems) != 1 || e.Systems[0].Name != "a" {
		t.Error(e, err)
	}
}

// TestAdvice has each warning on both sides of its boundary.
func TestAdvice(t *testing.T) {
	off := "breaker: {slow_call: off}"
	for _, c := range []struct {
		name, settings, env string
		want                []string // what the warnings say
	}{
		{"the defaults", "", "", []string{
			`systems.a.breaker.slow_call = off: calls that all take nearly the read timeout do not open the breaker; set it to 2.5s (half of it), or write off where a slow success is worth having`,
		}},
		{"slow calls off", off, "", nil},
		{"slow calls off by a variable", "", "BREAKER_SLOW_CALL=off", nil},
		{"slow calls", "breaker: {slow_call: 4s}", "", nil},

		{"open for the total", "breaker: {slow_call: off, open_for: 7s}", "", nil},
		{"open for less", "breaker: {slow_call: off, open_for: 6999ms}", "", []string{
			`f.yaml:1 systems.a.breaker.open_for = 6.999s: f.yaml:1 systems.a.breaker.open_for (6.999s) should be at least systems.a.total_timeout (7s by default)`,
		}},
		{"a total of more", off, "TOTAL_TIMEOUT=31s", []string{"CLIENT_A__TOTAL_TIMEOUT = 31s: systems.a.breaker.open_for (30s by default) should be at least CLIENT_A__TOTAL_TIMEOUT (31s)"}},

		{"one probe at one permit", "max_connections: 1, breaker: {slow_call: off, half_open_probes: 1}", "", []string{"f.yaml:1 systems.a.breaker.half_open_probes = 1: a single lucky call closes the breaker"}},
		{"two probes at one permit", "max_connections: 1, breaker: {slow_call: off, half_open_probes: 2}", "", nil},
		{"one probe at two permits", "max_connections: 3, breaker: {slow_call: off, half_open_probes: 1}", "", nil},

		{"one result", "breaker: {slow_call: off, min_requests: 1}", "", []string{"f.yaml:1 systems.a.breaker.min_requests = 1: the first failure after a quiet window opens the breaker; raise it"}},
		{"two results", "breaker: {slow_call: off, min_requests: 2}", "", nil},
		{"one in a row", "breaker: {slow_call: off, consecutive_failures: 1}", "", []string{"f.yaml:1 systems.a.breaker.consecutive_failures = 1: any single failure opens the breaker; raise it"}},
		{"two in a row", "breaker: {slow_call: off, consecutive_failures: 2}", "", nil},
		{"none in a row", "breaker: {slow_call: off, consecutive_failures: off}", "", []string{"f.yaml:1 systems.a.breaker.consecutive_failures = off: a system that hangs after many successes"}},

		{"too many", "breaker: {slow_call: off, failure_status: 429}", "", []string{`f.yaml:1 systems.a.breaker.failure_status = "429": a server that fails does not open the breaker`}},
		{"gateway errors", "breaker: {slow_call: off, failure_status: 502-504}", "", nil},
		{"all errors", "breaker: {slow_call: off, failure_status: 400-599}", "", []string{`f.yaml:1 systems.a.breaker.failure_status = "400-599": a caller's own mistakes open the breaker for all callers`}},
		{"not found", "breaker: {slow_call: off, failure_status: '404,500-599'}", "", []string{"a caller's own mistakes"}},
		{"the system's 4xx", "breaker: {slow_call: off, failure_status: '408,425,429,500-599'}", "", nil},

		{"a quarter of the total", "bulkhead: {acquire_timeout: 1s}, connect_timeout: 500ms, read_timeout: 2s, total_timeout: 4s, " + off, "", []string{
			"f.yaml:1 systems.a.bulkhead.acquire_timeout = 1s: f.yaml:1 systems.a.bulkhead.acquire_timeout (1s) should be below a quarter of f.yaml:1 systems.a.total_timeout (4s)",
		}},
		{"less than a quarter", "bulkhead: {acquire_timeout: 999ms}, connect_timeout: 500ms, read_timeout: 2s, total_timeout: 4s, " + off, "", nil},

		{"0.8 of the pool", "max_connections: 5, bulkhead: {max_concurrent: 4}, " + off, "", nil},
		{"more of the pool", "bulkhead: {max_concurrent: 17}, " + off, "", []string{"f.yaml:1 systems.a.bulkhead.max_concurrent = 17", "lower systems.a.bulkhead.max_concurrent to 16"}},
		{"1 of 1", "max_connections: 1, bulkhead: {max_concurrent: 1}, " + off, "", nil},
		{"as many idle", "max_keepalive_connections: 16, " + off, "", nil},
		{"fewer idle", "max_keepalive_connections: 15, " + off, "", []string{"f.yaml:1 systems.a.max_keepalive_connections = 15: f.yaml:1 systems.a.max_keepalive_connections (15) should be at least systems.a.bulkhead.max_concurrent (16 by default)"}},
		{"idle for long", "idle_conn_timeout: 60s, " + off, "", []string{"f.yaml:1 systems.a.idle_conn_timeout = 1m0s: many servers"}},
		{"idle for less", "idle_conn_timeout: 59999ms, " + off, "", nil},

		{"three attempts", "retry: {max_attempts: 3}, " + off, "", nil},
		{"four attempts", "retry: {max_attempts: 4}, " + off, "", []string{"f.yaml:1 systems.a.retry.max_attempts = 4: a fourth attempt hardly ever succeeds"}},
		{"a fifth of the calls", "retry: {budget_ratio: 0.2}, " + off, "", nil},
		{"more of the calls", "retry: {budget_ratio: 0.21}, " + off, "", []string{"f.yaml:1 systems.a.retry.budget_ratio = 0.21: when all calls fail"}},

		{"http2", "protocol: http2, " + off, "", nil},
		{"http2 and a number", "protocol: http2, max_connections: 20, " + off, "", []string{`f.yaml:1 systems.a.max_connections = 20: f.yaml:1 systems.a.max_connections (20) is not kept under f.yaml:1 systems.a.protocol ("http2"); leave systems.a.protocol unset`}},
		{"http1 and a number", "protocol: http1, max_connections: 20, " + off, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := explainText(t, "systems: {a: {"+c.settings+"}}", "CLIENT_A__"+c.env)
			var all []string
			for _, w := range e.Systems[0].Warnings {
				all = append(all, w.Error())
			}
			if got := strings.Join(all, "\n"); len(all) > 1 || (len(all) == 0) != (c.want == nil) || slices.ContainsFunc(c.want, func(w string) bool { return !strings.Contains(got, w) }) {
				t.Errorf("%s\nwant %q", got, c.want)
			}
			if out := e.String(); strings.Count(out, "\n  warning: ") != len(all) {
				t.Error(out)
			}
		})
	}
}

// A system that a typo makes.
func TestAdviceOfNames(t *testing.T) {
	for env, want := range map[string]string{
		"CLIENT_SBR":     `CLIENT_SBR__… = "sbr": is not in the file, and looks like sber, which is; rename the variables to CLIENT_SBER__…, or list sbr under systems if it is meant`,
		"CLIENT_SBER":    "",
		"CLIENT_OTHER":   "",
		"CLIENT_REPORTS": "",
	} {
		e := explainText(t, "defaults: {breaker: {slow_call: off}}\nsystems: {sber: {}, reports: {}}", env+"__READ_TIMEOUT=4s")
		var got string
		for _, s := range e.Systems {
			for _, w := range s.Warnings {
				got += strings.TrimPrefix(w.Error(), "config: ")
			}
		}
		if got != want {
			t.Errorf("%s: %s", env, got)
		}
	}
}

// A switch has no field yet that would show these.
func TestBool(t *testing.T) {
	var c struct{ On bool }
	v := reflect.ValueOf(&c).Elem().Field(0)
	f := &field{name: "On"}
	for text, want := range map[string]bool{"true": true, "false": true, "": false, "yes": false, "True": false, "1": false, "off": false} {
		if got := f.parse(v, text); got != want || c.On != (text == "true") || want && f.format(v) != text || !f.allows(v) {
			t.Errorf("%q: %t %t", text, got, c.On)
		}
	}
	if f.rule(v) != "must be true or false" {
		t.Error(f.rule(v))
	}
}

// All the defaults are written as they are read.
func TestFormat(t *testing.T) {
	for _, f := range fields {
		var back Config
		v := f.of(&stdConfig)
		if !f.parse(f.of(&back), f.format(v)) || !f.of(&back).Equal(v) {
			t.Errorf("%s: %q", f.name, f.format(v))
		}
	}
	for name, c := range map[string]Config{
		"0": {Bulkhead: Bulkhead{AcquireTimeout: NoWait}}, "0 ": {Bulkhead: Bulkhead{MaxWaiting: NoQueue}},
		"off": {Breaker: Breaker{ConsecutiveFailures: Off}}, "1m0s": {Breaker: Breaker{OpenFor: time.Minute}},
	} {
		for _, f := range fields {
			if v := f.of(&c); !v.IsZero() && f.format(v) != strings.TrimSpace(name) {
				t.Errorf("%s: %s, want %s", f.name, f.format(v), name)
			}
		}
	}
}
