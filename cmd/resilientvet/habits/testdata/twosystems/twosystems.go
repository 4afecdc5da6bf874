// Package twosystems has one client for two systems, and one for each.
package twosystems

import (
	"fmt"
	"net/http"

	"github.com/resilient-go/resilient"
	"habits.example/bank"
	"habits.example/insurer"
	"habits.example/sdk/alpha"
	"habits.example/sdk/beta"
)

const bankURL = "https://api.bank.example"

func generated(bankAt, insurerAt string, cfg resilient.Config) {
	shared, _ := resilient.NewClient("shared", cfg)
	bank.NewClientWithResponses(bankAt, bank.WithHTTPClient(shared))
	insurer.NewClientWithResponses(insurerAt, insurer.WithHTTPClient(shared)) // want `shared calls the system of package habits.example/insurer here, and the system of package habits.example/bank on line 19: one that hangs takes the permits and opens the breaker of both \(ISO-X1\); make a client of its own for each with resilient.NewClient`

	plain := &http.Client{}
	bank.NewClient(bankAt, bank.WithHTTPClient(plain))
	insurer.NewClient(insurerAt, insurer.WithHTTPClient(plain)) // want `plain calls the system of package`

	twice, _ := resilient.NewClient("twice", cfg)
	bank.NewClient(bankURL, bank.WithHTTPClient(twice))
	bank.NewClient("https://other.example/v1", bank.WithHTTPClient(twice)) // want `twice calls other.example here, and bank.example on line 27`

	aliased, _ := resilient.NewClient("aliased", cfg)
	alias := aliased.HTTPClient()
	over := &http.Client{Transport: aliased}
	bank.NewClient(bankAt, bank.WithHTTPClient(alias))
	insurer.NewClient(insurerAt, insurer.WithHTTPClient(over)) // want `aliased calls`
}

func urls(c *http.Client, sber *resilient.Client, id string) {
	c.Get(bankURL + "/status")
	c.Get("https://login.bank.example/")   // the same partner's
	c.Get("https://insurer.example/" + id) // want `c calls insurer.example here, and bank.example on line 38`
	c.Get("https://third.example/")        // once is enough

	pay, _ := http.NewRequest("POST", fmt.Sprintf("https://api.bank.example/pay/%s", id), nil)
	sber.Do(pay)
	print, _ := http.NewRequestWithContext(pay.Context(), "POST", "https://printer:8080/"+id, nil)
	sber.Do(print) // want `sber calls printer here, and bank.example`
}

type service struct {
	one    *resilient.Client
	shared *resilient.Client
	base   string
}

func (s *service) pay() { s.shared.HTTPClient().Get("https://bank.example/pay") }
func (s *service) print() {
	s.shared.HTTPClient().Get("https://printer.example/print") // want `shared calls printer.example here`
	s.one.HTTPClient().Get("https://printer.example/print")
	s.one.HTTPClient().Get("https://printer.example/state")
	s.one.HTTPClient().Get(s.base + "/state")
	s.one.HTTPClient().Get("http://localhost:4040/state")
	s.one.HTTPClient().Get("https://" + s.base)
}

func sdks(sber *resilient.Client, own *resilient.Client) {
	_ = alpha.Config{Key: "k", HTTPClient: sber.HTTPClient()}
	var cfg beta.Config
	cfg.HTTPClient = sber.HTTPClient() // want `sber calls the system of package habits.example/sdk/beta here, and the system of package habits.example/sdk/alpha`

	alpha.New(alpha.WithHTTPClient(own.HTTPClient()))
	beta.New(beta.WithHTTPClient(own.HTTPClient())) // want `own calls`
}

func apart(bankAt, insurerAt string, cfg resilient.Config, demo *resilient.Client) {
	first, _ := resilient.NewClient("bank", cfg)
	second, _ := resilient.NewClient("insurer", cfg)
	bank.NewClient(bankAt, bank.WithHTTPClient(first))
	insurer.NewClient(insurerAt, insurer.WithHTTPClient(second))
	bank.NewClient(bankAt, bank.WithHTTPClient(first)) // the same twice

	client, _ := resilient.NewClient("bank-b", cfg)
	bank.NewClient(bankAt, bank.WithHTTPClient(client))
	client, _ = resilient.NewClient("insurer-b", cfg) // one variable, two clients
	insurer.NewClient(insurerAt, insurer.WithHTTPClient(client))

	one, _ := resilient.NewClient("one", cfg) // one system with two descriptions
	bank.NewClient(bankURL, bank.WithHTTPClient(one))
	insurer.NewClient(bankURL, insurer.WithHTTPClient(one))

	bank.NewClient(bankAt, bank.WithHTTPClient(demo))
	insurer.NewClient(insurerAt, insurer.WithHTTPClient(demo)) //resilient:ignore one test system plays both
}
