package semaphore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resilient-go/resilient/semaphore"
)

func TestFullError(t *testing.T) {
	full := &semaphore.FullError{System: "sber", Max: 16, Active: 17, Waiting: 3, Reason: semaphore.ReasonFull}
	waited := &semaphore.FullError{System: "sber", Max: 16, Active: 16, Waited: 100 * ms, Reason: semaphore.ReasonWaited}
	for _, test := range []struct {
		err  *semaphore.FullError
		text string
		log  string
	}{
		{
			full, "sber: bulkhead full (17 of 16 in use, 3 waiting)",
			`err.system=sber err.reason=full err.max=16 err.active=17 err.waiting=3 err.waited=0s`,
		},
		{
			waited, "sber: bulkhead full after 100ms (16 of 16 in use, 0 waiting)",
			`err.system=sber err.reason=waited err.max=16 err.active=16 err.waiting=0 err.waited=100ms`,
		},
	} {
		if got := test.err.Error(); got != test.text {
			t.Errorf("got  %q\nwant %q", got, test.text)
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Error("payment", "err", test.err)
		_, got, _ := bytes.Cut(bytes.TrimSpace(log.Bytes()), []byte("msg=payment "))
		if diff := cmp.Diff(`err.msg="`+test.text+`" `+test.log, string(got)); diff != "" {
			t.Errorf("log: %s", diff)
		}

		err := &url.Error{Op: "Get", URL: "http://sber", Err: test.err} // as http.Client wraps it
		for _, target := range []error{semaphore.ErrUnavailable, semaphore.ErrBulkheadFull} {
			if !errors.Is(err, target) {
				t.Errorf("not %v", target)
			}
		}
		for _, target := range []error{context.DeadlineExceeded, context.Canceled, errClosed} {
			if errors.Is(err, target) {
				t.Errorf("is %v", target)
			}
		}
		if err.Timeout() {
			t.Error("is a timeout")
		}
		if e, ok := errors.AsType[net.Error](error(test.err)); ok {
			t.Errorf("is a net.Error: %v", e)
		}
		if e, ok := errors.AsType[*semaphore.FullError](err); !ok || e.System != "sber" {
			t.Error("not found as a *FullError")
		}
	}
}
