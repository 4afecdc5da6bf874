package testserver

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// pipeBuffer is how much one direction holds before a write blocks. net.Pipe holds nothing, so that two peers that
// both write first (HTTP/2 settings, an answer to an upload that nobody reads) would wait for each other.
const pipeBuffer = 64 << 10

// newPipe returns the two ends of an in-memory connection. It waits by sync.Cond alone, which is durable in a synctest bubble.
func newPipe() (*pipeConn, *pipeConn) {
	a, b := newStream(), newStream()
	return &pipeConn{in: a, out: b}, &pipeConn{in: b, out: a}
}

type pipeConn struct {
	in, out *stream
	reset   atomic.Bool // at Close
}

func (c *pipeConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *pipeConn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close lets the peer read what was written and then io.EOF, or, after SetLinger(0), fail at once.
func (c *pipeConn) Close() error {
	c.in.change(func(s *stream) { s.unread = true; s.buf.Reset(); s.stopTimers() })
	c.out.change(func(s *stream) { s.ended = true; s.broken = s.broken || c.reset.Load(); s.stopTimers() })
	return nil
}

func (c *pipeConn) CloseWrite() error {
	c.out.change(func(s *stream) { s.ended = true })
	return nil
}

func (c *pipeConn) SetLinger(seconds int) error {
	c.reset.Store(seconds == 0)
	return nil
}

func (c *pipeConn) LocalAddr() net.Addr  { return memoryAddr{} }
func (c *pipeConn) RemoteAddr() net.Addr { return memoryAddr{} }

func (c *pipeConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	return nil
}

func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

// stream is one direction of a pipe.
type stream struct {
	mu      sync.Mutex
	changed sync.Cond
	buf     bytes.Buffer
	ended   bool // nothing more will be written
	unread  bool // nothing more will be read
	broken  bool // by a reset
	readBy  deadline
	writeBy deadline
}

type deadline struct {
	timer  *time.Timer
	passed bool
}

func newStream() *stream {
	s := new(stream)
	s.changed.L = &s.mu
	return s
}

func (s *stream) change(f func(*stream)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
	s.changed.Broadcast()
}

func (s *stream) stopTimers() {
	for _, d := range []*deadline{&s.readBy, &s.writeBy} {
		if d.timer != nil {
			d.timer.Stop()
		}
	}
}

func (s *stream) setDeadline(d *deadline, t time.Time) {
	s.change(func(s *stream) {
		if d.timer != nil {
			d.timer.Stop()
		}
		wait := time.Until(t)
		d.timer, d.passed = nil, !t.IsZero() && wait <= 0
		if t.IsZero() || d.passed {
			return
		}
		var timer *time.Timer
		timer = time.AfterFunc(wait, func() {
			s.change(func(*stream) { d.passed = d.passed || d.timer == timer })
		})
		d.timer = timer
	})
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.unread:
			return 0, pipeError("read", net.ErrClosed)
		case s.readBy.passed:
			return 0, pipeError("read", os.ErrDeadlineExceeded)
		case s.broken:
			return 0, pipeError("read", syscall.ECONNRESET)
		case s.buf.Len() > 0:
			n, _ := s.buf.Read(p)
			s.changed.Broadcast()
			return n, nil
		case s.ended:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		s.changed.Wait()
	}
}

func (s *stream) write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.ended:
			return n, pipeError("write", net.ErrClosed)
		case s.writeBy.passed:
			return n, pipeError("write", os.ErrDeadlineExceeded)
		case s.unread:
			return n, pipeError("write", syscall.EPIPE)
		}
		if room := min(pipeBuffer-s.buf.Len(), len(p)); room > 0 {
			s.buf.Write(p[:room])
			n, p = n+room, p[room:]
			s.changed.Broadcast()
		}
		if len(p) == 0 {
			return n, nil
		}
		s.changed.Wait()
	}
}

func pipeError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: memoryAddr{}, Addr: memoryAddr{}, Err: err}
}
