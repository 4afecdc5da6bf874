package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
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
		Retry: Retry{
			MaxAttempts: 1, Status: "502-504", BaseDelay: 100 * ms, MaxDelay: 1 * s, MaxElapsed: 5 * s, MaxRetryAfter: 30 * s,
			BudgetRatio: 0.1, BudgetFloor: 3,
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
		{"longest pause", Config{Retry: Retry{BaseDelay: 900 * ms}}, func(c Config) any { return c.Retry.MaxDelay }, 1 * s},
		{"longest pause of a long one", Config{Retry: Retry{BaseDelay: 2 * s}}, func(c Config) any { return c.Retry.MaxDelay }, 2 * s},
		{"consecutive is MaxConcurrent", Config{Breaker: Breaker{MinRequests: 15}}, func(c Config) any { return c.Breaker.ConsecutiveFailures }, 16},
	} {
		full, err := c.in.Complete()
		if got := c.get(full); err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
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
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			c := anyConfig(t)
			full, err := c.Complete()
			if err != nil {
				continue // about nine of ten are refused
			}
			accepted++
			again, err := full.Complete()
			if err != nil || again != full {
				t.Fatalf("%v\n%+v\n%+v", err, full, again)
			}
			for _, f := range fields { // nothing set is adjusted, nothing is left unset
				given, got := f.of(&c), f.of(&full)
				if !given.IsZero() && !given.Equal(got) || got.IsZero() && !slices.Contains(mayBeZero, f.name) {
					t.Fatalf("%s: %v became %v", f.name, given, got)
				}
			}
		}
	})
	if accepted == 0 {
		t.Error("no configuration was accepted")
	}
}

var mayBeZero = []string{"MaxResponseBytes", "Breaker.SlowCall", "Retry.PutDelete", "Retry.Gate", "Retry.DeadlineHeader", "Retry.DeadlineFloor"}

// anyConfig sets few fields, to values that are often allowed and often extreme.
func anyConfig(t *rapid.T) Config {
	var c Config
	for _, f := range fields {
		v := f.of(&c)
		if rapid.IntRange(0, 3).Draw(t, f.name+" set") > 0 {
			continue
		}
		switch v.Interface().(type) {
		case bool:
			v.SetBool(rapid.Bool().Draw(t, f.name))
		case float64:
			v.SetFloat(rapid.Float64Range(0, 1).Draw(t, f.name))
		case Protocol:
			v.SetString(rapid.SampledFrom([]string{"http1", "http2"}).Draw(t, f.name))
		case string:
			v.SetString(rapid.SampledFrom([]string{"500-599", "429, 500-599", "404", "X-Deadline-Ms"}).Draw(t, f.name))
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
