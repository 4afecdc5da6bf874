package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// envCases are variables without CLIENT_SBER__, and the Config that they set or a part
// of the one fault that they are.
var envCases = []struct {
	name  string
	env   []string
	want  Config
	fault string
}{
	{name: "nothing"},
	{name: "one", env: []string{"READ_TIMEOUT=4s"}, want: Config{ReadTimeout: 4 * s}},
	{name: "K-08 siblings stay unset", env: []string{"BREAKER_OPEN_FOR=1m30s"}, want: Config{Breaker: Breaker{OpenFor: 90 * s}}},
	{
		name: "all",
		env: []string{
			"MAX_CONNECTIONS=40", "MAX_KEEPALIVE_CONNECTIONS=30", "IDLE_CONN_TIMEOUT=20s", "MAX_RESPONSE_HEADER_BYTES=65536", "MAX_RESPONSE_BYTES=1048576", "PROTOCOL=http2",
			"CONNECT_TIMEOUT=500ms", "READ_TIMEOUT=3s", "TOTAL_TIMEOUT=6s",
			"BULKHEAD_MAX_CONCURRENT=20", "BULKHEAD_ACQUIRE_TIMEOUT=50ms", "BULKHEAD_MAX_WAITING=7",
			"BREAKER_WINDOW=1m", "BREAKER_MIN_REQUESTS=5", "BREAKER_FAILURE_RATIO=0.25", "BREAKER_CONSECUTIVE_FAILURES=8",
			"BREAKER_OPEN_FOR=10s", "BREAKER_HALF_OPEN_PROBES=2", "BREAKER_SLOW_CALL=1500ms", "BREAKER_FAILURE_STATUS=429, 500-599",
			"RETRY_MAX_ATTEMPTS=3", "RETRY_PUT_DELETE=true", "RETRY_STATUS=429,502-504", "RETRY_BASE_DELAY=50ms", "RETRY_MAX_DELAY=2s",
			"RETRY_MAX_ELAPSED=4s", "RETRY_MAX_RETRY_AFTER=1m", "RETRY_BUDGET_RATIO=0.2", "RETRY_BUDGET_FLOOR=5", "RETRY_GATE=true",
			"RETRY_DEADLINE_HEADER=X-Deadline-Ms", "RETRY_DEADLINE_FLOOR=10ms",
		},
		want: Config{
			MaxConnsPerHost: 40, MaxIdleConnsPerHost: 30, IdleConnTimeout: 20 * s, MaxResponseHeaderBytes: 65536, MaxResponseBytes: 1 << 20, Protocol: HTTP2,
			ConnectTimeout: 500 * ms, ReadTimeout: 3 * s, TotalTimeout: 6 * s,
			Bulkhead: Bulkhead{MaxConcurrent: 20, AcquireTimeout: 50 * ms, MaxWaiting: 7},
			Breaker: Breaker{
				Window: time.Minute, MinRequests: 5, FailureRatio: 0.25, ConsecutiveFailures: 8,
				OpenFor: 10 * s, HalfOpenProbes: 2, SlowCall: 1500 * ms, FailureStatus: "429, 500-599",
			},
			Retry: Retry{
				MaxAttempts: 3, PutDelete: true, Status: "429,502-504", BaseDelay: 50 * ms, MaxDelay: 2 * s, MaxElapsed: 4 * s,
				MaxRetryAfter: time.Minute, BudgetRatio: 0.2, BudgetFloor: 5, Gate: true, DeadlineHeader: "X-Deadline-Ms", DeadlineFloor: 10 * ms,
			},
		},
	},

	// K-01
	{name: "no unit", env: []string{"READ_TIMEOUT=30"}, fault: `CLIENT_SBER__READ_TIMEOUT = "30": must be a duration with a unit (500ms, 1m30s), above 0s and at most 1m0s; choose`},
	{name: "no duration", env: []string{"READ_TIMEOUT=abc"}, fault: `CLIENT_SBER__READ_TIMEOUT = "abc": must be a duration with a unit`},
	{name: "space within", env: []string{"READ_TIMEOUT=5 s"}, fault: `CLIENT_SBER__READ_TIMEOUT = "5 s"`},
	{name: "space around", env: []string{"READ_TIMEOUT= 5s"}, fault: `CLIENT_SBER__READ_TIMEOUT = " 5s"`},
	{name: "space alone", env: []string{"MAX_CONNECTIONS= "}, fault: `CLIENT_SBER__MAX_CONNECTIONS = " "`},
	{name: "newline", env: []string{"MAX_CONNECTIONS=5\n"}, fault: `CLIENT_SBER__MAX_CONNECTIONS = "5\n"`},
	{name: "empty is unset", env: []string{"READ_TIMEOUT=", "MAX_CONNECTIONS=", "PROTOCOL=", "BREAKER_FAILURE_RATIO=", "BREAKER_FAILURE_STATUS="}},
	{name: "no equals sign", env: []string{"READ_TIMEOUT"}},
	{name: "equals sign in value", env: []string{"PROTOCOL=http1=x"}, fault: `PROTOCOL = "http1=x"`},
	{name: "long value", env: []string{"PROTOCOL=" + strings.Repeat("1", 25)}, fault: `PROTOCOL = (not shown): must be http1 or http2`},
	{name: "not so long", env: []string{"PROTOCOL=" + strings.Repeat("1", 24)}, fault: `PROTOCOL = "` + strings.Repeat("1", 24) + `":`},
	{name: "letters", env: []string{"PROTOCOL=яяя"}, fault: `PROTOCOL = "яяя":`},
	{name: "more letters", env: []string{"PROTOCOL=яяяя"}, fault: `PROTOCOL = (not shown):`},
	{name: "duration too large for int64", env: []string{"READ_TIMEOUT=9999999h"}, fault: "at most 1m0s"},

	{name: "fraction", env: []string{"MAX_CONNECTIONS=1.5"}, fault: "whole number"},
	{name: "hexadecimal", env: []string{"MAX_CONNECTIONS=0x14"}, fault: "whole number"},
	{name: "leading zero is decimal", env: []string{"MAX_CONNECTIONS=020"}, want: Config{MaxConnsPerHost: 20}},
	{name: "too large for int64", env: []string{"MAX_CONNECTIONS=99999999999999999999"}, fault: "from 1 to 1000000"},
	{name: "ratio in percent", env: []string{"BREAKER_FAILURE_RATIO=50%"}, fault: "above 0 and at most 1"},
	{name: "ratio NaN", env: []string{"BREAKER_FAILURE_RATIO=NaN"}, fault: "BREAKER_FAILURE_RATIO = NaN"},
	{name: "ratio Inf", env: []string{"BREAKER_FAILURE_RATIO=inf"}, fault: "BREAKER_FAILURE_RATIO = +Inf"},
	{name: "ratio too large for a float", env: []string{"BREAKER_FAILURE_RATIO=1e999"}, fault: `BREAKER_FAILURE_RATIO = "1e999"`},
	{name: "ratio that rounds to 0", env: []string{"BREAKER_FAILURE_RATIO=1e-999"}, fault: "BREAKER_FAILURE_RATIO"},
	{name: "status", env: []string{"BREAKER_FAILURE_STATUS=5xx"}, fault: `BREAKER_FAILURE_STATUS = "5xx": must be statuses`},

	{name: "a rule between fields", env: []string{"READ_TIMEOUT=8s"}, fault: "CLIENT_SBER__READ_TIMEOUT (8s) < CLIENT_SBER__TOTAL_TIMEOUT (7s by default); raise CLIENT_SBER__TOTAL_TIMEOUT to at least 10s"},
	{name: "a bad value hides its dependents", env: []string{"TOTAL_TIMEOUT=10", "READ_TIMEOUT=8s"}, fault: `TOTAL_TIMEOUT = "10"`},

	// K-04 continues in TestZero.
	{name: "off", env: []string{"BREAKER_CONSECUTIVE_FAILURES=off", "BREAKER_SLOW_CALL=off"}, want: Config{Breaker: Breaker{ConsecutiveFailures: Off}}},
	{name: "off elsewhere", env: []string{"BULKHEAD_MAX_WAITING=off"}, fault: `"off": must be a whole number from 1 to 2147483647, or NoQueue in Go and 0 in text`},
	{name: "OFF", env: []string{"BREAKER_SLOW_CALL=OFF"}, fault: `or 0 in Go and off in text`},

	// K-03
	{name: "typo", env: []string{"TOTL_TIMEOUT=5s"}, fault: `config: CLIENT_SBER__TOTL_TIMEOUT = "5s": is no setting; rename it to CLIENT_SBER__TOTAL_TIMEOUT`},
	{name: "typo, empty", env: []string{"TOTL_TIMEOUT="}, fault: "CLIENT_SBER__TOTAL_TIMEOUT"},
	{name: "two edits", env: []string{"RAED_TIMEOUT=5s"}, fault: "rename it to CLIENT_SBER__READ_TIMEOUT"},
	{name: "three edits", env: []string{"RAED_TIMEOUTS=5s"}},
	{name: "unknown in bulkhead", env: []string{"BULKHEAD_SIZE=5"}, fault: "rename it to CLIENT_SBER__BULKHEAD_MAX_"},
	{name: "unknown in breaker", env: []string{"BREAKER_ENABLED=false"}, fault: "rename it to CLIENT_SBER__BREAKER_"},
	{name: "retry switched on", env: []string{"RETRY_GATE=1"}, fault: `CLIENT_SBER__RETRY_GATE = "1": must be true or false`},
	{name: "retry switched on, loudly", env: []string{"RETRY_GATE=TRUE"}, fault: "must be true or false"},
	{name: "retry switched off", env: []string{"RETRY_GATE=false", "RETRY_PUT_DELETE=false", "RETRY_DEADLINE_FLOOR=off", "RETRY_DEADLINE_HEADER="}},
	{name: "retries none", env: []string{"RETRY_MAX_ATTEMPTS=off"}, fault: "must be a whole number from 1 to 5"},
	{name: "unknown in retry", env: []string{"RETRY_COUNT=3"}, fault: "rename it to CLIENT_SBER__RETRY_"},
	{name: "group alone", env: []string{"BREAKER=off"}, fault: "rename it to CLIENT_SBER__BREAKER_"},
	{name: "group with two underscores", env: []string{"BULKHEAD__MAX_WAITING=5"}, fault: "CLIENT_SBER__BULKHEAD_MAX_WAITING"},
	{name: "the Go name", env: []string{"MAX_CONNS_PER_HOST=5"}, fault: "rename it to CLIENT_SBER__MAX_CONNECTIONS"},
	{name: "wrong level", env: []string{"MAX_CONCURRENT=5"}, fault: "rename it to CLIENT_SBER__BULKHEAD_MAX_CONCURRENT"},
	{name: "wrong level, top in group", env: []string{"BREAKER_READ_TIMEOUT=5s"}, fault: "rename it to CLIENT_SBER__READ_TIMEOUT"},
	{name: "wrong group", env: []string{"BREAKER_MAX_WAITING=5"}, fault: "rename it to CLIENT_SBER__BULKHEAD_MAX_WAITING"},
	{name: "lower case", env: []string{"read_timeout=5s"}, fault: "rename it to CLIENT_SBER__READ_TIMEOUT"},
	{name: "three underscores", env: []string{"_READ_TIMEOUT=5s"}, fault: "rename it to CLIENT_SBER__READ_TIMEOUT"},
	{name: "a typo hides its dependents", env: []string{"RED_TIMEOUT=15s", "CONNECT_TIMEOUT=6s"}, fault: "RED_TIMEOUT"},
	{name: "the application's", env: []string{"BASE_URL=http://x?a=b", "TOKEN=secret", "=x", "TIMEOUT=5", "MAX=1"}},
}

