package config_test

import (
	"errors"
	"fmt"
	"os"
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
