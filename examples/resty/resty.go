// Package resty has a resty client.
package resty

import (
	"github.com/go-resty/resty/v2"

	"github.com/resilient-go/resilient"
)

func connect(sber *resilient.Client, url string) *resty.Client {
	// drop-in
	api := resty.NewWithClient(sber.HTTPClient()).SetBaseURL(url)
	// end
	return api
}
