package main

import (
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"
)

// An outcome is what became of a request to the service.
type outcome int

const (
	answered   outcome = iota
	refused            // by the client, without asking the partner
	failed             // asked, but no answer: a timeout, as a rule
	turnedAway         // by the service: no slot in time
	outcomes   = 4
)

// A call is a request to the service that is over.
type call struct {
	system  system
	phase   int // in which it arrived
	open    bool
	outcome outcome
	took    time.Duration // from the arrival at the service, the wait for a slot included
	asked   time.Duration // of it, what the client took
	ended   time.Duration // since the script began
}

// A record is the calls of one run.
type record struct {
	mu    sync.Mutex
	began time.Time
	calls []call
	late  time.Duration // of a tick, at most: how busy the machine is with other things
}

func (r *record) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began, r.calls, r.late = time.Now(), nil, 0
}

func (r *record) add(c call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.ended = time.Since(r.began)
	r.calls = append(r.calls, c)
}

func (r *record) tick(late time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = max(r.late, late)
}

func (r *record) latest() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.late
}

// count returns how many calls are as match wants them.
func (r *record) count(match func(call) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if match(c) {
			n++
		}
	}
	return n
}

// times returns how long the calls took that are as match wants them.
func (r *record) times(of func(call) time.Duration, match func(call) bool) times {
	r.mu.Lock()
	defer r.mu.Unlock()
	var t times
	for _, c := range r.calls {
		if match(c) {
			t = append(t, of(c))
		}
	}
	slices.Sort(t)
	return t
}

func took(c call) time.Duration  { return c.took }
func asked(c call) time.Duration { return c.asked }

// lately is what became of a system's calls within the last second.
type lately struct {
	outcomes [outcomes]int
	p99      time.Duration
}

func (r *record) lately(of system) (l lately) {
	since := time.Since(r.began) - time.Second
	in := func(c call) bool { return c.system == of && c.ended > since }
	for o := range l.outcomes {
		l.outcomes[o] = r.count(func(c call) bool { return in(c) && c.outcome == outcome(o) })
	}
	l.p99 = r.times(took, in).quantile(0.99)
	return l
}

// times are durations in ascending order.
type times []time.Duration

// quantile returns the least duration that a share q of them does not exceed; 0 if there are none.
func (t times) quantile(q float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[max(0, int(math.Ceil(q*float64(len(t))))-1)]
}

// A gauge knows how many there are, and how many there were at most.
type gauge struct {
	mu        sync.Mutex
	now, most int
}

func (g *gauge) add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.most = max(g.most, g.now)
}

func (g *gauge) current() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now
}

func (g *gauge) peak() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most
}

// counting counts exchanges at a transport, by host: each from its request to
// the end of its response's body.
type counting struct {
	base   *http.Transport
	gauges map[string]*gauge
}

func newCounting(base *http.Transport, p *partners) *counting {
	c := &counting{base: base, gauges: map[string]*gauge{}}
	for i, g := range p.gauges {
		c.gauges[p.host(system(i))] = g
	}
	return c
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	g := c.gauges[r.URL.Host]
	g.add(1)
	resp, err := c.base.RoundTrip(r)
	if err != nil || resp.Body == http.NoBody {
		g.add(-1)
		return resp, err
	}
	resp.Body = &countedBody{ReadCloser: resp.Body, end: sync.OnceFunc(func() { g.add(-1) })}
	return resp, nil
}

// CloseIdleConnections makes it known to clients that the base can do that.
func (c *counting) CloseIdleConnections() { c.base.CloseIdleConnections() }

type countedBody struct {
	io.ReadCloser
	end func()
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *countedBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
