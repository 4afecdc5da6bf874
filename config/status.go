package config

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	minStatus = 100
	maxStatus = 999

	statusRule   = "must be statuses and ranges from 100 to 999, the lower end first, with commas between"
	statusRemedy = `write it like "500-599" or "429,500-599"`
)

// Statuses is a set of HTTP response statuses. It is a value: it can be copied and
// compared with ==. The zero Statuses is empty.
type Statuses struct {
	bits [(maxStatus-minStatus)/64 + 1]uint64
}

// ParseStatuses reads a list such as "429,500-599": statuses and ranges from 100
// to 999, both ends included, with commas between them. Spaces around an item and
// items that overlap are allowed; an empty list and an empty item are a
// [*FieldError].
func ParseStatuses(list string) (Statuses, error) {
	var s Statuses
	for item := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if !isRange {
			to = from
		}
		low, lowOK := status(from)
		high, highOK := status(to)
		if !lowOK || !highOK || low > high {
			return Statuses{}, &FieldError{
				Field: "Breaker.FailureStatus", Place: "list of statuses",
				Value: quote(list), Rule: statusRule, Remedy: statusRemedy,
			}
		}
		for code := low; code <= high; code++ {
			s.bits[(code-minStatus)/64] |= 1 << ((code - minStatus) % 64)
		}
	}
	return s, nil
}

// status accepts three digits: no sign, no space.
func status(text string) (code int, ok bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	code = int(n)
	return code, err == nil && len(text) == 3 && code >= minStatus
}

// Contains reports whether code is in s. Any int is allowed.
func (s Statuses) Contains(code int) bool {
	if code < minStatus || code > maxStatus {
		return false
	}
	return s.bits[(code-minStatus)/64]>>((code-minStatus)%64)&1 == 1
}

// String returns s as [ParseStatuses] reads it, sorted, in as few items as
// possible; "" if s is empty.
func (s Statuses) String() string {
	var items []string
	for low := minStatus; low <= maxStatus; low++ {
		if !s.Contains(low) {
			continue
		}
		high := low
		for s.Contains(high + 1) {
			high++
		}
		if low == high {
			items = append(items, strconv.Itoa(low))
		} else {
			items = append(items, fmt.Sprintf("%d-%d", low, high))
		}
		low = high
	}
	return strings.Join(items, ",")
}
