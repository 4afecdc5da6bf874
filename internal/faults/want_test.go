package faults_test

import "github.com/resilient-go/resilient/internal/testserver"

// A row is what a harm does in a phase, over some protocols.
type row struct {
	phase     phase
	harms     []string
	protocols []testserver.Protocol
	seen
}

const (
	http1 = testserver.HTTP1
	https = testserver.HTTPS
	http2 = testserver.HTTP2

	fresh = "success, new connection"
	kept  = "success, same connection"
	// Over HTTP/2 a request that is given up leaves its connection, which net/http's ping has to find dead.
	dead = "ErrTimeout read, same connection"
)

// What there is to see.
var (
	fine     = seen{"success", "none", false, "success", "–", kept, "none"}
	broken   = seen{"transport_error", "the transport's", false, "failure", "the fault", fresh, "none"}
	refused  = seen{"transport_error", "the transport's", true, "failure", "the fault", fresh, "none"}
	noDial   = seen{"timeout", "ErrTimeout connect", true, "failure", "connect 500ms", fresh, "none"}
	noTLS    = seen{"timeout", "ErrTimeout tls", true, "failure", "tls 500ms", fresh, "none"}
	silent   = seen{"timeout", "ErrTimeout read", false, "failure", "read 1s", fresh, "none"}
	tooLong  = seen{"timeout", "ErrTimeout total", false, "failure", "total 3s", fresh, "none"}
	left     = seen{"cancelled", "context.Canceled", false, "neutral", "the caller", fresh, "none"}
	leftLate = seen{"cancelled", "context.Canceled", false, "failure", "the caller", fresh, "none"}
	deadline = seen{"cancelled", "ErrTimeout deadline", false, "neutral", "the caller's deadline of 300ms, less a tenth", fresh, "none"}

	echoed     = seen{"upgraded", "none", false, "success", "–", fresh, "none"}
	halfClosed = seen{"upgraded", "io.EOF", false, "success", "the fault", fresh, "none"}
	brokenOff  = seen{"upgraded", "the transport's", false, "success", "the fault", fresh, "none"}
	forEver    = seen{"upgraded", "none, it waits", false, "success", "Close", fresh, "none"}
)

func (s seen) then(next string) seen { s.next = next; return s }

// queues is s where the dial outlives its request, and keeps the place of the next one's.
func (s seen) queues() seen { s.queue = "≤ connect"; return s }

var (
	all    = []testserver.Protocol{http1, https, http2}
	overH1 = []testserver.Protocol{http1, https}
	overH2 = []testserver.Protocol{http2}
	overS  = []testserver.Protocol{https, http2}

	harmless  = []string{"latency 100ms", "jitter 100ms", "bandwidth 1 MB/s", "byte by byte"}
	breaks    = []string{"half-close", "cut", "reset"}
	tooSlow   = []string{"latency 1.5s", "bandwidth too low"}
	hole      = "black hole"
	leaves    = "black hole, caller leaves"
	lingers   = "black hole, caller leaves late"
	impatient = "black hole, caller's deadline"
)

func one(name string) []string { return []string{name} }

var want = []row{
	{dial, one("refused"), all, refused},
	{dial, []string{hole, lingers}, all, noDial},
	{dial, one(leaves), all, left.queues()},
	{dial, one(impatient), all, deadline.queues()},

	{connect, harmless, overS, fine},
	{connect, tooSlow, overS, noDial},
	{connect, breaks, overS, broken},
	{connect, []string{hole, lingers}, overS, noDial},
	{connect, one(leaves), overS, left.queues()},
	{connect, one(impatient), overS, deadline.queues()},

	{shake, harmless, overS, fine},
	{shake, tooSlow, overS, noTLS},
	{shake, breaks, overS, broken},
	{shake, []string{hole, lingers}, overS, noTLS},
	{shake, one(leaves), overS, left.queues()},
	{shake, one(impatient), overS, deadline.queues()},

	{upload, harmless, all, fine},
	{upload, one("latency 1.5s"), overH1, silent},
	{upload, one("latency 1.5s"), overH2, silent.then(dead)},
	{upload, one("bandwidth too low"), overH1, tooLong},
	{upload, one("bandwidth too low"), overH2, tooLong.then(kept)},
	{upload, breaks, all, broken},
	{upload, one(hole), overH1, silent},
	{upload, one(hole), overH2, silent.then(dead)},
	{upload, one(leaves), overH1, left},
	{upload, one(leaves), overH2, left.then(dead)},
	{upload, one(lingers), overH1, leftLate},
	{upload, one(lingers), overH2, leftLate.then(dead)},
	{upload, one(impatient), overH1, deadline},
	{upload, one(impatient), overH2, deadline.then(dead)},

	{headers, harmless, all, fine},
	{headers, tooSlow, overH1, silent},
	{headers, tooSlow, overH2, silent.then(dead)},
	{headers, breaks, all, broken},
	{headers, one(hole), overH1, silent},
	{headers, one(hole), overH2, silent.then(dead)},
	{headers, one(leaves), overH1, left},
	{headers, one(leaves), overH2, left.then(dead)},
	{headers, one(lingers), overH1, leftLate},
	{headers, one(lingers), overH2, leftLate.then(dead)},
	{headers, one(impatient), overH1, deadline},
	{headers, one(impatient), overH2, deadline.then(dead)},

	{body, harmless, all, fine},
	{body, one("latency 1.5s"), overH1, silent},
	{body, one("latency 1.5s"), overH2, silent.then(dead)},
	{body, one("bandwidth too low"), overH1, tooLong},
	{body, one("bandwidth too low"), overH2, tooLong.then(dead)},
	{body, breaks, all, broken},
	{body, one(hole), overH1, silent},
	{body, one(hole), overH2, silent.then(dead)},
	{body, one(leaves), overH1, left},
	{body, one(leaves), overH2, left.then(dead)},
	{body, one(lingers), overH1, leftLate},
	{body, one(lingers), overH2, leftLate.then(dead)},
	{body, one(impatient), overH1, deadline},
	{body, one(impatient), overH2, deadline.then(dead)},

	{upgrade, harmless, overH1, echoed},
	{upgrade, tooSlow, overH1, echoed},
	{upgrade, one("half-close"), overH1, halfClosed},
	{upgrade, one("cut"), []testserver.Protocol{http1}, halfClosed},
	{upgrade, one("cut"), []testserver.Protocol{https}, brokenOff}, // in the middle of a TLS record
	{upgrade, one("reset"), overH1, brokenOff},
	{upgrade, []string{hole, leaves, lingers, impatient}, overH1, forEver},
}

// wanted returns what each cell should show. There is a row for each, and but one.
func wanted() (m map[string]seen, again []string) {
	m = map[string]seen{}
	for _, r := range want {
		for _, name := range r.harms {
			for _, p := range r.protocols {
				key := cell{r.phase, harm{name: name}, p}.String()
				if _, ok := m[key]; ok {
					again = append(again, key)
				}
				m[key] = r.seen
			}
		}
	}
	return m, again
}
