package exchange_test

import (
	"testing"
	"testing/synctest"

	. "github.com/resilient-go/resilient/internal/exchange"
)

// The outer of two exchanges is interrupted, and it is no chance what the inner one says of that.
func TestOpenInterruptedFromOutside(t *testing.T) {

	seen := map[By]int{}
	for range 500 {
		bubble(t, "", func(t *testing.T) {
			inner := newRig(t, answer(text("")))
			outer := newRig(t, trip(inner.RoundTrip))
			outer.RoundTrip(request(t.Context()))
			outer.interrupt(Bound)
			synctest.Wait()
			seen[inner.last().how[0].By]++
		})
	}
	if len(seen) != 1 {
		t.Errorf("interrupted by %v", seen)
	}
}