func withPrefix(env []string) []string {
	out := []string{"PATH=/bin", "=C:=C:\\", "CLIENT_SBER2__READ_TIMEOUT=1", "CLIENT_SBER_X__READ_TIMEOUT=1", "XCLIENT_SBER__READ_TIMEOUT=1", "CLIENT_SBER_TOKEN=x"}
	for _, kv := range env {
		out = append(out, "CLIENT_SBER__"+kv)
	}
	return out
}

// K-01, K-03, and K-04, which continues in TestZero: every case of the table, with what it is refused for.
func TestFromEnv(t *testing.T) {
	for _, c := range envCases {
		t.Run(c.name, func(t *testing.T) {
			got, err := fromEnv("sber", withPrefix(c.env))
			fieldsOf(t, err)
			if c.fault == "" && err != nil || got != c.want {
				t.Fatalf("%+v, %v\nwant %+v", got, err, c.want)
			}
			if fs := faults(t, err); c.fault != "" && (len(fs) != 1 || !strings.Contains(err.Error(), c.fault)) {
				t.Errorf("%d faults: %v\nwant one with %s", len(fs), err, c.fault)
			}
		})
	}
}

// Names that miss the prefix itself.
func TestFromEnvPrefix(t *testing.T) {
	for variable, refused := range map[string]bool{
		"CLIENT_SBER_READ_TIMEOUT":    true, // one underscore
		"client_sber__read_timeout":   true,
		"Client_Sber__READ_TIMEOUT":   true,
		"CLIENT_SBER_REED_TIMEOUT":    false,
		"CLIENT_SBER_A__READ_TIMEOUT": false, // another system
		"client_sber__token":          false,
		"CLIENT_SBER":                 false,
		"CLIENT_SBER__":               false,
	} {
		_, err := fromEnv("sber", []string{variable + "=5s"})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "config: "+variable+` = "5s": is no setting; rename it to CLIENT_SBER__READ_TIMEOUT`) {
			t.Errorf("%s: %v", variable, err)
		}
	}
}

