package exchange_test

import (
	"net/http"
	"testing"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
)

// The context that a Read heeds may be the outer one's, and the inner Close wait for that Read: the context has to end
// before anybody closes.
func TestOpenOuterContextEndsBeforeInnerClose(t *testing.T) {

	bubble(t, "", func(t *testing.T) {
		lock := make(chan struct{}, 1) // held by Read and taken by Close, as some bodies do
		inner := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			b := newFake(func([]byte) (int, error) {
				lock <- struct{}{}
				defer func() { <-lock }()
				select {
				case <-req.Context().Done():
					return 0, req.Context().Err()
				case <-time.After(time.Hour):
					t.Error("nothing ended the Read")
					return 0, errBoom
				}
			})
			b.close = func() error { lock <- struct{}{}; <-lock; return nil }
			return reply(req, http.StatusOK, b), nil
		}), "permit")
		outer := newRig(t, trip(inner.RoundTrip))
		outer.total = time.Second
		resp, _ := outer.RoundTrip(request(t.Context()))
		if _, err := resp.Body.Read(nil); err != errBound {
			t.Error(err)
		}
		outer.ended(Outcome{Fault: errBound, By: Bound})
		inner.settled()
	})
}
