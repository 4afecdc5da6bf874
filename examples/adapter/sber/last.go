package sber

import (
	"sync"

	"github.com/resilient-go/resilient/examples/adapter/payment"
)

// maxKnown bounds lastKnown: what is forgotten is asked of the bank again.
const maxKnown = 10_000

// lastKnown is what the bank said last of each payment, for when it says nothing.
type lastKnown struct {
	mu       sync.Mutex
	statuses map[string]payment.Status
}

func (l *lastKnown) set(id string, s payment.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.statuses == nil {
		l.statuses = map[string]payment.Status{}
	}
	for other := range l.statuses {
		if len(l.statuses) < maxKnown {
			break
		}
		delete(l.statuses, other)
	}
	l.statuses[id] = s
}

// get returns what is known, marked as old; if nothing is, err, which says why the bank was not asked.
func (l *lastKnown) get(id string, err error) (payment.Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.statuses[id]
	if !ok {
		return payment.Status{}, err
	}
	s.Stale = true
	return s, nil
}
