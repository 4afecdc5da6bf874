// Package goswagger has a client that go-swagger made. That reads Swagger 2.0 alone, so it gets the one OpenAPI
// file translated.
package goswagger

import (
	httptransport "github.com/go-openapi/runtime/client"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/goswagger/bank/client"
)

//go:generate go run ../openapi ../openapi/bank.yaml bank.swagger.json
//go:generate go tool -modfile=../../tools/swagger/go.mod swagger generate client -q -f bank.swagger.json -t bank

func connect(sber *resilient.Client, host string) *client.TheBankOfTheExamples {
	// drop-in
	over := httptransport.NewWithClient(host, client.DefaultBasePath, []string{"http"}, sber.HTTPClient())
	api := client.New(over, nil)
	// end
	return api
}
