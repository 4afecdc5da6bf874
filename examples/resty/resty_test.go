package resty

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-resty/resty/v2"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/examples/internal/drill"
	"github.com/resilient-go/resilient/internal/testserver"
)

type payment struct{ ID, Status string }

func TestDropIn(t *testing.T) {
	drill.Run(t, drill.Drill{
		Server: testserver.Options{Handler: drill.Payment},
		Connect: func(_ *testing.T, sber *resilient.Client, url string) drill.Call {
			api := connect(sber, url)
			return func(ctx context.Context) error {
				var p payment
				resp, err := api.R().SetContext(ctx).SetResult(&p).Get("/payments/1")
				if err == nil && resp.IsSuccess() && p.Status != "settled" {
					err = errors.New("another payment")
				}
				return err
			}
		},
	})
}

// SetTimeout is http.Client.Timeout, a deadline of the caller's: what it ends does not count for the breaker. It is set
// in the http.Client that resty was given, which is why HTTPClient returns another each time.
func TestTrapTimeout(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: testserver.HangBeforeHeaders()}, drill.Touchy)
	_, err := connect(b.Client, b.URL()).SetTimeout(50 * time.Millisecond).R().Get("/")
	b.CallersDeadline(err)
	if d := b.Client.HTTPClient().Timeout; d != 0 {
		t.Errorf("others have it too: %v", d)
	}
}

// The setters for TLS and proxies want an *http.Transport. They find none, and all that happens is a line in the log.
func TestTrapTransport(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: drill.Payment}, resilient.Config{})
	var log logger
	api := connect(b.Client, b.URL()).SetLogger(&log).SetProxy("http://127.0.0.1:1")
	if log.errors.Len() == 0 {
		t.Error("nothing was logged")
	}
	if _, err := api.R().Get("/"); err != nil {
		t.Errorf("through the proxy, after all: %v", err)
	}
}

// Its retries repeat refusals too, without a condition that says otherwise.
func TestTrapRetry(t *testing.T) {
	b := drill.Open(t, testserver.Options{}, resilient.Config{})
	attempts := 0
	api := connect(b.Client, b.URL()).SetLogger(new(logger)).SetRetryCount(2).SetRetryWaitTime(1).SetRetryMaxWaitTime(2)
	api.OnBeforeRequest(func(_ *resty.Client, _ *resty.Request) error { attempts++; return nil })
	b.Client.ForceOpen(time.Minute)
	if _, err := api.R().Get("/"); !errors.Is(err, resilient.ErrCircuitOpen) || attempts != 3 {
		t.Errorf("%d attempts, %v", attempts, err)
	}
}

// A body that is not parsed is the caller's to close, and with it goes the permit.
func TestTrapRawBody(t *testing.T) {
	b := drill.Open(t, testserver.Options{Handler: drill.Payment}, resilient.Config{})
	resp, err := connect(b.Client, b.URL()).R().SetDoNotParseResponse(true).Get("/")
	if err != nil {
		t.Fatal(err)
	}
	b.Held(1)
	resp.RawBody().Close()
	b.Idle()
}

type logger struct{ errors bytes.Buffer }

func (l *logger) Errorf(format string, v ...any) { fmt.Fprintf(&l.errors, format, v...) }
func (l *logger) Warnf(string, ...any)           {}
func (l *logger) Debugf(string, ...any)          {}
