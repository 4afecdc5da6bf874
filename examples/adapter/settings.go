package main

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// settings are the service's own. Those of its clients are in a file, and over
// that in the environment, which resilient reads itself.
type settings struct {
	listen  string // what callers call
	opsAt   string // what the platform and our people look at
	clients string // the file
	sberURL string
	sberKey string
	drain   time.Duration // from "not ready" to taking no more requests: for the load balancer to see it
	grace   time.Duration // what requests under way get after that; above any TotalTimeout
}

// fromEnv reads the environment, and tells every fault at once.
func fromEnv() (settings, error) {
	var faults []error
	text := func(name, otherwise string) string {
		v := os.Getenv(name)
		if v == "" {
			v = otherwise
		}
		if v == "" {
			faults = append(faults, fmt.Errorf("%s is not set", name))
		}
		return v
	}
	duration := func(name string, otherwise time.Duration) time.Duration {
		d, err := time.ParseDuration(text(name, otherwise.String()))
		if err != nil || d < 0 {
			faults = append(faults, fmt.Errorf("%s = %s: must be a duration with a unit, such as 5s", name, os.Getenv(name)))
		}
		return d
	}
	s := settings{
		listen:  text("LISTEN", ":8080"),
		opsAt:   text("OPS_LISTEN", "127.0.0.1:8081"),
		clients: text("CLIENTS", "clients.yaml"),
		sberURL: text("SBER_URL", ""),
		sberKey: text("SBER_KEY", ""),
		drain:   duration("DRAIN", 5*time.Second),
		grace:   duration("GRACE", 15*time.Second),
	}
	return s, errors.Join(faults...)
}
