package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// systemCases are files, environments, and the systems that these make or the faults
// that they are.
var systemCases = []struct {
	name   string
	text   string
	env    []string
	want   map[string]Config
	faults []string
}{
	{name: "nothing", text: "systems: {}", env: []string{"PATH=/bin", "CLIENT_X=1", "CLIENT_=", "CLIENT__READ_TIMEOUT=4s", "=C:=C:\\"}, want: map[string]Config{}},
	{
		name: "the environment before the system's section before the defaults",
		text: "defaults: {read_timeout: 2s, connect_timeout: 500ms, total_timeout: 8s}\nsystems: {a: {read_timeout: 3s, connect_timeout: 600ms}, b: {}}",
		env:  []string{"CLIENT_A__READ_TIMEOUT=4s", "CLIENT_B__BULKHEAD_MAX_WAITING=0"},
		want: map[string]Config{
			"a": {ReadTimeout: 4 * s, ConnectTimeout: 600 * ms, TotalTimeout: 8 * s},
			"b": {ReadTimeout: 2 * s, ConnectTimeout: 500 * ms, TotalTimeout: 8 * s, Bulkhead: Bulkhead{MaxWaiting: NoQueue}},
		},
	},
	{
		name: "off and 0 go before a value, nothing does not",
		text: "defaults: {bulkhead: {acquire_timeout: 50ms, max_waiting: 3}, breaker: {slow_call: 1s, consecutive_failures: 3, open_for: 9s}}\n" +
			"systems: {a: {bulkhead: {acquire_timeout: 0, max_waiting: }, breaker: {slow_call: off, consecutive_failures: off, open_for: ''}}}",
		env:  []string{"CLIENT_A__BREAKER_OPEN_FOR="},
		want: map[string]Config{"a": {Bulkhead: Bulkhead{AcquireTimeout: NoWait, MaxWaiting: 3}, Breaker: Breaker{ConsecutiveFailures: Off, OpenFor: 9 * s}}},
	},
	{
		name: "a bad value of the defaults is one fault, and no other hides",
		text: "defaults: {total_timeout: 10}\nsystems: {a: {read_timeout: 8s}, b: {}, c: {read_timeout: 8s, total_timeout: 9s}}",
		faults: []string{
			`f.yaml:1 defaults.total_timeout = "10": must be a duration with a unit`,
			`f.yaml:2 systems.c.total_timeout = 9s: must hold: f.yaml:2 systems.c.total_timeout (9s) ≥`,
		},
	},

	// From the environment alone.
	{
		name: "the environment alone", text: "defaults: {connect_timeout: 500ms}",
		env:  []string{"CLIENT_PAY_GW__READ_TIMEOUT=4s", "CLIENT_PAY_GW__TOKEN=secret", "CLIENT_A1__PROTOCOL=http2"},
		want: map[string]Config{"pay-gw": {ReadTimeout: 4 * s, ConnectTimeout: 500 * ms}, "a1": {Protocol: HTTP2, ConnectTimeout: 500 * ms}},
	},
	{
		name: "no system without a setting's exact name", text: "systems: {}",
		env: []string{
			"CLIENT_A__BASE_URL=x", "CLIENT_B__RED_TIMEOUT=4s", "client_c__read_timeout=4s", "CLIENT_D_READ_TIMEOUT=4s",
			"CLIENT_E__READ_TIMEOUT=", "CLIENT_F___READ_TIMEOUT=4s", "CLIENT_g__READ_TIMEOUT=4s", "CLIENT_H__X__READ_TIMEOUT=4s", "XCLIENT_I__READ_TIMEOUT=4s",
		},
		want: map[string]Config{},
	},
	{
		name: "underscores in the file", text: "systems: {pay_gw: {total_timeout: 8s}}", env: []string{"CLIENT_PAY_GW__READ_TIMEOUT=4s"},
		want: map[string]Config{"pay_gw": {ReadTimeout: 4 * s, TotalTimeout: 8 * s}},
	},
	{
		name: "a prefix of another name", text: "systems: {sber: {}, sber-reports: {}}",
		env:  []string{"CLIENT_SBER__READ_TIMEOUT=4s", "CLIENT_SBER_REPORTS__READ_TIMEOUT=3s"},
		want: map[string]Config{"sber": {ReadTimeout: 4 * s}, "sber-reports": {ReadTimeout: 3 * s}},
	},
	{
		name: "typos where a system is known", text: "systems: {a: {}, c: {}, f: {}}",
		env: []string{"CLIENT_A__RED_TIMEOUT=4s", "CLIENT_B__READ_TIMEOUT=4s", "CLIENT_B__TOTL_TIMEOUT=4s", "client_c__read_timeout=4s", "CLIENT_F___READ_TIMEOUT=4s"},
		faults: []string{
			"CLIENT_A__RED_TIMEOUT", "client_c__read_timeout", "CLIENT_F___READ_TIMEOUT",
			`CLIENT_B__TOTL_TIMEOUT = "4s": is no setting; rename it to CLIENT_B__TOTAL_TIMEOUT`,
		},
	},
	{
		name: "names that are none", text: "systems: {}", env: []string{"CLIENT_DEFAULT__READ_TIMEOUT=4s", "CLIENT_DEFAULT__PROTOCOL=http1", "CLIENT_DEFAULTS__READ_TIMEOUT=4", "CLIENT_1C__READ_TIMEOUT=4s"},
		faults: []string{
			`CLIENT_DEFAULT__PROTOCOL = "default": names no system; put settings for all systems under defaults in a file, and name those of one after it`,
			`CLIENT_DEFAULTS__READ_TIMEOUT = "defaults": names no system`, `CLIENT_1C__READ_TIMEOUT = "1c": must be lower-case letters`,
		},
	},
	{
		name: "every fault of every system", text: "systems: {a: {read_timeout: 8s}, b: {protocol: h2}}\n", env: []string{"CLIENT_A__MAX_CONNECTIONS=x", "CLIENT_C__TOTAL_TIMEOUT=3s", "CLIENT_D__READ_TIMEOUT=4"},
		faults: []string{
			`CLIENT_A__MAX_CONNECTIONS = "x"`, `f.yaml:1 systems.a.read_timeout = 8s`, `f.yaml:1 systems.b.protocol = "h2"`,
			`CLIENT_C__TOTAL_TIMEOUT = 3s: must hold: CLIENT_C__READ_TIMEOUT (5s by default) < CLIENT_C__TOTAL_TIMEOUT (3s); raise CLIENT_C__TOTAL_TIMEOUT to at least 7s, or lower CLIENT_C__READ_TIMEOUT`,
			`CLIENT_D__READ_TIMEOUT = "4"`,
		},
	},
	{
		name: "a rule between a file and a variable", text: "systems: {a: {read_timeout: 6s, total_timeout: 9s}}", env: []string{"CLIENT_A__TOTAL_TIMEOUT=7s"},
		faults: []string{`CLIENT_A__TOTAL_TIMEOUT = 7s: must hold: CLIENT_A__TOTAL_TIMEOUT (7s) ≥ 2 × systems.a.connect_timeout (1s by default) + f.yaml:1 systems.a.read_timeout (6s); ` +
			`raise CLIENT_A__TOTAL_TIMEOUT to at least 8s, or lower systems.a.read_timeout or systems.a.connect_timeout`},
	},
}

