package semaphore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/resilient-go/resilient/semaphore"
)

// A printer on a socket prints one receipt at a time, and ten may wait for it.
func ExampleNew() {
	printer := semaphore.New("printer", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 10})
	if printer.TryAcquire() {
		defer printer.Release()
		fmt.Println(printer.Name(), "is ours")
	}
	fmt.Println(printer.TryAcquire())
	// Output:
	// printer is ours
	// false
}

func ExampleNewRegistry() {
	bulkheads := semaphore.NewRegistry()
	fmt.Println(bulkheads.Register(semaphore.New("printer", semaphore.Limits{MaxConcurrent: 1})))
	fmt.Println(bulkheads.Register(semaphore.New("printer", semaphore.Limits{MaxConcurrent: 2})))
	fmt.Println(bulkheads.Names())
	// Output:
	// <nil>
	// semaphore: a bulkhead "printer" exists; get that one, or replace it
	// [printer]
}

// One word for a counter.
func ExampleOutcome() {
	fmt.Println(semaphore.Outcome(nil))
	fmt.Println(semaphore.Outcome(&semaphore.FullError{System: "sber"}))
	fmt.Println(semaphore.Outcome(context.Canceled))
	fmt.Println(semaphore.Outcome(errors.New("no paper")))
	// Output:
	// success
	// refused_full
	// cancelled
	// error
}

func ExampleState() {
	sber := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 16})
	for range 12 {
		sber.TryAcquire()
	}
	s := sber.State()
	fmt.Println(s.Active, "in use,", s.Available(), "free:", s.Utilization())
	// Output: 12 in use, 4 free: 0.75
}
