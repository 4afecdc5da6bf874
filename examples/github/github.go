// Package github has the GitHub client of go-github.
package github

import (
	"github.com/google/go-github/v88/github"

	"github.com/resilient-go/resilient"
)

func connect(sber *resilient.Client, url, token string) (*github.Client, error) {
	// drop-in
	api, err := github.NewClient(github.WithTransport(sber), github.WithAuthToken(token), github.WithURLs(&url, nil))
	// end
	return api, err
}
