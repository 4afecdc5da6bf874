package minio

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/internal/drill"
	"github.com/resilient-go/resilient/internal/testserver"
)

// fake is an S3 in memory with an object in it.
func fake(t *testing.T) http.Handler {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("receipts"); err != nil {
		t.Fatal(err)
	}
	body := "paid"
	meta := map[string]string{"Last-Modified": time.Now().UTC().Format(http.TimeFormat)} // without it MinIO's client errs
	if _, err := backend.PutObject("receipts", "1", meta, strings.NewReader(body), int64(len(body)), nil); err != nil {
		t.Fatal(err)
	}
	return gofakes3.New(backend).Server()
}

func dial(t *testing.T, sber *resilient.Client, url string) *minio.Client {
	t.Helper()
	api, err := connect(sber, strings.TrimPrefix(url, "http://"), credentials.NewStaticV4("key", "secret", ""))
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func get(ctx context.Context, api *minio.Client) error {
	object, err := api.GetObject(ctx, "receipts", "1", minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer object.Close()
	b, err := io.ReadAll(object)
	if err == nil && string(b) != "paid" {
		err = errors.New("another receipt")
	}
	return err
}

func TestDropIn(t *testing.T) {
	drill.Run(t, drill.Drill{
		Server: testserver.Options{Handler: fake(t)},
		Connect: func(t *testing.T, sber *resilient.Client, url string) drill.Call {
			api := dial(t, sber, url)
			return func(ctx context.Context) error { return get(ctx, api) }
		},
	})
}

// Left at its ten attempts, it repeats a refusal too. Here with two.
func TestTrapRetry(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: fake(t)}, resilient.Config{})
	attempts := 0
	api, err := minio.New(strings.TrimPrefix(b.URL(), "http://"), &minio.Options{
		Creds: credentials.NewStaticV4("key", "secret", ""), Region: "eu-central-1", MaxRetries: 2,
		Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			attempts++
			return b.Client.RoundTrip(req)
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Client.ForceOpen(time.Minute)
	if err := get(t.Context(), api); !errors.Is(err, resilient.ErrCircuitOpen) || attempts != 2 {
		t.Errorf("%d attempts, %v", attempts, err)
	}
}

// Without a region it asks for the bucket's before the first call.
func TestTrapRegion(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: fake(t)}, resilient.Config{})
	api, err := minio.New(strings.TrimPrefix(b.URL(), "http://"), &minio.Options{
		Creds: credentials.NewStaticV4("key", "secret", ""), Transport: b.Client, MaxRetries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if err := get(t.Context(), api); err != nil {
			t.Error(err)
		}
		b.Asked(2 + n)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
