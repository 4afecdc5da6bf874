package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/resilient-go/resilient"
)

// What to do about a payment that failed.
func Example_errors() {
	whatNow := func(err error) string {
		switch {
		case errors.Is(err, resilient.ErrUnavailable): // not called: no room, known to fail, or closed
			return "try another bank, or later"
		case errors.Is(err, resilient.ErrTimeout): // it took too long; the payment may have gone through
			return "ask what became of it"
		case errors.Is(err, context.Canceled): // whoever asked has gone
			return "nobody to tell"
		case err != nil: // the transport's own
			return "ask what became of it"
		}
		return "paid"
	}
	for _, err := range []error{
		&resilient.FullError{System: "sber"}, &resilient.TimeoutError{System: "sber"}, context.Canceled, io.ErrUnexpectedEOF, nil,
	} {
		fmt.Println(whatNow(err))
	}
	// Output:
	// try another bank, or later
	// ask what became of it
	// nobody to tell
	// ask what became of it
	// paid
}
