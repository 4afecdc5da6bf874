package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// peers are the modules that are compared, as they are called in a table.
var peers = []struct{ path, name string }{
	{"golang.org/x/sync", "golang.org/x/sync"},
	{"github.com/sony/gobreaker/v2", "sony/gobreaker"},
	{"github.com/failsafe-go/failsafe-go", "failsafe-go"},
	{"github.com/gojek/heimdall/v7", "gojek/heimdall"},
	{"github.com/afex/hystrix-go", "afex/hystrix-go"},
	{"github.com/prometheus/client_golang", "client_golang (promhttp)"},
	{"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", "otelhttp"},
	{"go.opentelemetry.io/otel/sdk/metric", "OpenTelemetry's metrics"},
}

// machine says what the figures were measured on, in Markdown.
func machine() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s/%s, %s, GOMAXPROCS %d; %s.\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, processor(), runtime.GOMAXPROCS(0), time.Now().Format("January 2006"))
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			versions[m.Path] = m.Version
		}
	}
	var all []string
	for _, p := range peers {
		if v, ok := versions[p.path]; ok {
			all = append(all, p.name+" "+strings.TrimPrefix(v, "v"))
		}
	}
	fmt.Fprintf(&b, "Compared with: %s.\n", strings.Join(all, ", "))
	return b.String()
}

// processor names the processor, where the system tells.
func processor() string {
	name := "an unknown processor"
	f, err := os.Open("/proc/cpuinfo")
	if err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s × %d", name, runtime.NumCPU())
}
