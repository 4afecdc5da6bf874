package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/resilient-go/resilient"
)

// A registry for a test, or for a part of a process.
func ExampleNewRegistry() {
	reg := resilient.NewRegistry()
	defer reg.Shutdown(context.Background())
	for _, system := range []string{"sber", "atol"} {
		if _, err := reg.NewClient(system, resilient.Config{}); err != nil {
			panic(err)
		}
	}
	fmt.Println(reg.Names())
	_, err := reg.Client("sbre")
	fmt.Println(err)
	// Output:
	// [atol sber]
	// resilient: no client "sbre"; there are: atol, sber
}

// A second client of one system would double its limits.
func ExampleRegistry() {
	reg := resilient.NewRegistry()
	defer reg.Shutdown(context.Background())
	if _, err := reg.NewClient("sber-reports", resilient.Config{}); err != nil {
		panic(err)
	}
	_, err := reg.NewClient("sber_reports", resilient.Config{})
	fmt.Println(err)
	fmt.Println(errors.Is(err, resilient.ErrDuplicate))
	// Output:
	// resilient: a client "sber-reports" exists; use it, or close it before making "sber_reports"
	// true
}

func ExampleRegistry_Handler() {
	reg := resilient.NewRegistry()
	defer reg.Shutdown(context.Background())
	if _, err := reg.NewClient("sber", resilient.Config{}); err != nil {
		panic(err)
	}
	// mux.Handle("/debug/resilient/", http.StripPrefix("/debug/resilient", reg.Handler()))
	w := httptest.NewRecorder()
	reg.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/sber", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 application/json; charset=utf-8
}

// The process may have 1000 sockets, and 900 of them are for its partners.
func ExampleWithMaxTotalConns() {
	reg := resilient.NewRegistry(resilient.WithMaxTotalConns(900))
	defer reg.Shutdown(context.Background())
	_, err := reg.NewClient("sber", resilient.Config{MaxConnsPerHost: 600})
	fmt.Println(err)
	_, err = reg.NewClient("atol", resilient.Config{MaxConnsPerHost: 600})
	fmt.Println(err)
	// Output:
	// <nil>
	// resilient: atol: MaxConnsPerHost 600 would bring the sum over all clients to 1200, above the registry's limit of 900; lower it, or raise WithMaxTotalConns
}

func ExampleWithMetricPrefix() {
	prom := prometheus.NewRegistry()
	reg := resilient.NewRegistry(resilient.WithRegisterer(prom), resilient.WithMetricPrefix("partners_"))
	defer reg.Shutdown(context.Background())
	if _, err := reg.NewClient("sber", resilient.Config{}); err != nil {
		panic(err)
	}
	all, err := prom.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range all {
		if strings.Contains(family.GetName(), "semaphore_m") {
			fmt.Println(family.GetName(), family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output: partners_semaphore_max_concurrent 16
}

// Metrics in a registry of one's own, which is served where one likes.
func ExampleWithRegisterer() {
	prom := prometheus.NewRegistry()
	reg := resilient.NewRegistry(resilient.WithRegisterer(prom))
	defer reg.Shutdown(context.Background())
	if _, err := reg.NewClient("sber", resilient.Config{}); err != nil {
		panic(err)
	}
	all, err := prom.Gather()
	if err != nil {
		panic(err)
	}
	fmt.Println(all[0].GetName(), all[0].GetMetric()[0].GetLabel()[0].GetValue())
	// Output: resilient_breaker_rejections_total sber
}
