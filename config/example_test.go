package config_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/resilient-go/resilient/config"
)

// A Config says what differs from the defaults; Complete shows the rest.
func ExampleConfig_Complete() {
	cfg, err := config.Config{MaxConnsPerHost: 50, TotalTimeout: 20 * time.Second}.Complete()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Bulkhead.MaxConcurrent, cfg.ReadTimeout, cfg.Breaker.Window)
	// Output: 40 5s 40s
}

// Every fault is reported at once, a default's under the name that was set.
func ExampleConfig_Complete_faults() {
	_, err := config.Config{
		ReadTimeout: 8 * time.Second,
		Breaker:     config.Breaker{FailureRatio: 50},
	}.Complete()
	fmt.Println(err)

	var fault *config.FieldError
	fmt.Println(errors.As(err, &fault), fault.Field)
	// Output:
	// config: Config.Breaker.FailureRatio = 50: must be a number above 0 and at most 1; choose such a value, or leave it unset for the default
	// config: Config.ReadTimeout = 8s: must hold: Config.ReadTimeout (8s) < Config.TotalTimeout (7s by default); raise Config.TotalTimeout to at least 10s, or lower Config.ReadTimeout
	// true Breaker.FailureRatio
}

func ExampleFromEnv() {
	for name, value := range map[string]string{
		"CLIENT_SBER__READ_TIMEOUT":    "30",
		"CLIENT_SBER__BREAKER_OPENFOR": "10s",
		"CLIENT_SBER__BASE_URL":        "https://sber.example", // the application's
	} {
		os.Setenv(name, value)
		defer os.Unsetenv(name)
	}

	_, err := config.FromEnv("sber")
	fmt.Println(err)
	// Output:
	// config: CLIENT_SBER__BREAKER_OPENFOR = "10s": is no setting; rename it to CLIENT_SBER__BREAKER_OPEN_FOR
	// config: CLIENT_SBER__READ_TIMEOUT = "30": must be a duration with a unit (500ms, 1m30s), above 0s and at most 1m0s; choose such a value, or leave it unset for the default
}

func ExampleLoad() {
	os.Setenv("CLIENT_SBER__READ_TIMEOUT", "3s")
	os.Setenv("CLIENT_PAY_GW__TOTAL_TIMEOUT", "9s")
	defer os.Unsetenv("CLIENT_SBER__READ_TIMEOUT")
	defer os.Unsetenv("CLIENT_PAY_GW__TOTAL_TIMEOUT")

	systems, err := config.Load("testdata/clients.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(systems)) {
		cfg := systems[name] // resilient.NewClient(name, cfg)
		fmt.Println(name, cfg.MaxConnsPerHost, cfg.ReadTimeout, cfg.TotalTimeout, cfg.Breaker.OpenFor)
	}
	// Output:
	// insurance 20 4s 7s 30s
	// pay-gw 20 4s 9s 30s
	// sber 40 3s 10s 10s
	// sber-reports 5 30s 40s 1m0s
}

// All that is wrong is told at once.
func ExampleLoad_faults() {
	os.Setenv("CLIENT_SBER__BULKHEAD_MAX_CONCURRENT", "40")
	defer os.Unsetenv("CLIENT_SBER__BULKHEAD_MAX_CONCURRENT")

	_, err := config.Load("testdata/faults.yaml")
	fmt.Println(err)
	// Output:
	// config: testdata/faults.yaml:3 systems.sber.raed_timeout = "3s": is not known here; write systems.sber.read_timeout
	// config: CLIENT_SBER__BULKHEAD_MAX_CONCURRENT = 40: must hold: CLIENT_SBER__BULKHEAD_MAX_CONCURRENT (40) < testdata/faults.yaml:4 systems.sber.max_connections (40); lower CLIENT_SBER__BULKHEAD_MAX_CONCURRENT to 32 (0.8 of the pool), or raise systems.sber.max_connections
	// config: testdata/faults.yaml:6 systems.insurance.total_timeout = "10": must be a duration with a unit (500ms, 1m30s), above 0s and at most 5m0s; choose such a value, or leave it unset for the default
}

func ExampleExplain() {
	os.Setenv("CLIENT_PAY__READ_TIMEOUT", "4s")
	os.Setenv("CLIENT_PAY__BREAKER_MIN_REQUESTS", "1")
	os.Setenv("CLIENT_PAY__BREAKER_SLOW_CALL", "off")
	os.Setenv("CLIENT_PAY__TOKEN", "secret")
	defer os.Unsetenv("CLIENT_PAY__READ_TIMEOUT")
	defer os.Unsetenv("CLIENT_PAY__BREAKER_MIN_REQUESTS")
	defer os.Unsetenv("CLIENT_PAY__BREAKER_SLOW_CALL")
	defer os.Unsetenv("CLIENT_PAY__TOKEN")

	explanation, err := config.Explain("") // the environment alone
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(explanation)
	// Output:
	// pay
	//   max_connections               20       default
	//   max_keepalive_connections     20       default: max_connections
	//   idle_conn_timeout             50s      default
	//   max_response_header_bytes     1048576  default
	//   max_response_bytes            off      default
	//   protocol                      http1    default
	//   connect_timeout               1s       default
	//   read_timeout                  4s       CLIENT_PAY__READ_TIMEOUT
	//   total_timeout                 7s       default
	//   bulkhead.max_concurrent       16       default: 0.8 × max_connections, rounded down, at least 1
	//   bulkhead.acquire_timeout      100ms    default
	//   bulkhead.max_waiting          160      default: 10 × max_concurrent
	//   breaker.window                30s      default: 30s, or 2 × total_timeout where that is more
	//   breaker.min_requests          1        CLIENT_PAY__BREAKER_MIN_REQUESTS
	//   breaker.failure_ratio         0.5      default
	//   breaker.consecutive_failures  16       default: the larger of min_requests and max_concurrent
	//   breaker.open_for              30s      default
	//   breaker.half_open_probes      3        default
	//   breaker.slow_call             off      CLIENT_PAY__BREAKER_SLOW_CALL
	//   breaker.failure_status        500-599  default
	//   retry.max_attempts            1        default
	//   retry.put_delete              false    default
	//   retry.status                  502-504  default
	//   retry.base_delay              100ms    default
	//   retry.max_delay               1s       default: 1s, or base_delay where that is more
	//   retry.max_elapsed             5s       default
	//   retry.max_retry_after         30s      default
	//   retry.budget_ratio            0.1      default
	//   retry.budget_floor            3        default
	//   retry.gate                    false    default
	//   retry.deadline_header         ""       default
	//   retry.deadline_floor          off      default
	//   the application's: CLIENT_PAY__TOKEN
	//   warning: CLIENT_PAY__BREAKER_MIN_REQUESTS = 1: the first failure after a quiet window opens the breaker; raise it
}
