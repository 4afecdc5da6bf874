// Package retryablehttp has go-retryablehttp on top of a client.
package retryablehttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/resilient-go/resilient"
)

func connect(sber *resilient.Client) *retryablehttp.Client {
	// drop-in
	again := retryablehttp.NewClient()
	again.HTTPClient = &http.Client{Transport: struct{ http.RoundTripper }{sber}} // without CloseIdleConnections
	again.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		if errors.Is(err, resilient.ErrUnavailable) { // it would wait only to be refused again
			return false, err
		}
		return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
	}
	// end
	return again
}
