// Package oapicodegen has a client that oapi-codegen made.
package oapicodegen

import (
	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/oapicodegen/bank"
)

//go:generate go tool -modfile=../../tools/codegen/go.mod oapi-codegen -package bank -generate models,client -o bank/bank.gen.go ../openapi/bank.yaml

func connect(sber *resilient.Client, url string) (bank.ClientWithResponsesInterface, error) {
	// drop-in
	api, err := bank.NewClientWithResponses(url, bank.WithHTTPClient(sber))
	// end
	return api, err
}
