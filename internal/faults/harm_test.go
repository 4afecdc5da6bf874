package faults_test

import (
	"time"

	"github.com/resilient-go/resilient/internal/faultproxy"
)

const ms = time.Millisecond

// A phase is the part of an exchange in which the fault is there.
type phase string

const (
	dial    phase = "dial"
	connect phase = "CONNECT"
	shake   phase = "TLS"
	upload  phase = "upload"
	headers phase = "headers"
	body    phase = "body"
	upgrade phase = "upgrade"
)

var phases = []phase{dial, connect, shake, upload, headers, body, upgrade}

// A harm is one kind of fault.
type harm struct {
	name string
	// fault is what befalls the bytes in a phase; both directions of those that end in silence.
	fault func(phase) faultproxy.Fault
	// dial does harm to those who connect; nil if there is none to do.
	dial func(*faultproxy.Proxy) error
	// The caller leaves after that, or has that deadline.
	leaves, deadline time.Duration
}

// after is how many bytes of a phase pass before a cut, so that it is in the middle of something.
var after = map[phase]int{connect: 10, shake: 100, upload: 64 << 10, headers: 20, body: 50, upgrade: 2}

// resetAfter is at once, but where that could be so soon that it is the dial which fails.
var resetAfter = map[phase]int{connect: 10, shake: 100}

// slow is a bandwidth, in bytes a second, at which a phase takes longer than its bound.
var slow = map[phase]int{connect: 40, shake: 500, upload: 2 << 20, headers: 50, body: 100, upgrade: 15}

func same(f faultproxy.Fault) func(phase) faultproxy.Fault {
	return func(phase) faultproxy.Fault { return f }
}

var blackHole = same(faultproxy.Fault{End: faultproxy.Silence})

var harms = []harm{
	{name: "latency 100ms", fault: same(faultproxy.Fault{Latency: 100 * ms})},
	{name: "latency 1.5s", fault: same(faultproxy.Fault{Latency: 1500 * ms})},
	{name: "jitter 100ms", fault: same(faultproxy.Fault{Jitter: 100 * ms})},
	{name: "bandwidth 1 MB/s", fault: same(faultproxy.Fault{Bandwidth: 1_000_000})},
	{name: "bandwidth too low", fault: func(p phase) faultproxy.Fault { return faultproxy.Fault{Bandwidth: slow[p]} }},
	{name: "byte by byte", fault: same(faultproxy.Fault{Slice: 1})},
	{name: "half-close", fault: same(faultproxy.Fault{End: faultproxy.HalfClose})},
	{name: "cut", fault: func(p phase) faultproxy.Fault { return faultproxy.Fault{After: after[p], End: faultproxy.Cut} }},
	{name: "reset", fault: func(p phase) faultproxy.Fault { return faultproxy.Fault{After: resetAfter[p], End: faultproxy.Reset} }},
	{name: "refused", dial: (*faultproxy.Proxy).Refuse},
	{name: "black hole", fault: blackHole, dial: (*faultproxy.Proxy).Ignore},
	{name: "black hole, caller leaves", fault: blackHole, dial: (*faultproxy.Proxy).Ignore, leaves: 200 * ms},
	{name: "black hole, caller leaves late", fault: blackHole, dial: (*faultproxy.Proxy).Ignore, leaves: 800 * ms},
	{name: "black hole, caller's deadline", fault: blackHole, dial: (*faultproxy.Proxy).Ignore, deadline: 300 * ms},
}

// in reports whether there is such a fault in a phase.
func (h harm) in(p phase) bool {
	if p == dial {
		return h.dial != nil
	}
	return h.fault != nil
}

// strike does the harm. A black hole and a reset know no direction; any other fault is in that of what the phase waits for.
func (h harm) strike(proxy *faultproxy.Proxy, p phase) error {
	if p == dial {
		return h.dial(proxy)
	}
	f := h.fault(p)
	if p == upload || f.End == faultproxy.Silence {
		proxy.Set(faultproxy.ToServer, f)
	}
	if p != upload || f.End == faultproxy.Silence {
		proxy.Set(faultproxy.ToClient, f)
	}
	return nil
}

// size is the length of an uploaded body: more than all buffers hold, where it has to get stuck.
func (h harm) size() int {
	switch f := h.fault(upload); {
	case f.Slice == 1:
		return 16 << 10
	case f.End == faultproxy.Never && f.Latency < bounds.ReadTimeout && f.Bandwidth != slow[upload]:
		return 256 << 10
	}
	return 16 << 20
}
