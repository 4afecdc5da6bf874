package s3

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

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
	if _, err := backend.PutObject("receipts", "1", map[string]string{}, strings.NewReader(body), int64(len(body)), nil); err != nil {
		t.Fatal(err)
	}
	return gofakes3.New(backend).Server()
}

func config(url string) aws.Config {
	return aws.Config{Region: "eu-central-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")}
}

func pathStyle(o *s3.Options) { o.UsePathStyle = true }

func get(ctx context.Context, api *s3.Client) (*s3.GetObjectOutput, error) {
	return api.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("receipts"), Key: aws.String("1")}, pathStyle)
}

func TestDropIn(t *testing.T) {
	drill.Run(t, drill.Drill{
		Server: testserver.Options{Handler: fake(t)},
		Connect: func(_ *testing.T, sber *resilient.Client, url string) drill.Call {
			api := connect(sber, config(url))
			return func(ctx context.Context) error {
				got, err := get(ctx, api)
				if err != nil {
					return err
				}
				defer got.Body.Close()
				b, err := io.ReadAll(got.Body)
				if err == nil && string(b) != "paid" {
					err = errors.New("another receipt")
				}
				return err
			}
		},
	})
}

func TestUpload(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: fake(t)}, resilient.Config{})
	api := connect(b.Client, config(b.URL()))
	for _, body := range []string{"", "short", strings.Repeat("long ", 1<<20)} {
		_, err := api.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("receipts"), Key: aws.String("1"), Body: strings.NewReader(body)}, pathStyle)
		if err != nil {
			t.Fatal(err)
		}
		b.Idle()
		got, err := get(t.Context(), api)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := io.ReadAll(got.Body); err != nil || string(back) != body {
			t.Errorf("%d bytes came back of %d, %v", len(back), len(body), err)
		}
		got.Body.Close()
	}
}

// An object's body is a stream: the permit comes back when it is closed.
func TestTrapBody(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: fake(t)}, resilient.Config{})
	got, err := get(t.Context(), connect(b.Client, config(b.URL())))
	if err != nil {
		t.Fatal(err)
	}
	b.Held(1)
	got.Body.Close()
	b.Idle()
}

// A large object takes longer than a call may: its bounds are lifted by the context.
func TestTrapLargeObject(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: testserver.Trickle(1000, 30*time.Millisecond, 10)}, resilient.Config{})
	api := connect(b.Client, config(b.URL()))
	for total, want := range map[time.Duration]error{100 * time.Millisecond: resilient.ErrTimeout, resilient.Unbounded: nil} {
		n := int64(0)
		got, err := get(resilient.WithBounds(t.Context(), resilient.Bounds{Total: total}), api)
		if err == nil {
			n, err = io.Copy(io.Discard, got.Body)
			got.Body.Close()
		}
		if !errors.Is(err, want) || (n == 10_000) != (want == nil) {
			t.Errorf("%v: %d bytes, %v", total, n, err)
		}
		b.Idle()
	}
}

// The SDK's own retryer asks three times, also of a client that refuses.
func TestTrapRetry(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: testserver.Status(503)}, resilient.Config{})
	attempts := 0
	standard := retry.NewStandard(func(o *retry.StandardOptions) {
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
	})
	api := s3.NewFromConfig(config(b.URL()), pathStyle, func(o *s3.Options) {
		o.HTTPClient, o.Retryer = doer(func(req *http.Request) (*http.Response, error) {
			attempts++
			return b.Client.Do(req)
		}), standard
	})
	if _, err := get(t.Context(), api); err == nil || attempts != 3 {
		t.Errorf("503: %d attempts, %v", attempts, err)
	}
	b.Asked(3)
	attempts = 0
	b.Client.ForceOpen(time.Minute)
	if _, err := get(t.Context(), api); !errors.Is(err, resilient.ErrCircuitOpen) || attempts != 3 {
		t.Errorf("open: %d attempts, %v", attempts, err)
	}
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(req *http.Request) (*http.Response, error) { return d(req) }
