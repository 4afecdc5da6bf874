package config

import (
	"regexp"
	"time"
)

// Retry is the settings of the repetition of requests that failed. What is repeated
// is said in package transport; it is off unless MaxAttempts is above 1. Gate and
// the two Deadline fields have their effect also where it is off.
type Retry struct {
	// MaxAttempts is how often a request is made, the first time included. From 1 to
	// 5; 0 means 1: none is repeated. Each attempt after the third succeeds so seldom
	// that it is hardly worth its load.
	MaxAttempts int `yaml:"max_attempts"`

	// PutDelete has PUT and DELETE repeated as GET is: for a system which treats them
	// as RFC 9110 demands, so that a second one changes nothing.
	PutDelete bool `yaml:"put_delete"`

	// Status lists the response statuses that are repeated, codes and ranges of 408,
	// 425, 429 and 500 to 599 with commas between them ("429,502-504"); "" means
	// "502-504". [ParseStatuses] reads it.
	Status string `yaml:"status"`

	// BaseDelay is the longest pause before the second attempt, of which a random part
	// is waited. It doubles with each further attempt. Above 0, at most MaxDelay; 0
	// means 100ms.
	BaseDelay time.Duration `yaml:"base_delay"`

	// MaxDelay is how far the longest pause doubles. At least BaseDelay, at most 5s; 0
	// means 1s, or BaseDelay where that is more.
	MaxDelay time.Duration `yaml:"max_delay"`

	// MaxElapsed is how long after the first attempt began the last may begin. Above 0,
	// at most 5s, as the rule book demands; 0 means 5s.
	MaxElapsed time.Duration `yaml:"max_elapsed"`

	// MaxRetryAfter is the longest Retry-After that is heeded: one that asks for more
	// is not repeated, and pauses the Gate for that long. Above 0, at most 5m; 0 means
	// 30s.
	MaxRetryAfter time.Duration `yaml:"max_retry_after"`

	// BudgetRatio bounds the attempts after the first to a share of the calls within
	// 10 s, from above 0 to 1; 0 means 0.1.
	BudgetRatio float64 `yaml:"budget_ratio"`

	// BudgetFloor is how many there may be beyond that within 10 s, for clients that
	// are seldom called. From 1 to 100; 0 means 3.
	BudgetFloor int `yaml:"budget_floor"`

	// Gate has a 429 or 503 with a Retry-After pause the whole client for that long:
	// calls are refused meanwhile.
	Gate bool `yaml:"gate"`

	// DeadlineHeader is the header in which the system is told how many milliseconds
	// are left of the caller's deadline: words of letters and digits with "-" between
	// them, two at least, so that no "true" passes for a name ("X-Deadline-Ms"); at
	// most 64 characters. "" means that it is not told.
	DeadlineHeader string `yaml:"deadline_header"`

	// DeadlineFloor is how much has to be left of the caller's deadline for a call to
	// be made. At most 10s; 0 means off.
	DeadlineFloor time.Duration `yaml:"deadline_floor"`
}

func (r *Retry) fill() {
	or(&r.MaxAttempts, 1)
	or(&r.Status, "502-504")
	or(&r.BaseDelay, 100*time.Millisecond)
	or(&r.MaxDelay, max(time.Second, r.BaseDelay))
	or(&r.MaxElapsed, 5*time.Second)
	or(&r.MaxRetryAfter, 30*time.Second)
	or(&r.BudgetRatio, 0.1)
	or(&r.BudgetFloor, 3)
}

const (
	repeatedRule  = "must be statuses and ranges of 408, 425, 429 and 500-599 with commas between (429,502-504)"
	headerRule    = "must be the name of a header, of words with - between and at most 64 characters (X-Deadline-Ms)"
	headerPattern = `[A-Za-z][A-Za-z0-9]*(-[A-Za-z0-9]+)+`
)

var headerName = regexp.MustCompile("^" + headerPattern + "$")

func isHeader(name string) bool { return len(name) <= 64 && headerName.MatchString(name) }

func isRepeated(list string) bool {
	s, err := ParseStatuses(list)
	for code := range 1000 {
		if s.Contains(code) && code != 408 && code != 425 && code != 429 && code/100 != 5 {
			return false
		}
	}
	return err == nil
}
