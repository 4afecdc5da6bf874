// Package connect has a client that connect-go made.
package connect

import (
	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/connect/bank/bankconnect"
)

//go:generate go tool -modfile=../../tools/buf/go.mod buf generate

func dropIn(sber *resilient.Client, url string) bankconnect.BankClient {
	// drop-in
	api := bankconnect.NewBankClient(sber, url)
	// end
	return api
}
