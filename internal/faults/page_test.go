package faults_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/resilient-go/resilient/internal/testserver"
)

const head = `# What a client does when the network is to blame

Written by ` + "`go test ./internal/faults -update`" + `, from what it sees: real sockets, through a TCP proxy that does the harm
(` + "`internal/faultproxy`" + `), in each phase of an exchange, over each protocol. The test fails when this page is not what it sees.
What needs more than a proxy, packets that vanish on their way, is seen in Linux network namespaces: ` + "`make netns`" + `.

The client here has a ConnectTimeout of %v, a ReadTimeout of %v, a TotalTimeout of %v, one connection and one permit.
The request is a POST that net/http does not repeat by itself. The same in every cell:

- when the caller has its answer or its error, the permit is back and nothing is in flight. An upgraded connection holds its
  permit until it is closed, or a Read of it has failed otherwise than with io.EOF;
- the exchange is counted once in requests_total, and the breaker is told once;
- a request that is made after the fault has gone succeeds;
- when the client has been closed, no connection and no goroutine is left.

The columns:

- **outcome** is the word in requests_total; **error** what errors.Is finds; **not sent** what NotSent says of it; **verdict** what
  the breaker is told; **ended by** the bound that fired, with its limit, or who or what else it was;
- **the next request** is made at once, while the old connections stay as sick as they are and new ones are well. Over HTTP/2 it
  goes out on a connection of which nobody knows yet that it is dead: net/http's ping finds out after 15 s, and the breaker opens
  before that. Where an upload has filled the kernel's buffers the bound on writes, twice ReadTimeout, finds out, at the moment when
  the next request has met a ReadTimeout's silence: either may be its error;
- **queue** is how long the next request stood in net/http's queue for a connection. A dial, CONNECT and TLS included, outlives
  the caller that has left, and keeps its place until ConnectTimeout ends it.

The faults: latency and jitter for each piece of data; a bandwidth that is enough, and one at which the phase takes longer than its
bound; every byte in a write of its own; half-close, a FIN to the receiver; cut, a FIN to both sides in the middle of the phase's
data (over TLS of a record); reset, a RST to both; black hole, nothing passes in either direction, and callers who leave after
200 ms, leave after 800 ms, which is longer than the system may be silent (ReadTimeout / 2), or have a deadline of 300 ms.
All but resets and black holes are in the direction of what the phase waits for: to the system in an upload, else to the client.
`

var about = map[phase]string{
	dial:    "Nobody answers the dial, or somebody refuses it. There are no bytes yet that could be harmed.",
	connect: "To a system behind a proxy, which is told to CONNECT. A system in clear is not reached that way.",
	shake:   "From the handshake's first byte on.",
	upload:  "From the moment when the system has the request's headers. The body of a fault that does more than delay is larger than all buffers on its way.",
	headers: "From the moment when the system has the whole request, until the headers of its answer.",
	body:    "From the moment when the client has the headers and a tenth of the body.",
	upgrade: "From the moment when the connection speaks another protocol (101), which HTTP/2 has not. No bound and no caller's context governs it any more: only Close does.",
}

var protocolNames = map[testserver.Protocol]string{http1: "HTTP/1.1", https: "HTTP/1.1 over TLS", http2: "HTTP/2"}

// page renders what has been seen. Protocols that show the same share a line.
func page(cells []cell, got map[string]sighting) string {
	var b strings.Builder
	fmt.Fprintf(&b, head, bounds.ConnectTimeout, bounds.ReadTimeout, bounds.TotalTimeout)
	for _, p := range phases {
		fmt.Fprintf(&b, "\n## %s%s\n\n%s\n\n", strings.ToUpper(string(p[:1])), p[1:], about[p])
		b.WriteString("| fault | protocol | outcome | error | not sent | verdict | ended by | the next request | queue |\n")
		b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
		for _, h := range harms {
			var lines []seen
			names := map[seen][]string{}
			for _, c := range cells {
				if c.phase != p || c.harm.name != h.name {
					continue
				}
				s := got[c.String()].seen
				if !slices.Contains(lines, s) {
					lines = append(lines, s)
				}
				names[s] = append(names[s], protocolNames[c.protocol])
			}
			for _, s := range lines {
				notSent := "no"
				if s.notSent {
					notSent = "yes"
				}
				fmt.Fprintln(&b, "|", strings.Join([]string{h.name, strings.Join(names[s], ", "), s.outcome, s.err, notSent,
					s.verdict, s.end, s.next, s.queue}, " | "), "|")
			}
		}
	}
	return b.String()
}
