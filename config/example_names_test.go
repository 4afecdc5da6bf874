package config_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/resilient-go/resilient/config"
)

// What a reload changes: Client.Reconfigure is for a Config that differs.
func ExampleChanged() {
	old, err := config.Config{}.Complete()
	if err != nil {
		panic(err)
	}
	changed, err := config.Config{MaxConnsPerHost: 40}.Complete()
	if err != nil {
		panic(err)
	}
	fmt.Println(config.Changed(old, changed)) // with the defaults that follow from it
	// Output: [MaxConnsPerHost MaxIdleConnsPerHost Bulkhead.MaxConcurrent Bulkhead.MaxWaiting Breaker.ConsecutiveFailures]
}

func ExampleCheckName() {
	fmt.Println(config.CheckName("sber-reports"))
	fmt.Println(config.CheckName("default"))
	// Output:
	// <nil>
	// config: name of a system = "default": names no system; name the external system, like "sber" or "sber-reports"
}

func ExampleEnvPrefix() {
	fmt.Println(config.EnvPrefix("sber-reports") + "READ_TIMEOUT")
	// Output: CLIENT_SBER_REPORTS__READ_TIMEOUT
}

// Names that differ in '-' and '_' alone would share variables.
func ExampleKey() {
	fmt.Println(config.Key("pay-gw") == config.Key("pay_gw"))
	// Output: true
}

// For an editor that checks clients.yaml, and completes it.
func ExampleSchema() {
	var schema struct {
		Schema string `json:"$schema"`
	}
	err := json.Unmarshal([]byte(config.Schema()), &schema)
	fmt.Println(schema.Schema, err)
	// Output: https://json-schema.org/draft/2020-12/schema <nil>
}

// What is in force, as it would stand in a file.
func ExampleSettings() {
	cfg, err := config.Config{Breaker: config.Breaker{ConsecutiveFailures: config.Off}}.Complete()
	if err != nil {
		panic(err)
	}
	for _, s := range config.Settings(cfg) {
		if slices.Contains([]string{"TotalTimeout", "Breaker.ConsecutiveFailures"}, s.Field) {
			fmt.Printf("%s: %s\n", s.Key, s.Value)
		}
	}
	// Output:
	// total_timeout: 7s
	// breaker.consecutive_failures: off
}

func ExampleParseStatuses() {
	failures, err := config.ParseStatuses("429,500-599")
	fmt.Println(failures.Contains(429), failures.Contains(404), err)
	_, err = config.ParseStatuses("5xx")
	fmt.Println(err)
	// Output:
	// true false <nil>
	// config: list of statuses = "5xx": must be statuses and ranges from 100 to 999 with commas between (429,500-599); choose such a value, or leave it unset for the default
}
