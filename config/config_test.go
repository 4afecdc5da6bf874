package config

import (
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// faults returns every FieldError of err, and fails on any other error in it.
func faults(t testing.TB, err error) []*FieldError {
	t.Helper()
	var out []*FieldError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			out = append(out, faults(t, err)...)
		}
		return out
	}
	if err != nil {
		f, ok := err.(*FieldError)
		if !ok {
			t.Fatalf("%T is no *FieldError: %v", err, err)
		}
		out = append(out, f)
	}
	return out
}

// fieldsOf returns the faulty fields in order, with spaces between.
func fieldsOf(t testing.TB, err error) string {
	t.Helper()
	var names []string
	for _, f := range faults(t, err) {
		if f.Place == "" || f.Value == "" || f.Rule == "" || f.Remedy == "" {
			t.Errorf("incomplete fault: %#v", f)
		}
		names = append(names, f.Field)
	}
	return strings.Join(names, " ")
}

func TestDefaults(t *testing.T) {
	got, err := Config{}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		MaxConnsPerHost:        20,
		MaxIdleConnsPerHost:    20,
		IdleConnTimeout:        50 * s,
		MaxResponseHeaderBytes: 1 << 20,
		Protocol:               "http1",
		ConnectTimeout:         1 * s,
		ReadTimeout:            5 * s,
		TotalTimeout:           7 * s,
		Bulkhead:               Bulkhead{MaxConcurrent: 16, AcquireTimeout: 100 * ms, MaxWaiting: 160},
		Breaker: Breaker{
			Window: 30 * s, MinRequests: 10, FailureRatio: 0.5, ConsecutiveFailures: 16, OpenFor: 30 * s,
			HalfOpenProbes: 3, SlowCall: 0, FailureStatus: "500-599",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDerivedDefaults(t *testing.T) {
	for _, c := range []struct {
		name string
		in   Config
		get  func(Config) any
		want any
	}{
		{"idle follows the pool", Config{MaxConnsPerHost: 7}, func(c Config) any { return c.MaxIdleConnsPerHost }, 7},
		{"0.8 of 1 is 1", Config{MaxConnsPerHost: 1}, func(c Config) any { return c.Bulkhead.MaxConcurrent }, 1},
		{"0.8 of 2 is 1", Config{MaxConnsPerHost: 2}, func(c Config) any { return c.Bulkhead.MaxConcurrent }, 1},
		{"0.8 of 9 is 7", Config{MaxConnsPerHost: 9}, func(c Config) any { return c.Bulkhead.MaxConcurrent }, 7},
		{"waiting follows the default", Config{MaxConnsPerHost: 5}, func(c Config) any { return c.Bulkhead.MaxWaiting }, 40},
		{"waiting follows the field", Config{Bulkhead: Bulkhead{MaxConcurrent: 3}}, func(c Config) any { return c.Bulkhead.MaxWaiting }, 30},
		{"window of a 15s total", Config{TotalTimeout: 15 * s}, func(c Config) any { return c.Breaker.Window }, 30 * s},
		{"window of a 16s total", Config{TotalTimeout: 16 * s}, func(c Config) any { return c.Breaker.Window }, 32 * s},
		{"consecutive is MinRequests", Config{Breaker: Breaker{MinRequests: 17}}, func(c Config) any { return c.Breaker.ConsecutiveFailures }, 17},
		{"consecutive is MaxConcurrent", Config{Breaker: Breaker{MinRequests: 15}}, func(c Config) any { return c.Breaker.ConsecutiveFailures }, 16},
	} {
		full, err := c.in.Complete()
		if got := c.get(full); err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

// ruleCases has each rule on both sides of its boundary. B-20, R-07, T-09: a
// negative value is an error everywhere but for the constants.
var ruleCases = []struct {
	name string
	in   Config
	want string // the faulty fields
}{
	{"pool 1", Config{MaxConnsPerHost: 1}, ""},
	{"pool negative", Config{MaxConnsPerHost: -1}, "MaxConnsPerHost"},
	{"pool largest", Config{MaxConnsPerHost: 1_000_000}, ""},
	{"pool too large", Config{MaxConnsPerHost: 1_000_001}, "MaxConnsPerHost"},
	{"pool does not wrap", Config{MaxConnsPerHost: math.MaxInt}, "MaxConnsPerHost"},
	{"idle as pool", Config{MaxConnsPerHost: 5, MaxIdleConnsPerHost: 5}, ""},
	{"idle above pool", Config{MaxConnsPerHost: 5, MaxIdleConnsPerHost: 6}, "MaxIdleConnsPerHost"},
	{"idle above default pool", Config{MaxIdleConnsPerHost: 21}, "MaxIdleConnsPerHost"},
	{"idle negative", Config{MaxIdleConnsPerHost: -1}, "MaxIdleConnsPerHost"},
	{"idle timeout 1ns", Config{IdleConnTimeout: 1}, ""},
	{"idle timeout negative", Config{IdleConnTimeout: -1}, "IdleConnTimeout"},
	{"idle timeout largest", Config{IdleConnTimeout: 24 * time.Hour}, ""},
	{"idle timeout too large", Config{IdleConnTimeout: 24*time.Hour + 1}, "IdleConnTimeout"},
	{"headers 1", Config{MaxResponseHeaderBytes: 1}, ""},
	{"headers negative", Config{MaxResponseHeaderBytes: -1}, "MaxResponseHeaderBytes"},
	{"headers largest", Config{MaxResponseHeaderBytes: math.MaxInt32}, ""},
	{"headers too large", Config{MaxResponseHeaderBytes: math.MaxInt32 + 1}, "MaxResponseHeaderBytes"},
	{"http1", Config{Protocol: HTTP1}, ""},
	{"http2", Config{Protocol: HTTP2}, ""},
	{"http3", Config{Protocol: "http3"}, "Protocol"},
	{"HTTP2", Config{Protocol: "HTTP2"}, "Protocol"},

	{"connect 1ns", Config{ConnectTimeout: 1}, ""},
	{"connect negative", Config{ConnectTimeout: -1}, "ConnectTimeout"},
	{"connect largest", Config{ConnectTimeout: 10 * s, ReadTimeout: 11 * s, TotalTimeout: 31 * s}, ""},
	{"connect too large", Config{ConnectTimeout: 10*s + 1, ReadTimeout: 11 * s, TotalTimeout: 40 * s}, "ConnectTimeout"},
	{"connect below read", Config{ConnectTimeout: 2*s - 1, ReadTimeout: 2 * s}, ""},
	{"connect is read", Config{ConnectTimeout: 2 * s, ReadTimeout: 2 * s}, "ConnectTimeout"},
	{"connect alone above read", Config{ConnectTimeout: 6 * s}, "ConnectTimeout"},
	{"read alone at connect", Config{ReadTimeout: 1 * s}, "ReadTimeout"},
	{"read negative", Config{ReadTimeout: -1}, "ReadTimeout"},
	{"read largest", Config{ReadTimeout: 60 * s, TotalTimeout: 62 * s}, ""},
	{"read too large", Config{ReadTimeout: 60*s + 1, TotalTimeout: 100 * s}, "ReadTimeout"},
	{"read is total", Config{ReadTimeout: 7 * s, TotalTimeout: 7 * s}, "ReadTimeout"},
	{"read alone above total", Config{ReadTimeout: 8 * s}, "ReadTimeout"},
	{"total alone below read", Config{TotalTimeout: 5 * s}, "TotalTimeout"},
	{"total fits", Config{ConnectTimeout: 500 * ms, ReadTimeout: 2 * s, TotalTimeout: 3 * s}, ""},
	{"total does not fit", Config{ConnectTimeout: 500 * ms, ReadTimeout: 2 * s, TotalTimeout: 3*s - 1}, "TotalTimeout"},
	{"connect alone does not fit", Config{ConnectTimeout: 1*s + 1}, "ConnectTimeout"},
	{"read alone does not fit", Config{ReadTimeout: 5*s + 1}, "ReadTimeout"},
	{"total negative", Config{TotalTimeout: -1}, "TotalTimeout"},
	{"total largest", Config{TotalTimeout: 5 * time.Minute}, ""},
	{"total too large", Config{TotalTimeout: 5*time.Minute + 1}, "TotalTimeout"},
	{"times do not wrap", Config{ConnectTimeout: math.MaxInt64, ReadTimeout: math.MaxInt64, TotalTimeout: math.MaxInt64},
		"ConnectTimeout ReadTimeout TotalTimeout"},

	{"concurrent below pool", Config{MaxConnsPerHost: 2, Bulkhead: Bulkhead{MaxConcurrent: 1}}, ""},
	{"concurrent is pool", Config{MaxConnsPerHost: 2, Bulkhead: Bulkhead{MaxConcurrent: 2}}, "Bulkhead.MaxConcurrent"},
	{"concurrent 1 of 1", Config{MaxConnsPerHost: 1, Bulkhead: Bulkhead{MaxConcurrent: 1}}, ""},
	{"concurrent 2 of 1", Config{MaxConnsPerHost: 1, Bulkhead: Bulkhead{MaxConcurrent: 2}}, "Bulkhead.MaxConcurrent"},
	{"concurrent alone 19", Config{Bulkhead: Bulkhead{MaxConcurrent: 19}}, ""},
	{"concurrent alone 20", Config{Bulkhead: Bulkhead{MaxConcurrent: 20}}, "Bulkhead.MaxConcurrent"},
	{"concurrent negative", Config{Bulkhead: Bulkhead{MaxConcurrent: -1}}, "Bulkhead.MaxConcurrent"},
	{"concurrent does not wrap", Config{Bulkhead: Bulkhead{MaxConcurrent: math.MaxInt}}, "Bulkhead.MaxConcurrent"},
	{"wait largest", Config{Bulkhead: Bulkhead{AcquireTimeout: s}}, ""},
	{"wait too large", Config{Bulkhead: Bulkhead{AcquireTimeout: s + 1}}, "Bulkhead.AcquireTimeout"},
	{"wait NoWait", Config{Bulkhead: Bulkhead{AcquireTimeout: NoWait}}, ""},
	{"wait negative", Config{Bulkhead: Bulkhead{AcquireTimeout: -2}}, "Bulkhead.AcquireTimeout"},
	{"wait -1s is no NoWait", Config{Bulkhead: Bulkhead{AcquireTimeout: -s}}, "Bulkhead.AcquireTimeout"},
	{"waiting 1", Config{Bulkhead: Bulkhead{MaxWaiting: 1}}, ""},
	{"waiting NoQueue", Config{Bulkhead: Bulkhead{MaxWaiting: NoQueue}}, ""},
	{"waiting negative", Config{Bulkhead: Bulkhead{MaxWaiting: -2}}, "Bulkhead.MaxWaiting"},
	{"waiting largest", Config{Bulkhead: Bulkhead{MaxWaiting: math.MaxInt32}}, ""},
	{"waiting too large", Config{Bulkhead: Bulkhead{MaxWaiting: math.MaxInt32 + 1}}, "Bulkhead.MaxWaiting"},

	{"window of default total", Config{Breaker: Breaker{Window: 14 * s}}, ""},
	{"window too short", Config{Breaker: Breaker{Window: 14*s - 1}}, "Breaker.Window"},
	{"window too short for total", Config{TotalTimeout: 20 * s, Breaker: Breaker{Window: 30 * s}}, "Breaker.Window"},
	{"window negative", Config{Breaker: Breaker{Window: -s}}, "Breaker.Window"},
	{"window largest", Config{Breaker: Breaker{Window: 24 * time.Hour}}, ""},
	{"window too large", Config{Breaker: Breaker{Window: 24*time.Hour + 1}}, "Breaker.Window"},
	{"minimum 1", Config{Breaker: Breaker{MinRequests: 1}}, ""},
	{"minimum negative", Config{Breaker: Breaker{MinRequests: -1}}, "Breaker.MinRequests"},
	{"minimum largest", Config{Breaker: Breaker{MinRequests: math.MaxInt32}}, ""},
	{"minimum too large", Config{Breaker: Breaker{MinRequests: math.MaxInt32 + 1}}, "Breaker.MinRequests"},
	{"ratio 1", Config{Breaker: Breaker{FailureRatio: 1}}, ""},
	{"ratio tiny", Config{Breaker: Breaker{FailureRatio: math.SmallestNonzeroFloat64}}, ""},
	{"ratio above 1", Config{Breaker: Breaker{FailureRatio: math.Nextafter(1, 2)}}, "Breaker.FailureRatio"},
	{"ratio negative", Config{Breaker: Breaker{FailureRatio: -0.5}}, "Breaker.FailureRatio"},
	{"ratio -0 is 0", Config{Breaker: Breaker{FailureRatio: math.Copysign(0, -1)}}, ""},
	{"ratio NaN", Config{Breaker: Breaker{FailureRatio: math.NaN()}}, "Breaker.FailureRatio"},
	{"ratio Inf", Config{Breaker: Breaker{FailureRatio: math.Inf(1)}}, "Breaker.FailureRatio"},
	{"consecutive 1", Config{Breaker: Breaker{ConsecutiveFailures: 1}}, ""},
	{"consecutive Off", Config{Breaker: Breaker{ConsecutiveFailures: Off}}, ""},
	{"consecutive negative", Config{Breaker: Breaker{ConsecutiveFailures: -2}}, "Breaker.ConsecutiveFailures"},
	{"consecutive too large", Config{Breaker: Breaker{ConsecutiveFailures: math.MaxInt32 + 1}}, "Breaker.ConsecutiveFailures"},
	{"open 1ns", Config{Breaker: Breaker{OpenFor: 1}}, ""},
	{"open negative", Config{Breaker: Breaker{OpenFor: -1}}, "Breaker.OpenFor"},
	{"open too large", Config{Breaker: Breaker{OpenFor: 24*time.Hour + 1}}, "Breaker.OpenFor"},
	{"probes 1", Config{Breaker: Breaker{HalfOpenProbes: 1}}, ""},
	{"probes negative (B-20)", Config{Breaker: Breaker{HalfOpenProbes: -1}}, "Breaker.HalfOpenProbes"},
	{"probes too large", Config{Breaker: Breaker{HalfOpenProbes: math.MaxInt32 + 1}}, "Breaker.HalfOpenProbes"},
	{"slow is read", Config{Breaker: Breaker{SlowCall: 5 * s}}, ""},
	{"slow above read", Config{Breaker: Breaker{SlowCall: 5*s + 1}}, "Breaker.SlowCall"},
	{"slow above 60s", Config{Breaker: Breaker{SlowCall: 60*s + 1}}, "Breaker.SlowCall"},
	{"slow negative", Config{Breaker: Breaker{SlowCall: -1}}, "Breaker.SlowCall"},
	{"read below slow", Config{ReadTimeout: 2 * s, Breaker: Breaker{SlowCall: 3 * s}}, "Breaker.SlowCall"},
	{"status", Config{Breaker: Breaker{FailureStatus: "429,500-599"}}, ""},
	{"status 5xx", Config{Breaker: Breaker{FailureStatus: "5xx"}}, "Breaker.FailureStatus"},

	// Several at once; one mistake is one fault.
	{"K-09", Config{ReadTimeout: 8 * s, TotalTimeout: 6 * s, IdleConnTimeout: -s, Breaker: Breaker{FailureRatio: 1.5, HalfOpenProbes: -3}},
		"IdleConnTimeout Breaker.FailureRatio Breaker.HalfOpenProbes ReadTimeout"},
	{"descending times", Config{ConnectTimeout: 9 * s, ReadTimeout: 8 * s, TotalTimeout: 7 * s}, "ConnectTimeout ReadTimeout"},
	{"bad pool hides its dependents", Config{MaxConnsPerHost: -5, MaxIdleConnsPerHost: 50, Bulkhead: Bulkhead{MaxConcurrent: 40}}, "MaxConnsPerHost"},
	{"bad total hides its dependents", Config{TotalTimeout: time.Hour, ReadTimeout: 50 * s, Breaker: Breaker{Window: s}}, "TotalTimeout"},
	{"a fault does not hide another", Config{ReadTimeout: 8 * s, Breaker: Breaker{SlowCall: 9 * s}}, "ReadTimeout Breaker.SlowCall"},
}

func TestRules(t *testing.T) {
	for _, c := range ruleCases {
		t.Run(c.name, func(t *testing.T) {
			full, err := c.in.Complete()
			if got := fieldsOf(t, err); got != c.want {
				t.Errorf("faults in %q, want %q: %v", got, c.want, err)
			}
			if c.want != "" && full != (Config{}) {
				t.Errorf("%+v beside an error", full)
			}
		})
	}
}

// A fault of a default names the field that was set, the default and the remedy.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		in   Config
		want string
	}{
		{Config{ReadTimeout: 8 * s}, "config: Config.ReadTimeout = 8s: must hold: Config.ReadTimeout (8s) < Config.TotalTimeout (7s by default); " +
			"raise Config.TotalTimeout to at least 10s, or lower Config.ReadTimeout"},
		{Config{ReadTimeout: 6 * s}, "config: Config.ReadTimeout = 6s: must hold: Config.TotalTimeout (7s by default) ≥ " +
			"2 × Config.ConnectTimeout (1s by default) + Config.ReadTimeout (6s); " +
			"raise Config.TotalTimeout to at least 8s, or lower Config.ReadTimeout or Config.ConnectTimeout"},
		{Config{MaxConnsPerHost: 10, Bulkhead: Bulkhead{MaxConcurrent: 16}}, "config: Config.Bulkhead.MaxConcurrent = 16: must hold: " +
			"Config.Bulkhead.MaxConcurrent (16) < Config.MaxConnsPerHost (10); " +
			"lower Config.Bulkhead.MaxConcurrent to 8 (0.8 of the pool), or raise Config.MaxConnsPerHost"},
		{Config{Bulkhead: Bulkhead{AcquireTimeout: 2 * s}}, "config: Config.Bulkhead.AcquireTimeout = 2s: " +
			"must be a duration with a unit (500ms, 1m30s), above 0s and at most 1s, or NoWait in Go and 0 in text; " +
			"choose such a value, or leave it unset for the default"},
		{Config{Protocol: "h2"}, `config: Config.Protocol = "h2": must be http1 or http2; choose such a value, or leave it unset for the default`},
	} {
		_, err := c.in.Complete()
		if err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// Raising the TotalTimeout as the message says is enough.
func TestRemedySuffices(t *testing.T) {
	if _, err := (Config{ReadTimeout: 8 * s, TotalTimeout: 10 * s}).Complete(); err != nil {
		t.Error(err)
	}
}

func TestErrorsAs(t *testing.T) {
	_, err := Config{MaxConnsPerHost: -1, Protocol: "x"}.Complete()
	var f *FieldError
	if !errors.As(fmt.Errorf("resilient: %w", err), &f) || f.Field != "MaxConnsPerHost" || f.Place != "Config.MaxConnsPerHost" || f.Value != "-1" {
		t.Errorf("%#v", f)
	}
	if got := f.LogValue().String(); !strings.Contains(got, "place=Config.MaxConnsPerHost") {
		t.Error(got)
	}
}

// K-06: the float 0.8 must not round a permit away, nor give out the whole pool.
func TestMaxConcurrentIsFloor(t *testing.T) {
	for n := 1; n <= 1000; n++ {
		full, err := Config{MaxConnsPerHost: n}.Complete()
		if err != nil {
			t.Fatal(n, err)
		}
		got := full.Bulkhead.MaxConcurrent
		if exact := 10*got <= 8*n && 8*n < 10*(got+1); !exact && !(n == 1 && got == 1) {
			t.Errorf("%d of %d", got, n)
		}
	}
}

func TestCompleteTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyConfig(t)
		full, err := c.Complete()
		if err != nil {
			t.Skip("refused")
		}
		again, err := full.Complete()
		if err != nil || again != full {
			t.Fatalf("%v\n%+v\n%+v", err, full, again)
		}
		for _, f := range fields { // nothing set is adjusted, nothing is left unset
			given, got := f.of(&c), f.of(&full)
			if !given.IsZero() && !given.Equal(got) || got.IsZero() && f.name != "Breaker.SlowCall" {
				t.Fatalf("%s: %v became %v", f.name, given, got)
			}
		}
	})
}

// anyConfig sets few fields, to values that are often allowed and often extreme.
func anyConfig(t *rapid.T) Config {
	var c Config
	for _, f := range fields {
		v := f.of(&c)
		if rapid.IntRange(0, 3).Draw(t, f.name+" set") > 0 {
			continue
		}
		switch v.Interface().(type) {
		case float64:
			v.SetFloat(rapid.Float64Range(0, 1).Draw(t, f.name))
		case Protocol:
			v.SetString(rapid.SampledFrom([]string{"http1", "http2"}).Draw(t, f.name))
		case string:
			v.SetString(rapid.SampledFrom([]string{"500-599", "429, 500-599", "404"}).Draw(t, f.name))
		default:
			std := f.of(&stdConfig).Int()
			v.SetInt(rapid.OneOf(
				rapid.Int64Range(std*9/10, std*11/10+1), rapid.Int64Range(-1, 2), rapid.Int64Range(f.max-1, f.max),
			).Draw(t, f.name))
		}
	}
	return c
}

var stdConfig, _ = Config{}.Complete()

// Every leaf of the struct is in the table once, in order, with a yaml tag; and
// the table in the package comment agrees with it.
func TestFieldTable(t *testing.T) {
	var want, got []string
	var walk func(prefix string, t reflect.Type)
	walk = func(prefix string, typ reflect.Type) {
		for _, sf := range reflect.VisibleFields(typ) {
			if sf.Type.Kind() == reflect.Struct {
				walk(sf.Name+".", sf.Type)
				continue
			}
			want = append(want, prefix+sf.Name)
		}
	}
	walk("", reflect.TypeFor[Config]())
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		got = append(got, f.name)
		var line []string
		for l := range strings.Lines(string(doc)) {
			if words := strings.Fields(strings.TrimPrefix(l, "//")); len(words) > 2 && words[0] == f.name {
				line = words
			}
		}
		rest := " " + strings.Join(line, " ") + " "
		if !strings.Contains(rest, " "+f.env+" ") {
			t.Errorf("doc.go has no line with %s and %s", f.name, f.env)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, key := range map[string]string{
		"MaxIdleConnsPerHost": "max_keepalive_connections", "Bulkhead.AcquireTimeout": "bulkhead.acquire_timeout", "Breaker.FailureStatus": "breaker.failure_status",
	} {
		if f := byName(name); f.key != key || f.env != strings.ToUpper(strings.ReplaceAll(key, ".", "_")) {
			t.Errorf("%s: %s, %s", name, f.key, f.env)
		}
	}
}
