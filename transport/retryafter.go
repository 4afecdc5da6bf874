package transport

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// longest is a time for good, and small enough to be reckoned with.
const longest = 365 * 24 * time.Hour

// retryAfter returns for how long an answer with headers h asks to be left alone:
// not below 0, at most longest, and 0 if it does not, or not in a form that RFC
// 9110, section 10.2.3, knows. A time of day is seen from the answer's own Date, if
// it has one: the system's clock need not be ours.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	seconds, err := strconv.ParseUint(text, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(longest/time.Second))) * time.Second
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(0, until.Sub(now)), longest)
}

// A gate is shut while the system has asked to be left alone.
type gate struct {
	epoch time.Time
	until atomic.Int64 // in ns since epoch; 0 if it never was
}

// left returns for how long it is shut.
func (g *gate) left() time.Duration {
	until := g.until.Load()
	if until == 0 {
		return 0
	}
	return max(0, time.Duration(until)-time.Since(g.epoch))
}

// shut shuts it for d from now, if that is longer than it is shut anyway.
func (g *gate) shut(d time.Duration) {
	until := int64(time.Since(g.epoch) + d)
	for {
		old := g.until.Load()
		if until <= old || g.until.CompareAndSwap(old, until) {
			return
		}
	}
}

// heed shuts the gate if the policy has one and resp asks for it. Its end is
// random, so that not all processes come back at once.
func (c *call) heed(resp *http.Response) {
	if !c.Gate || resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return
	}
	if asked := min(retryAfter(resp.Header, time.Now()), c.MaxRetryAfter); asked > 0 {
		c.gate.shut(asked + c.jitter(asked/10))
	}
}
