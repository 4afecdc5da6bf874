package otelresilient_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/otelresilient"
)

// One call that is answered, and one that is refused. A service would use the
// global providers, and resilient.DefaultRegistry.
func Example() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "paid") }))
	defer bank.Close()
	spans := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	tel, err := otelresilient.New(resilient.NewRegistry(), otelresilient.WithTracerProvider(tracers))
	if err != nil {
		panic(err)
	}
	defer tel.Close()
	sber, err := tel.NewClient("sber", resilient.Config{})
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	for range 2 {
		req, _ := http.NewRequest("POST", bank.URL, nil)
		if resp, err := sber.Do(req); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		sber.ForceOpen(0)
	}
	for _, span := range spans.GetSpans() {
		fmt.Println(span.Name)
		for _, event := range span.Events {
			fmt.Println(" ", event.Name, event.Attributes[1].Value.AsString())
		}
	}
	// Output:
	// POST
	// sber POST
	// sber POST
	//   resilient.refused open
}
