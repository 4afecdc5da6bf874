// Package tiny has a mutant of each fate.
package tiny

import "strings"

// Max is tested well, but for the case of equal numbers, where it makes no difference.
func Max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

// Shout has an import whose last use a mutant deletes.
func Shout(s string, loud bool) string {
	n := len(s)
	if loud && s != "" {
		n = len(s)
		s = strings.ToUpper(s)
	}
	return s[:n]
}

// Wait hangs when its step is deleted.
func Wait(n int) (steps int) {
	for i := 0; i < n; i++ {
		steps++
	}
	return steps
}

// Kind drops a case without a test for it.
func Kind(v any) string {
	switch v.(type) {
	case int:
		return "int"
	case string:
		return "string"
	}
	return ""
}

// Send is tested by another package.
func Send(ch chan<- int) {
	ch <- 1
}
