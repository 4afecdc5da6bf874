package resilient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
)

// The tests whose names begin with TestRule_ show the rules that docs/rules.md tells of, and are named after them: what the
// library does, in the words of the rule, once. The edges are tested elsewhere.

// beside makes another client of r's server in r's registry.
func (r *rig) beside(name string, cfg resilient.Config, opts ...resilient.Option) *resilient.Client {
	r.Helper()
	opts = append([]resilient.Option{resilient.WithDialContext(r.server.Dial), resilient.WithTLSConfig(tlsOf(r)), resilient.WithLogger(discard)}, opts...)
	c, err := r.reg.NewClient(name, cfg, opts...)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	return c
}

// faults returns the fields that err finds fault with, with spaces between.
func faults(err error) string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []string
		for _, err := range joined.Unwrap() {
			all = append(all, faults(err))
		}
		return strings.Join(all, " ")
	}
	if f, ok := err.(*config.FieldError); ok {
		return f.Field
	}
	if err = errors.Unwrap(err); err != nil {
		return faults(err)
	}
	return ""
}

// refused checks that NewClient, Reconfigure and Complete all refuse cfg for these fields.
func refused(t *testing.T, cfg resilient.Config, fields string) {
	t.Helper()
	reg := resilient.NewRegistry()
	c, err := reg.NewClient("sber", resilient.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, made := reg.NewClient("insurer", cfg)
	_, completed := cfg.Complete()
	for _, err := range []error{made, c.Reconfigure(cfg), completed} {
		if got := faults(err); got != fields {
			t.Errorf("faults in %q, want %q: %v", got, fields, err)
		}
	}
}

// goroutine returns the number of the one that calls it.
func goroutine() string {
	stack := make([]byte, 64)
	return strings.Fields(string(stack[:runtime.Stack(stack, false)]))[1]
}

// ownGoroutines returns how many goroutines the library has begun that have not ended.
func ownGoroutines() (n int) {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for line := range strings.Lines(string(stacks)) {
		if maker, ok := strings.CutPrefix(line, "created by github.com/resilient-go/resilient"); ok &&
			!strings.HasPrefix(maker, "_test.") && !strings.HasPrefix(maker, "/internal/testserver.") {
			n++
		}
	}
	return n
}

// A bankClient is what a generator of OpenAPI clients makes of a bank's description: it knows nothing of this library.
type bankClient struct {
	server string
	client httpRequestDoer
}

type httpRequestDoer interface {
	Do(*http.Request) (*http.Response, error)
}

func (c *bankClient) call(ctx context.Context, method, path string) (code int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}
