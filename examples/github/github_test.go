package github

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-github/v88/github"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/internal/drill"
	"github.com/resilient-go/resilient/internal/testserver"
)

var repository = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/repos/bank/api" || r.Header.Get("Authorization") != "Bearer secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"name":"api","stargazers_count":7}`)
})

func dial(t *testing.T, sber *resilient.Client, url string) *github.Client {
	t.Helper()
	api, err := connect(sber, url+"/", "secret")
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func TestDropIn(t *testing.T) {
	drill.Run(t, drill.Drill{
		Server: testserver.Options{Handler: repository},
		Connect: func(t *testing.T, sber *resilient.Client, url string) drill.Call {
			api := dial(t, sber, url)
			return func(ctx context.Context) error {
				got, _, err := api.Repositories.Get(ctx, "bank", "api")
				if err == nil && got.GetStargazersCount() != 7 {
					err = errors.New("another repository")
				}
				return err
			}
		},
	})
}

// Whoever is told of a rate limit is not let through any more, by go-github itself, until the limit is reset. To our
// client that is no call at all, and its error is none of ours.
func TestTrapRateLimit(t *testing.T) {
	b := drill.Open(t, testserver.Options{}, resilient.Config{})
	b.Default(testserver.Status(403, "X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "0",
		"X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Hour).Unix())))
	api := dial(t, b.Client, b.URL())
	for range 2 {
		_, _, err := api.Repositories.Get(t.Context(), "bank", "api")
		var limit *github.RateLimitError
		if !errors.As(err, &limit) || errors.Is(err, resilient.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	}
	b.Asked(1)
	if s := b.Client.State().Breaker.State; s != "closed" {
		t.Error(s)
	}
}

// When the caller's context has ended it returns that context's plain error, and not the chain with ours or the cause in it.
func TestTrapCause(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: testserver.HangBeforeHeaders()}, resilient.Config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the order was withdrawn")
	go func() {
		b.AwaitHanging(1)
		cancel(cause)
	}()
	_, _, err := dial(t, b.Client, b.URL()).Repositories.Get(ctx, "bank", "api")
	if !errors.Is(err, context.Canceled) || errors.Is(err, cause) {
		t.Errorf("%#v, %v", err, err)
	}
}

// WithEnvProxy wants an *http.Transport, and says so.
func TestTrapTransport(t *testing.T) {
	b := drill.Open(t, testserver.Options{}, resilient.Config{})
	if _, err := github.NewClient(github.WithTransport(b.Client), github.WithEnvProxy()); err == nil {
		t.Error("no error")
	}
}
