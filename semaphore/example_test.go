package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/resilient-go/resilient/semaphore"
)

func Example() {
	sber := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 16, MaxWaiting: 160})

	pay := func(ctx context.Context) error {
		permit, err := sber.Acquire(ctx, 100*time.Millisecond)
		if err != nil {
			return err
		}
		defer permit.Release()
		fmt.Println("paying,", sber.State().Active, "of", sber.State().MaxConcurrent, "permits in use")
		return nil
	}

	fmt.Println(pay(context.Background()))
	// Output:
	// paying, 1 of 16 permits in use
	// <nil>
}

func ExampleFullError() {
	sber := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1})
	sber.TryAcquire() // and nobody may wait for it to come back

	_, err := sber.Acquire(context.Background(), 100*time.Millisecond)
	fmt.Println(err)
	fmt.Println("try another bank:", errors.Is(err, semaphore.ErrUnavailable))
	if full, ok := errors.AsType[*semaphore.FullError](err); ok {
		fmt.Println("system:", full.System, "reason:", full.Reason)
	}
	// Output:
	// sber: bulkhead full (1 of 1 in use, 0 waiting)
	// try another bank: true
	// system: sber reason: full
}

func ExampleSemaphore_Resize() {
	sber := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 2})
	sber.TryAcquire()
	sber.TryAcquire()

	sber.Resize(semaphore.Limits{MaxConcurrent: 1}) // those inside go on
	fmt.Println(sber.State().Active, "of", sber.State().MaxConcurrent)
	sber.Release()
	fmt.Println("room:", sber.TryAcquire())
	sber.Release()
	fmt.Println("room:", sber.TryAcquire())
	// Output:
	// 2 of 1
	// room: false
	// room: true
}
