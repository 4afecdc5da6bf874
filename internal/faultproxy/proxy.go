// Package faultproxy is a TCP proxy that harms what passes through it, on
// command: it delays, throttles, cuts into slices, half-closes, breaks off,
// resets, swallows, refuses and ignores.
//
//	p, err := faultproxy.Start(server.Addr().String())
//	p.Set(faultproxy.ToClient, faultproxy.Fault{After: 10, End: faultproxy.Reset})
//
// It is for tests of what a client does when the network is to blame. It
// knows nothing of HTTP or TLS: when to do harm is the test's to say.
package faultproxy

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// A Proxy passes connections on to one target. Its methods may be called concurrently.
type Proxy struct {
	target string
	addr   string
	work   sync.WaitGroup

	mu       sync.Mutex
	listener *net.TCPListener // nil while connections are refused
	served   chan struct{}    // closed when nobody accepts from it any more
	fillers  []net.Conn       // what keeps its queue full while connections are ignored
	closed   bool
	links    map[*link]struct{}
	accepted int
	faults   [2]Fault // of connections to come
}

// Start starts a Proxy to target, on a port of the loopback interface.
func Start(target string) (*Proxy, error) {
	p := &Proxy{target: target, addr: "127.0.0.1:0", links: map[*link]struct{}{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.listen(); err != nil {
		return nil, err
	}
	p.addr = p.listener.Addr().String()
	return p, nil
}

// Addr returns the address to dial in place of the target's. It does not change.
func (p *Proxy) Addr() string { return p.addr }

// Set sets what befalls the bytes of one direction from now on, in the
// connections that there are and in those to come. What was read before passes
// as it would have; After counts anew.
func (p *Proxy) Set(d Direction, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[d] = f
	for l := range p.links {
		l.flows[d].set(f)
	}
}

// SetNew is Set for the connections to come only.
func (p *Proxy) SetNew(d Direction, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[d] = f
}

// Heal takes both directions' faults away and accepts connections again. What
// has been closed or reset stays so.
func (p *Proxy) Heal() error {
	p.Set(ToServer, Fault{})
	p.Set(ToClient, Fault{})
	return p.Accept()
}

// Refuse refuses connections from now on. Those that there are go on.
func (p *Proxy) Refuse() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unlisten()
}

// Ignore lets nobody connect from now on, and refuses nobody: what asks for a
// connection gets no answer, as from a host that drops packets. Those that there
// are go on. It needs Linux, whose kernel does so while a listener's queue is full.
func (p *Proxy) Ignore() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil || p.fillers != nil {
		return fmt.Errorf("faultproxy: Ignore: %s does not accept connections; Accept first", p.addr)
	}
	_ = p.listener.SetDeadline(time.Unix(1, 0))
	<-p.served
	if err := shorten(p.listener); err != nil {
		return err
	}
	for inVain := 0; inVain < 2; { // one dial may have been late for another reason
		c, err := net.DialTimeout("tcp", p.addr, 100*time.Millisecond)
		switch {
		case err != nil:
			inVain++
		case len(p.fillers) == 8:
			c.Close()
			return fmt.Errorf("faultproxy: Ignore: the queue of %s does not fill up", p.addr)
		default:
			p.fillers, inVain = append(p.fillers, c), 0
		}
	}
	return nil
}

// Accept accepts connections again after [Proxy.Refuse] or [Proxy.Ignore]. It
// needs the same port, which another process may have taken meanwhile.
func (p *Proxy) Accept() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil && p.fillers == nil {
		return nil
	}
	if err := p.unlisten(); err != nil {
		return err
	}
	return p.listen()
}

// Accepted returns how many connections there have been.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Open returns how many connections there are.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Close closes everything and waits until the proxy's goroutines have ended.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	err := p.unlisten()
	for l := range p.links {
		l.close(false)
	}
	p.mu.Unlock()
	p.work.Wait()
	return err
}

// listen needs p.mu.
func (p *Proxy) listen() error {
	if p.closed {
		return fmt.Errorf("faultproxy: %s: %w", p.addr, net.ErrClosed)
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("faultproxy: %w", err)
	}
	served := make(chan struct{})
	p.listener, p.served = l.(*net.TCPListener), served
	p.work.Go(func() {
		defer close(served)
		p.serve(l)
	})
	return nil
}

// unlisten needs p.mu.
func (p *Proxy) unlisten() error {
	for _, c := range p.fillers {
		c.Close()
	}
	p.fillers = nil
	if p.listener == nil {
		return nil
	}
	l := p.listener
	p.listener = nil
	return l.Close()
}

func (p *Proxy) serve(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return // closed, or Ignore's deadline
		}
		p.work.Go(func() { p.connect(client.(*net.TCPConn)) })
	}
}

func (p *Proxy) connect(client *net.TCPConn) {
	server, err := net.DialTimeout("tcp", p.target, 10*time.Second)
	if err != nil {
		client.Close()
		return
	}
	l := newLink(client, server.(*net.TCPConn))
	p.mu.Lock()
	if p.closed {
		l.close(false)
	}
	for d, f := range l.flows {
		f.set(p.faults[d])
	}
	p.links[l] = struct{}{}
	p.accepted++
	p.mu.Unlock()
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}
