package faultproxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A link is one connection through the proxy: a pair of sockets and a flow in each direction.
type link struct {
	flows  [2]*flow
	done   chan struct{}
	closed sync.Once
}

func newLink(client, server *net.TCPConn) *link {
	l := &link{done: make(chan struct{})}
	for _, c := range []*net.TCPConn{client, server} { // small, so that a sender soon feels that nothing moves
		_ = c.SetReadBuffer(64 << 10)
		_ = c.SetWriteBuffer(64 << 10)
	}
	l.flows[ToServer] = &flow{link: l, from: client, to: server}
	l.flows[ToClient] = &flow{link: l, from: server, to: client}
	return l
}

// run returns when both directions have ended.
func (l *link) run() {
	var writers, readers sync.WaitGroup
	for _, f := range l.flows {
		queue := make(chan piece, 16)
		readers.Go(func() { defer close(queue); f.read(queue) })
		writers.Go(func() { f.write(queue) })
	}
	writers.Wait()
	l.close(false)
	readers.Wait()
}

// close closes both sockets, with a RST each if reset is set.
func (l *link) close(reset bool) {
	l.closed.Do(func() {
		close(l.done) // before anybody can see a socket closed
		for _, f := range l.flows {
			if reset {
				_ = f.from.SetLinger(0)
			}
			f.from.Close()
		}
	})
}

// A piece is some bytes on their way, and how they are to be written, or the end of them.
type piece struct {
	data  []byte
	due   time.Time
	fault Fault
	end   End
}

// A flow is one direction of a link.
type flow struct {
	link     *link
	from, to *net.TCPConn

	mu      sync.Mutex
	next    Fault
	changed chan struct{} // closed at the next set

	// The reader's: the fault that it looked up last.
	seen  <-chan struct{}
	fault Fault
	left  int // bytes before its End
	due   time.Time
}

// set changes the fault, and has a reader that waits look at it.
func (f *flow) set(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed != nil {
		close(f.changed)
	}
	f.next, f.changed = fault, make(chan struct{})
	_ = f.from.SetReadDeadline(time.Unix(1, 0))
}

// look takes up the fault that is in force now.
func (f *flow) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen != f.changed {
		f.fault, f.seen, f.left = f.next, f.changed, f.next.After
	}
}

// over reports whether nothing more is to pass.
func (f *flow) over() bool { return f.fault.End != Never && f.left == 0 }

// read puts what comes into the queue, until it ends or the link is closed.
func (f *flow) read(queue chan<- piece) {
	buf := make([]byte, Fault{}.most())
	for {
		_ = f.from.SetReadDeadline(time.Time{}) // before look: set sets them the other way round
		f.look()
		if f.over() {
			if f.fault.End != Silence {
				f.finish(queue, f.fault.End)
				return
			}
			select {
			case <-f.seen:
			case <-f.link.done:
				return
			}
			continue
		}
		n, err := f.from.Read(buf[:f.fault.most()])
		if !f.pass(queue, buf[:n]) {
			return
		}
		switch {
		case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, syscall.ECONNRESET):
			f.finish(queue, Reset)
			return
		default:
			f.finish(queue, HalfClose)
			return
		}
	}
}

// pass puts data into the queue, under the fault that is in force by now, and
// reports whether there may be more to come.
func (f *flow) pass(queue chan<- piece, data []byte) bool {
	for len(data) > 0 {
		f.look()
		if f.over() {
			if f.fault.End != Silence {
				f.finish(queue, f.fault.End)
				return false
			}
			select {
			case <-f.seen:
				continue
			case <-f.link.done:
				return false
			}
		}
		n := len(data)
		if f.fault.End != Never {
			n = min(n, f.left)
			f.left -= n
		}
		if !f.put(queue, piece{data: append([]byte(nil), data[:n]...)}) {
			return false
		}
		data = data[n:]
	}
	return true
}

// finish puts an end into the queue, and takes in what the sender still has to
// say: unread, it would make a RST of the FIN that closes its socket.
func (f *flow) finish(queue chan<- piece, end End) {
	if !f.put(queue, piece{end: end}) {
		return
	}
	for {
		_ = f.from.SetReadDeadline(time.Time{})
		if _, err := io.Copy(io.Discard, f.from); !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

func (f *flow) put(queue chan<- piece, one piece) bool {
	select {
	case <-f.link.done: // first: that a socket has been closed here is no end to pass on
		return false
	default:
	}
	if due := time.Now().Add(f.fault.delay()); due.After(f.due) {
		f.due = due
	}
	one.due, one.fault = f.due, f.fault
	select {
	case queue <- one:
		return true
	case <-f.link.done:
		return false
	}
}

// write delivers what is in the queue, until its end.
func (f *flow) write(queue <-chan piece) {
	for one := range queue {
		if !f.sleep(time.Until(one.due)) {
			return
		}
		switch one.end {
		case HalfClose:
			_ = f.to.CloseWrite()
			return
		case Cut:
			_ = f.to.CloseWrite()
			_ = f.from.CloseWrite() // what the other flow has to write is dropped
			return
		case Reset:
			f.link.close(true)
			return
		}
		if !f.slices(one) {
			for range queue { // the receiver has gone; the sender will notice by the other direction
			}
			return
		}
	}
}

func (f *flow) slices(one piece) bool {
	size := one.fault.most()
	if one.fault.Slice > 0 {
		size = min(size, one.fault.Slice)
	}
	for len(one.data) > 0 {
		n := min(size, len(one.data))
		if _, err := f.to.Write(one.data[:n]); err != nil {
			return false
		}
		if b := one.fault.Bandwidth; b > 0 && !f.sleep(time.Duration(n)*time.Second/time.Duration(b)) {
			return false
		}
		one.data = one.data[n:]
	}
	return true
}

// sleep reports whether the link is still there.
func (f *flow) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.link.done:
		return false
	}
}
