package exchange

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// A body is an Exchange seen as its response's body.
type body Exchange

func (b *body) Read(p []byte) (n int, err error) {
	x := (*Exchange)(b)
	if err := x.enter(); err != nil {
		return 0, err
	}
	err = errNoReturn // unless the Read below returns
	defer func() { err = x.leave(n, err) }()
	n, err = x.inner.Read(p)
	return n, err
}

// enter says that a Read goes into the inner body, unless x was interrupted.
func (x *Exchange) enter() error {
	now := x.Elapsed() // one look at the clock serves all who want to know: it costs as much as both locks
	x.mu.Lock()
	cause := x.cause
	if x.drained && !x.closed {
		cause = io.EOF
	}
	if cause == nil {
		x.reading++
		x.silentSince = now
	}
	x.mu.Unlock()
	if cause == nil {
		x.waiting(now, true, false)
	}
	return cause
}

// leave says that a Read has returned n and err, and returns what of err the
// caller should see. A half-closed peer of an upgraded connection still listens.
// A Read that ends x counts as running until it has.
func (x *Exchange) leave(n int, err error) error {
	now := x.Elapsed()
	defer x.waiting(now, false, n > 0 || err == io.EOF)
	x.mu.Lock()
	last := x.cause != nil || err != nil && !(x.upgraded && err == io.EOF)
	if !last {
		x.reading--
		x.silentSince, x.lastRead = never, now
	}
	closing := x.closing
	x.mu.Unlock()
	if !last {
		return err
	}
	if closing != nil {
		<-closing
	}
	return x.end(err)
}

// closeDrained closes an inner body that has been read to its end, before x's
// context is cancelled, so that its Close does not take that for an error.
// An upload that goes on keeps both: HTTP/2 would break it off.
func (x *Exchange) closeDrained() {
	if x.uploading() {
		return
	}
	err := x.inner.Close()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drained, x.closeErr = true, err
}

// Close closes the inner body first: that may unblock a Read, which must not
// look like a failure, and what x holds is given back when the connection is free.
func (b *body) Close() error {
	x := (*Exchange)(b)
	if _, err := governing(x.caller); err != nil {
		x.callerGone() // who came first, even if the watch is late
	}
	x.mu.Lock()
	x.closed = x.cause == nil
	drained, err := x.drained, x.closeErr
	x.mu.Unlock()
	if drained {
		return err
	}
	defer x.cancel(context.Canceled) // also of an upload that went on when the answer was complete
	defer x.end(nil)
	return x.inner.Close()
}

// A stream is the body of a 101 response: the other protocol's connection.
type stream struct {
	*body
	io.Writer
}

// CloseWrite half-closes the connection as the one of net/http does.
func (s *stream) CloseWrite() error {
	if c, ok := s.Writer.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return fmt.Errorf("exchange: CloseWrite: %w", http.ErrNotSupported)
}
