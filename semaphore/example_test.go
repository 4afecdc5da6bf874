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

func ExampleDo() {
	sber := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1, MaxWaiting: 10})
	pay := func(context.Context) (string, error) { return "paid", nil }

	receipt, err := semaphore.Do(context.Background(), sber, 100*time.Millisecond, pay)
	fmt.Println(receipt, err)

	sber.TryAcquire() // somebody else is inside, and stays there
	receipt, err = semaphore.Do(context.Background(), sber, 0, pay)
	fmt.Printf("%q %v\n", receipt, err)
	fmt.Println(semaphore.Outcome(err))
	// Output:
	// paid <nil>
	// "" sber: bulkhead full (1 of 1 in use, 0 waiting)
	// refused_full
}

// bank is what a generated client looks like.
type bank struct{}

func (bank) Pay(_ context.Context, roubles int) (string, error) {
	return fmt.Sprintf("paid %d", roubles), nil
}

func ExampleGuard() {
	sber := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 16, MaxWaiting: 160})

	pay := semaphore.Guard(sber, 100*time.Millisecond, bank{}.Pay) // once, where the adapter is made

	fmt.Println(pay(context.Background(), 100))
	fmt.Println(pay(context.Background(), 200))
	// Output:
	// paid 100 <nil>
	// paid 200 <nil>
}

func ExampleRegistry() {
	bulkheads := semaphore.NewRegistry()
	sber, err := bulkheads.GetOrCreate("sber", semaphore.Limits{MaxConcurrent: 16, MaxWaiting: 160})
	if err != nil {
		fmt.Println(err)
		return
	}
	sber.TryAcquire()

	_, err = bulkheads.GetOrCreate("sber", semaphore.Limits{MaxConcurrent: 50})
	fmt.Println(err)
	_, err = bulkheads.Get("sbre")
	fmt.Println(err)
	fmt.Println(bulkheads.Unregister("sber"))
	for _, s := range bulkheads.States() {
		fmt.Println(s.Name, s.Active, "of", s.MaxConcurrent)
	}
	// Output:
	// semaphore: a bulkhead "sber" exists with MaxConcurrent 16 and MaxWaiting 160, not 50 and 0; ask for those, or resize it
	// semaphore: no bulkhead "sbre"; there are: sber
	// semaphore: bulkhead "sber" is in use (1 permits out, 0 waiting); unregister it when they are back, or replace it
	// sber 1 of 16
}

func ExampleRegistry_Own() {
	bulkheads := semaphore.NewRegistry()
	sber := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 16})
	release, err := bulkheads.Own(sber)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer release()

	err = bulkheads.Resize("sber", semaphore.Limits{MaxConcurrent: 1000})
	fmt.Println(errors.Is(err, semaphore.ErrOwned))
	sber.Resize(semaphore.Limits{MaxConcurrent: 8}) // its owner's right
	fmt.Println(bulkheads.States()[0].MaxConcurrent)
	// Output:
	// true
	// 8
}