func TestSystems(t *testing.T) {
	for _, c := range systemCases {
		t.Run(c.name, func(t *testing.T) {
			got, err := loadText("f.yaml", c.text, c.env...)
			fieldsOf(t, err)
			if diff := cmp.Diff(complete(t, c.want), got); c.faults == nil && (err != nil || diff != "") {
				t.Fatalf("%v\n%s", err, diff)
			}
			var missing []string
			fs := faults(t, err)
			for _, want := range c.faults {
				if !slices.ContainsFunc(fs, func(f *FieldError) bool { return strings.HasPrefix(f.Error(), "config: "+want) }) {
					missing = append(missing, want)
				}
			}
			if len(fs) != len(c.faults) || missing != nil {
				t.Errorf("%v\nmissing: %q", err, missing)
			}
		})
	}
}

// What a file says is what the environment says, in all the same words.
func TestSameRules(t *testing.T) {
	for _, f := range fields {
		for _, text := range []string{"", "0", "0s", "-1", "-1s", "-0", "1", "1s", "1.5", "off", "OFF", "http2", "503", "1e1", "0x10", "+1", "010", "true", "a", " 1"} {
			fromFile, fileErr := loadText("f.yaml", "systems: {a: "+flow(f.key, fmt.Sprintf("%q", text))+"}")
			plain := fromFile
			var plainErr error
			if text == strings.TrimSpace(text) {
				plain, plainErr = loadText("f.yaml", "systems: {a: "+flow(f.key, text)+"}")
			} else {
				plainErr = fileErr
			}
			env, envErr := loadText("f.yaml", "systems: {a: {}}", "CLIENT_A__"+f.env+"="+text)
			if (fileErr == nil) != (envErr == nil) || (plainErr == nil) != (envErr == nil) || !maps.Equal(fromFile, env) || !maps.Equal(plain, env) {
				t.Errorf("%s: %q: %v\n%v\n%v", f.key, text, fileErr, plainErr, envErr)
			}
			if fileErr != nil {
				a, b := faults(t, fileErr)[0], faults(t, envErr)[0]
				if a.Field != b.Field || a.Value != b.Value || a.Rule != b.Rule && !strings.Contains(a.Rule, "must hold") {
					t.Errorf("%v\n%v", a, b)
				}
			}
		}
	}
}

// flow writes a key with its groups as a flow map.
func flow(key, value string) string {
	return "{" + strings.ReplaceAll(key, ".", ": {") + ": " + value + strings.Repeat("}", 1+strings.Count(key, "."))
}
