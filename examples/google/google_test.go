package google

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"
	htransport "google.golang.org/api/transport/http"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/internal/drill"
	"github.com/resilient-go/resilient/internal/testserver"
)

var bucket = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"kind":"storage#bucket","name":"receipts"}`)
})

var tokens = oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "secret"})

func get(ctx context.Context, api *storage.Service) error {
	got, err := api.Buckets.Get("receipts").Context(ctx).Do()
	if err == nil && got.Name != "receipts" {
		err = errors.New("another bucket")
	}
	return err
}

func TestDropIn(t *testing.T) {
	drill.Run(t, drill.Drill{
		Server: testserver.Options{Handler: bucket},
		Connect: func(t *testing.T, sber *resilient.Client, url string) drill.Call {
			api, err := connect(t.Context(), sber, url, tokens)
			if err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error { return get(ctx, api) }
		},
	})
}

// WithHTTPClient takes the place of every option for credentials: beside it they are ignored in silence.
func TestTrapHTTPClient(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: bucket}, resilient.Config{})
	api, err := storage.NewService(t.Context(), option.WithHTTPClient(b.Client.HTTPClient()), option.WithTokenSource(tokens), option.WithEndpoint(b.URL()))
	if err != nil {
		t.Fatal(err)
	}
	err = get(t.Context(), api)
	var answer *googleapi.Error
	if !errors.As(err, &answer) || answer.Code != http.StatusUnauthorized {
		t.Errorf("%v", err)
	}
}

// A large upload goes in chunks, each an exchange of its own, and each repeated after 5xx, 408 and 429.
// What we refuse is not repeated.
func TestTrapUpload(t *testing.T) {
	b := drill.Open(t, testserver.Options{}, resilient.Config{})
	b.Default(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		switch {
		case r.URL.Path != "/session":
			w.Header().Set("Location", b.URL()+"/session")
		case strings.HasSuffix(r.Header.Get("Content-Range"), "/*"): // there are more to come
			w.Header().Set("X-HTTP-Status-Code-Override", "308")
		default:
			bucket(w, r)
		}
	}))
	api, err := connect(t.Context(), b.Client, b.URL(), tokens)
	if err != nil {
		t.Fatal(err)
	}
	put := func() error {
		body := strings.NewReader(strings.Repeat("x", googleapi.MinUploadChunkSize+1))
		_, err := api.Objects.Insert("receipts", &storage.Object{Name: "1"}).Media(body, googleapi.ChunkSize(googleapi.MinUploadChunkSize)).Context(t.Context()).Do()
		b.Idle()
		return err
	}
	if err := put(); err != nil {
		t.Error(err)
	}
	b.Asked(3)
	b.Next(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", b.URL()+"/session") }), testserver.Status(503))
	if err := put(); err != nil {
		t.Error(err)
	}
	b.Asked(7)
	b.Client.ForceOpen(0)
	if err := put(); !errors.Is(err, resilient.ErrCircuitOpen) {
		t.Error(err)
	}
}

// A token is fetched above our client: no permit is held meanwhile, and its failure is not this system's. The other
// way round, with Wrap over the transport for authentication, it would be part of the exchange.
func TestTrapToken(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: bucket}, resilient.Config{})
	failed := errors.New("no token today")
	inside := 0
	source := tokenSource(func() (*oauth2.Token, error) {
		inside = b.Client.State().InFlight
		return nil, failed
	})
	api, err := connect(t.Context(), b.Client, b.URL(), source)
	if err != nil {
		t.Fatal(err)
	}
	if err := get(t.Context(), api); !errors.Is(err, failed) || inside != 0 {
		t.Errorf("%d exchanges, %v", inside, err)
	}
	b.Asked(0)

	auth, err := htransport.NewTransport(t.Context(), &http.Transport{}, option.WithTokenSource(source))
	if err != nil {
		t.Fatal(err)
	}
	over, err := b.Client.Wrap(auth)
	if err != nil {
		t.Fatal(err)
	}
	api, err = storage.NewService(t.Context(), option.WithHTTPClient(&http.Client{Transport: over}), option.WithEndpoint(b.URL()))
	if err != nil {
		t.Fatal(err)
	}
	if err := get(t.Context(), api); !errors.Is(err, failed) || inside != 1 {
		t.Errorf("%d exchanges, %v", inside, err)
	}
}

type tokenSource func() (*oauth2.Token, error)

func (f tokenSource) Token() (*oauth2.Token, error) { return f() }
