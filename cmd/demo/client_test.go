package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/cmd/demo/api"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A generated client works over ours unchanged, and every error of ours comes
// through it as it is. (make generate-check sees to it that the code is the generator's.)
func TestGeneratedClient(t *testing.T) {
	for _, protocol := range []testserver.Protocol{testserver.HTTP1, testserver.HTTP2} {
		t.Run(protocol.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { generatedClient(t, protocol) })
		})
	}
}

func generatedClient(t *testing.T, protocol testserver.Protocol) {
	server, err := testserver.Start(testserver.Options{Memory: true, Protocol: protocol})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	cfg, opts := resilient.Config{}, []resilient.Option{resilient.WithDialContext(server.Dial)}
	if protocol == testserver.HTTP2 {
		cfg.Protocol, opts = resilient.HTTP2, append(opts, resilient.WithTLSConfig(server.TLS()))
	}
	sber, err := resilient.NewRegistry().NewClient("sber", cfg, opts...)
	if err != nil {
		t.Fatal(err)
	}
	client, err := api.NewClientWithResponses(server.URL(), api.WithHTTPClient(sber))
	if err != nil {
		t.Fatal(err)
	}
	get := func(ctx context.Context) error {
		_, err := client.GetPaymentWithResponse(ctx, "1")
		return err
	}
	expect := func(what string, err, want error, status int) {
		t.Helper()
		if code, _, _ := resilient.StatusCode(err); !errors.Is(err, want) || code != status {
			t.Errorf("%s: %v, status %d", what, err, code)
		}
	}

	server.Next(testserver.Status(404))
	if resp, err := client.GetPaymentWithResponse(t.Context(), "1"); err != nil || resp.StatusCode() != 404 {
		t.Errorf("%v, %v", resp, err)
	}
	server.Default(testserver.HangBeforeHeaders())
	for range 16 {
		go get(t.Context())
	}
	synctest.Wait()
	expect("full", get(t.Context()), resilient.ErrBulkheadFull, 503)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	expect("the caller's deadline", get(ctx), context.DeadlineExceeded, 504)
	time.Sleep(6 * time.Second)
	expect("open", get(t.Context()), resilient.ErrCircuitOpen, 503)
	time.Sleep(30 * time.Second)
	expect("timeout", get(t.Context()), resilient.ErrTimeout, 504)
	sber.Close()
	expect("closed", get(t.Context()), resilient.ErrClosed, 503)
}
