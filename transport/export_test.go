package transport

import (
	"net/http"
	"time"
)

// SetJitter replaces chance. To be called before the first request.
func (r *Retry) SetJitter(f func(most time.Duration) time.Duration) { r.jitter = f }

// Jitter, RetryAfter and Ceiling are the real ones.
var (
	Jitter     = jitter
	RetryAfter = func(h http.Header, now time.Time) time.Duration { return retryAfter(h, now) }
	Ceiling    = func(p RetryPolicy, n int) time.Duration { return p.ceiling(n) }
)
