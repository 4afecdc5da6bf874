package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/resilient-go/resilient/semaphore"
)

func TestOutcome(t *testing.T) {
	full := &semaphore.FullError{System: "sber", Reason: semaphore.ReasonFull}
	waited := &semaphore.FullError{System: "sber", Reason: semaphore.ReasonWaited}
	closed := fmt.Errorf("sber: closed: %w", semaphore.ErrUnavailable)
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, "success"},
		{full, "refused_full"},
		{waited, "refused_full"},
		{semaphore.ErrBulkheadFull, "refused_full"}, // of another kind of bulkhead
		{closed, "refused_closed"},
		{&semaphore.UnregisteredError{Name: "sber"}, "refused_closed"},
		{context.Canceled, "cancelled"},
		{context.DeadlineExceeded, "cancelled"},
		{errDeclined, "error"},
		{errClosed, "error"}, // Close's argument, if it does not say what it is
		{&semaphore.NotFoundError{}, "error"},

		// Mixed ones.
		{fmt.Errorf("pay: %w", full), "refused_full"},
		{fmt.Errorf("pay: %w", context.Canceled), "cancelled"},
		{errors.Join(full, context.Canceled), "cancelled"},
		{errors.Join(closed, context.DeadlineExceeded), "cancelled"},
		{errors.Join(closed, full), "refused_full"},
		{errors.Join(errDeclined, closed), "refused_closed"},
		{errors.Join(errDeclined, waited), "refused_full"},
	} {
		if got := semaphore.Outcome(test.err); got != test.want {
			t.Errorf("%v: %s, want %s", test.err, got, test.want)
		}
	}
}

// The caller's end is that, also if its cause is another system's refusal.
func TestOutcomeOfACause(t *testing.T) {
	s := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1})
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(&semaphore.FullError{System: "alfa"})
	late, cancelLate := context.WithDeadlineCause(t.Context(), time.Now(), semaphore.ErrUnavailable)
	defer cancelLate()
	for _, ctx := range []context.Context{cancelled, late} {
		_, err := s.Acquire(ctx, 0)
		if got := semaphore.Outcome(err); got != "cancelled" || !errors.Is(err, semaphore.ErrUnavailable) {
			t.Errorf("%v: %s", err, got)
		}
	}
}
