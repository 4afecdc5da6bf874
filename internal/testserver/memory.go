package testserver

import (
	"context"
	"net"
	"sync"
	"syscall"
)

const memoryHost = "sber.test"

type memoryAddr struct{}

func (memoryAddr) Network() string { return "tcp" }
func (memoryAddr) String() string  { return memoryHost + ":443" }

// memoryListener hands one end of a pipe to whoever accepts and the other to whoever dials.
type memoryListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newMemoryListener() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *memoryListener) dial(ctx context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, dialError(err)
	}
	here, there := newPipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, dialError(syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, dialError(ctx.Err())
	}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return memoryAddr{} }
