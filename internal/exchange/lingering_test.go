package exchange_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	. "github.com/resilient-go/resilient/internal/exchange"
)

// An upload that goes on after a complete answer is the caller's to cancel still.
func TestCallerEndsAnUploadThatGoesOn(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var sent context.Context
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			sent = req.Context()
			return reply(req, http.StatusNoContent, nil), nil
		}))
		if _, err := r.RoundTrip(request(ctx, text("abc"))); err != nil {
			t.Fatal(err)
		}
		r.ended(Outcome{})
		if sent.Err() != nil {
			t.Fatal("the upload was broken off")
		}
		cancel()
		synctest.Wait()
		if sent.Err() != context.Canceled {
			t.Error("the caller's end did not reach it")
		}
	})
}
