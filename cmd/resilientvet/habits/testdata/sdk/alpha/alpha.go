// Package alpha is an SDK that wants an *http.Client.
package alpha

import (
	"io"
	"net/http"
)

// Config is what the SDK needs.
type Config struct {
	Key        string
	HTTPClient *http.Client
}

// An Option changes a Config.
type Option func(*Config)

// WithHTTPClient sets the client.
func WithHTTPClient(c *http.Client) Option { return func(cfg *Config) { cfg.HTTPClient = c } }

// New returns what was configured.
func New(options ...Option) *Config {
	cfg := new(Config)
	for _, o := range options {
		o(cfg)
	}
	return cfg
}

// Read reads an answer and closes it.
func Read(resp *http.Response) { resp.Body.Close() }

// ReadBody reads a body and closes it.
func ReadBody(body io.ReadCloser) { body.Close() }
