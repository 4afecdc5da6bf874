// Package ogen has a client that ogen made.
package ogen

import (
	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/ogen/bank"
)

//go:generate go tool -modfile=../../tools/ogen/go.mod ogen -clean -package bank -target bank -config ogen.yaml ../openapi/bank.yaml

func connect(sber *resilient.Client, url string) (*bank.Client, error) {
	// drop-in
	api, err := bank.NewClient(url, bank.WithClient(sber))
	// end
	return api, err
}