// K-04, B-20, T-09, R-07: unset, "0", "0s" and negative values, for every field.
func TestZero(t *testing.T) {
	for _, f := range fields {
		for _, text := range []string{"0", "0s", "0ms", "-1", "-1s", "-1ns", "-2", "0.0", "-0"} {
			got, err := fromEnv("sber", withPrefix([]string{f.env + "=" + text}))
			isTime := f.of(&got).Type() == reflect.TypeFor[time.Duration]()
			zero := text == "0" || text == "-0" || isTime && strings.HasPrefix(text, "0") && text != "0.0"
			if want := f.zero && zero; (err == nil) != want {
				t.Errorf("%s=%s: %v", f.env, text, err)
			} else if want && f.of(&got).Int() != -1 {
				t.Errorf("%s=%s: %v", f.env, text, f.of(&got))
			}
		}
	}
}

// K-09: all faults at once, in the order of the names and then of the rules.
func TestFromEnvSeveral(t *testing.T) {
	_, err := fromEnv("sber", withPrefix([]string{
		"READ_TIMEOUT=9s", "TOTAL_TIMEOUT=8s", "BREAKER_FAILURE_RATIO=1.5", "IDLE_CONN_TIMEOUT=-1s", "BREAKER_HALF_OPEN=3", "MAX_CONNECTIONS=many",
	}))
	want := "Breaker.HalfOpenProbes IdleConnTimeout MaxConnsPerHost Breaker.FailureRatio ReadTimeout"
	if got := fieldsOf(t, err); got != want {
		t.Errorf("%s\n%v", got, err)
	}
}

