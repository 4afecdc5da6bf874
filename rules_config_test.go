package resilient_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
)

// clients writes a file of settings and returns its path.
func clients(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clients.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// CFG-1: settings are declared, in a file and the environment, and judged before the first request: nothing is adjusted in silence.
func TestRule_CFG1(t *testing.T) {
	t.Setenv("CLIENT_SBER__READ_TIMEOUT", "4s")
	configs, err := config.Load(clients(t, `
systems:
  sber:
    max_connections: 40
    bulkhead: {max_concurrent: 30, acquire_timeout: 0}
    breaker: {slow_call: 2s, failure_status: "429,500-599"}
  insurer: {}
`))
	if err != nil {
		t.Fatal(err)
	}
	want, err := resilient.Config{MaxConnsPerHost: 40, ReadTimeout: 4 * time.Second,
		Bulkhead: config.Bulkhead{MaxConcurrent: 30, AcquireTimeout: resilient.NoWait},
		Breaker:  config.Breaker{SlowCall: 2 * time.Second, FailureStatus: "429,500-599"}}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	if len(configs) != 2 || configs["sber"] != want {
		t.Errorf("%+v\nwant %+v", configs, want)
	}
	reg := resilient.NewRegistry()
	for name, cfg := range configs {
		c, err := reg.NewClient(name, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if c.State().Config != cfg {
			t.Errorf("%s: what is in force is not what was loaded: %+v", name, c.State().Config)
		}
	}

	t.Setenv("CLIENT_SBER__READ_TIMEOUT", "")
	t.Setenv("CLIENT_INSURER__TOTAL_TIMOUT", "9s")
	configs, err = config.Load(clients(t, `
systems:
  sber:
    max_connection: 40
    read_timeout: 5
    bulkhead: {acquire_timeout: 2s}
  insurer: {}
`))
	if err == nil || configs != nil {
		t.Fatalf("%+v, %v", configs, err)
	}
	for _, told := range []string{"clients.yaml:4 systems.sber.max_connection ", "max_connections", "clients.yaml:5 systems.sber.read_timeout ", "unit",
		"clients.yaml:6 systems.sber.bulkhead.acquire_timeout ", "CLIENT_INSURER__TOTAL_TIMOUT", "CLIENT_INSURER__TOTAL_TIMEOUT"} {
		if !strings.Contains(err.Error(), told) {
			t.Errorf("no %q in\n%v", told, err)
		}
	}
	if f, ok := errors.AsType[*config.FieldError](err); !ok || f.Remedy == "" || f.Rule == "" || f.Value == "" {
		t.Errorf("%#v", f)
	}
}

// CFG-2: defaults and overrides, field by field: the environment over the system's section over defaults over what is built in.
func TestRule_CFG2(t *testing.T) {
	path := clients(t, `
defaults:
  connect_timeout: 500ms
  read_timeout: 3s
  total_timeout: 6s
systems:
  sber:
    read_timeout: 2s
    total_timeout: 5s
  insurer: {}
`)
	t.Setenv("CLIENT_SBER__TOTAL_TIMEOUT", "4s")
	configs, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][4]time.Duration{ // built in, from defaults, from the system's section, from the environment
		"sber":    {50 * time.Second, 500 * time.Millisecond, 2 * time.Second, 4 * time.Second},
		"insurer": {50 * time.Second, 500 * time.Millisecond, 3 * time.Second, 6 * time.Second},
	} {
		c := configs[name]
		if got := [4]time.Duration{c.IdleConnTimeout, c.ConnectTimeout, c.ReadTimeout, c.TotalTimeout}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	explanation, err := config.Explain(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range explanation.Systems[1].Settings {
		source := map[string]string{"IdleConnTimeout": "default", "ConnectTimeout": "clients.yaml:3", "ReadTimeout": "clients.yaml:8", "TotalTimeout": "CLIENT_SBER__TOTAL_TIMEOUT"}[setting.Field]
		if !strings.Contains(setting.Source, source) {
			t.Errorf("%s is said to come from %s, not %s", setting.Field, setting.Source, source)
		}
	}
}
