package config

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

const (
	statusRule    = "must be statuses and ranges from 100 to 999 with commas between (429,500-599)"
	statusPattern = ` *([1-9][0-9][0-9])(?:-([1-9][0-9][0-9]))? *`
)

var statusItem = regexp.MustCompile("^" + statusPattern + "$")

// Statuses is a set of HTTP response statuses. It is a value: it can be copied and
// compared with ==. The zero Statuses is empty.
type Statuses struct {
	bits [1000/64 + 1]uint64
}

// ParseStatuses reads a list such as "429,500-599": statuses and ranges from 100
// to 999, both ends included, with commas between them. Spaces around an item and
// items that overlap are allowed; an empty list and an empty item are a
// [*FieldError].
func ParseStatuses(list string) (Statuses, error) {
	var s Statuses
	for item := range strings.SplitSeq(list, ",") {
		m := statusItem.FindStringSubmatch(item)
		if m == nil || m[2] != "" && m[1] > m[2] {
			return Statuses{}, &FieldError{"Breaker.FailureStatus", "list of statuses", quoteIf(numeric(list), list), statusRule, remedyValue}
		}
		low, _ := strconv.Atoi(m[1]) // three digits, says the pattern
		high, _ := strconv.Atoi(cmp.Or(m[2], m[1]))
		for code := low; code <= high; code++ {
			s.bits[code/64] |= 1 << (code % 64)
		}
	}
	return s, nil
}

// Contains reports whether code is in s. Any int is allowed.
func (s Statuses) Contains(code int) bool {
	return code >= 0 && code < 1000 && s.bits[code/64]>>(code%64)&1 == 1
}

func isStatuses(list string) bool {
	_, err := ParseStatuses(list)
	return err == nil
}