func TestFromEnvReadsTheEnvironment(t *testing.T) {
	t.Setenv("CLIENT_SBER_REPORTS__READ_TIMEOUT", "4s")
	got, err := FromEnv("sber-reports")
	if err != nil || got != (Config{ReadTimeout: 4 * s}) {
		t.Error(got, err)
	}
}

func TestFromEnvRefusesName(t *testing.T) {
	if _, err := FromEnv("default"); err == nil || !strings.Contains(err.Error(), "name") {
		t.Error(err)
	}
}

// asEnv writes the fields set in c as variables.
func asEnv(c Config, prefix string) []string {
	var env []string
	for _, f := range fields {
		v := f.of(&c)
		text := fmt.Sprint(v.Interface())
		switch {
		case v.IsZero():
			continue
		case v.CanInt() && v.Int() == -1 && f.zero:
			text = "0"
		case v.CanInt() && v.Int() == -1 && f.off && f.none != "":
			text = "off"
		}
		env = append(env, prefix+f.env+"="+text)
	}
	return env
}

// What Complete accepts can be written as variables and read back, and what it
// refuses is refused there as well, in the same fields.
func TestEnvRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyConfig(t)
		_, want := c.Complete()
		got, err := fromEnv("a", asEnv(c, "CLIENT_A__"))
		if want == nil && (err != nil || got != c) || (want == nil) != (err == nil) {
			t.Fatalf("%v\n%v\n%+v\n%+v", want, err, c, got)
		}
	})
}

func FuzzFromEnv(f *testing.F) {
	for _, c := range envCases {
		f.Add("sber", strings.Join(c.env, "\x00"))
	}
	f.Fuzz(func(t *testing.T, system, env string) {
		var environ []string
		for kv := range strings.SplitSeq(env, "\x00") {
			environ = append(environ, EnvPrefix(system)+kv)
		}
		got, err := fromEnv(system, environ)
		if err != nil {
			fieldsOf(t, err)
			return
		}
		if CheckName(system) != nil {
			t.Fatal("bad name accepted")
		}
		full, err := got.Complete()
		if err != nil {
			t.Fatal("accepted, but does not complete:", err)
		}
		if again, err := full.Complete(); err != nil || again != full {
			t.Fatal(err)
		}
		if back, err := fromEnv(system, asEnv(got, EnvPrefix(system))); err != nil || back != got {
			t.Fatalf("%v\n%+v\n%+v", err, got, back)
		}
	})
}

func TestNearest(t *testing.T) {
	for a, want := range map[string]int{"": 3, "abc": 0, "ab": 1, "abcd": 1, "axc": 1, "bac": 2, "xyz": 3, "xabcx": 2} {
		if got := distance("abc", a); got != want || distance(a, "abc") != want {
			t.Errorf("%q: %d, want %d", a, got, want)
		}
	}
	// No right name is a misspelling of another: a typo has one meaning.
	names := map[string]bool{}
	for _, f := range fields {
		names[f.env] = true
		if got, near := nearest(f.env); got != f || !near {
			t.Errorf("%s: %s, %t", f.env, got.env, near)
		}
	}
	if len(names) != len(fields) {
		t.Error(slices.Sorted(maps.Keys(names)))
	}
}
