// Package semaphore is a bulkhead: it bounds how many calls may be inside an external system at once, and how long and
// how many others may wait for their turn, so that one slow system cannot use up a whole service.
//
//	sber := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 16, MaxWaiting: 160})
//
//	permit, err := sber.Acquire(ctx, 100*time.Millisecond)
//	if err != nil {
//		return err // *FullError: the system has no room; otherwise the caller's own end
//	}
//	defer permit.Release()
//
// [Do] does the same around a func, and [Guard] makes of a func one that does so each time it is called:
//
//	pay := semaphore.Guard(sber, 100*time.Millisecond, api.Pay) // has api.Pay's type
//
// [Outcome] names what came of a call, for a counter. A [Registry] holds the bulkheads of a process by name.
//
// # Order
//
// A free permit is taken at once. Otherwise callers wait, strictly first come, first served: a permit that comes free
// goes to the one who has waited longest, and nobody who arrives later, TryAcquire included, can take it on the way.
//
// # Who ends a wait
//
// The first of a permit, the end of the wait and the end of the caller's context. When they coincide, a permit beats the end of
// the wait, and the caller's end beats everything: a done context takes nothing, and a permit on its way to it is passed on.
// The caller's end is never reported or counted as a rejection.
//
// # Cost
//
// Nothing runs in the background. Taking and giving back a free permit allocates nothing, by Do and Guard included; nor, once
// the queue has been in use, does handing one over. A refusal allocates its error.
package semaphore
