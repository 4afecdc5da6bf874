// Package google has a client of google.golang.org/api, with that library's own transport for authentication.
package google

import (
	"context"
	"errors"
	"net/http"

	"golang.org/x/oauth2"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"
	htransport "google.golang.org/api/transport/http"

	"github.com/resilient-go/resilient"
)

func connect(ctx context.Context, sber *resilient.Client, url string, tokens oauth2.TokenSource) (*storage.Service, error) {
	// drop-in
	over, err := htransport.NewTransport(ctx, sber, option.WithTokenSource(tokens))
	client := &http.Client{Transport: over}
	api, failed := storage.NewService(ctx, option.WithHTTPClient(client), option.WithEndpoint(url))
	// end
	return api, errors.Join(err, failed)
}
