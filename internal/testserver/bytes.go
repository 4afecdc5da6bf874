package testserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"sync"
	"syscall"
	"time"
)

// Bytes is a peer that sends any bytes whatever, as a script says, on connections in memory. It is for a synctest bubble only.
//
// A script is what is sent, with orders in between. An order is a 0 and a letter:
//
//	r      waits for something from the client
//	s      sends nothing for a second
//	S      sends nothing any more
//	c      closes the connection
//	x      resets it
//	n      closes it; what follows is for the next one
//	F t f s  begins an HTTP/2 frame of type t with flags f for stream s, of which the bytes up to the next order are the payload
//	0      is a 0
//
// Any other letter is nothing. At the script's end the connection is closed, and further ones are refused.
type Bytes struct {
	tls   *tls.Config // nil: in clear
	drain bool
	again []byte
	every time.Duration

	mu      sync.Mutex
	scripts [][]byte
	next    int
	open    map[net.Conn]struct{}
	served  sync.WaitGroup
}

// Order begins an order of a script.
const Order = 0

// Play returns a peer that follows a script. Over HTTPS and HTTP2 the script is what is sent inside of TLS.
func Play(p Protocol, script []byte) *Bytes {
	b := &Bytes{drain: true, open: map[net.Conn]struct{}{}, scripts: bytes.Split(script, []byte{Order, 'n'})}
	if p != HTTP1 {
		id, err := identity()
		if err != nil {
			panic(err)
		}
		b.tls = &tls.Config{Certificates: []tls.Certificate{id.certificate}}
		if p == HTTP2 {
			b.tls.NextProtos = []string{"h2"}
		}
	}
	return b
}

// Deaf makes b read nothing beyond a TLS handshake, so that what the client sends gets stuck. Orders to wait for it wait for nothing.
func (b *Bytes) Deaf() *Bytes {
	b.drain = false
	return b
}

// Forever makes b follow another script, over and over, where the first one ends, with a pause between; and on each connection.
func (b *Bytes) Forever(script []byte, every time.Duration) *Bytes {
	b.again, b.every = script, every
	return b
}

// TLS returns a client configuration that trusts b, nil in clear.
func (b *Bytes) TLS() *tls.Config {
	if b.tls == nil {
		return nil
	}
	id, _ := identity()
	return &tls.Config{RootCAs: id.pool}
}

// Dial is a DialContext: it opens the next connection, whatever addr says.
func (b *Bytes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, dialError(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next >= len(b.scripts) {
		return nil, dialError(syscall.ECONNREFUSED)
	}
	here, there := newPipe()
	script := b.scripts[b.next]
	if b.again == nil {
		b.next++
	}
	b.open[there] = struct{}{}
	b.served.Go(func() { b.serve(there, script) })
	return here, nil
}

// Open returns how many connections are open.
func (b *Bytes) Open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open)
}

// Close breaks every connection and waits until nothing more is sent.
func (b *Bytes) Close() {
	b.mu.Lock()
	b.next = len(b.scripts)
	for c := range b.open {
		c.Close()
	}
	b.mu.Unlock()
	b.served.Wait()
}

func (b *Bytes) serve(below *pipeConn, script []byte) {
	defer func() {
		below.Close()
		b.mu.Lock()
		delete(b.open, below)
		b.mu.Unlock()
	}()
	var c net.Conn = below
	if b.tls != nil {
		t := tls.Server(c, b.tls)
		if t.Handshake() != nil {
			return
		}
		c = t
	}
	p := player{Conn: c, below: below}
	p.changed.L = &p.mu
	if b.drain {
		b.served.Go(p.read)
	} else {
		p.gone = true // nobody would say
	}
	for p.play(script) && b.again != nil {
		time.Sleep(b.every)
		script = b.again
	}
}

// A player follows the script of one connection.
type player struct {
	net.Conn
	below *pipeConn

	mu      sync.Mutex
	changed sync.Cond
	heard   bool // something since the last order to wait
	gone    bool // nothing more will be heard
}

func (p *player) read() {
	buf := make([]byte, 4<<10)
	for {
		n, err := p.Conn.Read(buf)
		p.mu.Lock()
		p.heard, p.gone = p.heard || n > 0, err != nil
		p.changed.Broadcast()
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// wait waits for something from the client, and until it has nothing more to say now.
func (p *player) wait() {
	p.mu.Lock()
	for !p.heard && !p.gone {
		p.changed.Wait()
	}
	p.heard = false
	p.mu.Unlock()
	time.Sleep(time.Nanosecond) // in a bubble, until all others wait for something too
}

// rest waits until the client has closed the connection, an hour at most.
func (p *player) rest() {
	for range 3600 {
		if p.left() {
			return
		}
		time.Sleep(time.Second)
	}
}

// left reports whether the client has closed the connection. What is written over TLS is nothing if there is nothing to say.
func (p *player) left() bool {
	_, err := p.below.Write(nil)
	return err != nil
}

// play follows a script, and reports whether the connection is open at its end. What is between two orders, other than those for a
// 0 and for a frame, is sent at once.
func (p *player) play(script []byte) bool {
	var out []byte
	send := func() bool {
		_, err := p.Conn.Write(out)
		out = out[:0]
		return err == nil && !p.left()
	}
	for len(script) > 0 {
		text, order, _ := bytes.Cut(script, []byte{Order})
		out = append(out, text...)
		if len(order) == 0 {
			break
		}
		script = order[1:]
		switch letter := order[0]; letter {
		case '0':
			out = append(out, 0)
			continue
		case 'F':
			var frame []byte
			frame, script = frameOf(script)
			out = append(out, frame...)
			continue
		default:
			if !send() || !p.obey(letter) {
				return false
			}
		}
	}
	return send()
}

// obey does what an order says, and reports whether the connection is open afterwards.
func (p *player) obey(letter byte) bool {
	switch letter {
	case 'r':
		p.wait()
	case 's':
		time.Sleep(time.Second)
		return !p.left()
	case 'S':
		p.rest()
		return false
	case 'c':
		return false
	case 'x':
		p.below.SetLinger(0)
		return false
	}
	return true
}

// frameOf takes a frame from the beginning of a script, and returns the rest.
func frameOf(script []byte) (frame, rest []byte) {
	if len(script) < 3 {
		return nil, nil
	}
	head, rest := script[:3], script[3:]
	payload := []byte(nil)
	for {
		text, order, found := bytes.Cut(rest, []byte{Order})
		payload = append(payload, text...)
		if found && len(order) > 0 && order[0] == '0' {
			payload, rest = append(payload, 0), order[1:]
			continue
		}
		n := len(payload)
		frame = append([]byte{byte(n >> 16), byte(n >> 8), byte(n), head[0], head[1], 0, 0, 0, head[2]}, payload...)
		return frame, rest[len(text):]
	}
}
