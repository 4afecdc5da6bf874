// Package clienttimeout sets Timeout, on clients of ours and on others.
package clienttimeout

import (
	"net/http"
	"time"

	"github.com/resilient-go/resilient"
	"habits.example/sdk/alpha"
)

type bank struct {
	client *http.Client
	mixed  *http.Client
	sdk    alpha.Config
}

func newBank(sber *resilient.Client, pool *http.Transport, other *http.Client) (*bank, error) {
	client := sber.HTTPClient()
	client.Timeout = 5 * time.Second // want `Timeout over a client of ours hides from its breaker what ended a request \(TO-1\): leave it 0, and set TotalTimeout in the Config, or WithBounds for one request`
	sber.HTTPClient().Timeout = 1    // want `Timeout over a client of ours`
	_ = &http.Client{
		Transport: sber,
		Timeout:   time.Minute, // want `Timeout over a client of ours`
	}
	wrapped, err := sber.Wrap(pool)
	if err != nil {
		return nil, err
	}
	over := http.Client{Transport: wrapped, Timeout: time.Minute} // want `Timeout over a client of ours`
	later := &http.Client{Timeout: time.Second}                   // want `Timeout over a client of ours`
	later.Transport = sber
	var declared http.Client
	declared.Transport = sber
	declared.Timeout = time.Second // want `Timeout over a client of ours`
	b := &bank{client: sber.HTTPClient(), mixed: other}
	b.mixed = sber.HTTPClient()
	b.sdk.HTTPClient = over.Transport.(*resilient.Client).HTTPClient()
	return b, nil
}

func (b *bank) patient() {
	b.client.Timeout = time.Hour         // want `Timeout over a client of ours`
	b.client.Timeout = 0                 // as it should be
	b.mixed.Timeout = time.Hour          // may be another's
	b.client.Timeout = time.Second       //resilient:ignore the partner's certification asks for it
	b.sdk.HTTPClient.Timeout = time.Hour // want `Timeout over a client of ours`
}

type settings struct{ Timeout time.Duration }

func others(pool *http.Transport, given *http.Client, s *settings) {
	given.Timeout = time.Second
	plain := &http.Client{Timeout: time.Second}
	plain.Timeout = time.Minute
	_ = &http.Client{Transport: pool, Timeout: time.Second}
	s.Timeout = time.Second
	_ = &http.Server{ReadTimeout: time.Second}
	shared := &http.Client{Transport: pool, Timeout: time.Second}
	shared.Transport = given.Transport
}
