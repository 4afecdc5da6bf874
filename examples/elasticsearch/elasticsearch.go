// Package elasticsearch has the client of Elasticsearch.
package elasticsearch

import (
	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/elastic/go-elasticsearch/v9"

	"github.com/resilient-go/resilient"
)

func connect(sber *resilient.Client, url string) (*elasticsearch.Client, error) {
	// drop-in
	over := elasticsearch.WithTransportOptions(elastictransport.WithTransport(sber), elastictransport.WithDisableRetry())
	api, err := elasticsearch.New(elasticsearch.WithAddresses(url), over)
	// end
	return api, err
}
