package testserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// piped runs f in a bubble with the two ends of a pipe.
func piped(t *testing.T, f func(t *testing.T, a, b *pipeConn)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := newPipe()
		defer a.Close()
		defer b.Close()
		f(t, a, b)
	})
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("error %v, want %v", got, want)
	}
}

func TestPipeBuffersAndBlocks(t *testing.T) {
	piped(t, func(t *testing.T, a, b *pipeConn) {
		if n, err := a.Write(make([]byte, pipeBuffer)); n != pipeBuffer || err != nil {
			t.Fatal(n, err)
		}
		a.SetWriteDeadline(time.Now().Add(time.Second))
		start := time.Now()
		n, err := a.Write([]byte("too much"))
		wantErr(t, err, os.ErrDeadlineExceeded)
		if n != 0 || time.Since(start) != time.Second {
			t.Errorf("wrote %d in %v", n, time.Since(start))
		}
		a.SetWriteDeadline(time.Time{})
		go func() {
			time.Sleep(time.Minute)
			io.CopyN(io.Discard, b, pipeBuffer)
		}()
		if n, err := a.Write([]byte("now")); n != 3 || err != nil || time.Since(start) != time.Second+time.Minute {
			t.Errorf("wrote %d, %v after %v", n, err, time.Since(start))
		}
	})
}

func TestPipeReadDeadline(t *testing.T) {
	piped(t, func(t *testing.T, a, b *pipeConn) {
		read := func() error { _, err := a.Read(make([]byte, 1)); return err }
		start := time.Now()
		a.SetDeadline(start.Add(time.Second))
		err := read()
		wantErr(t, err, os.ErrDeadlineExceeded)
		if ne := net.Error(nil); !errors.As(err, &ne) || !ne.Timeout() || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		wantErr(t, read(), os.ErrDeadlineExceeded) // it stays

		// A deadline in the past interrupts a read under way, a new one revives the connection.
		a.SetReadDeadline(time.Now().Add(time.Hour))
		time.AfterFunc(time.Second, func() { a.SetReadDeadline(time.Unix(1, 0)) })
		wantErr(t, read(), os.ErrDeadlineExceeded)
		if time.Since(start) != 2*time.Second {
			t.Errorf("after %v", time.Since(start))
		}
		a.SetReadDeadline(time.Time{})
		time.AfterFunc(2*time.Hour, func() { b.Write([]byte("x")) })
		if err := read(); err != nil {
			t.Errorf("after the deadline was lifted: %v", err)
		}
	})
}

func TestPipeEnds(t *testing.T) {
	t.Run("close", func(t *testing.T) {
		piped(t, func(t *testing.T, a, b *pipeConn) {
			buf := make([]byte, 16)
			a.Write([]byte("last"))
			a.Close()
			if n, err := b.Read(buf); n != 4 || err != nil {
				t.Errorf("read %d, %v", n, err)
			}
			_, err := b.Read(buf)
			wantErr(t, err, io.EOF)
			_, err = b.Write(buf)
			wantErr(t, err, syscall.EPIPE)
			_, err = a.Read(buf)
			wantErr(t, err, net.ErrClosed)
			_, err = a.Write(buf)
			wantErr(t, err, net.ErrClosed)
		})
	})
	t.Run("close wakes", func(t *testing.T) {
		piped(t, func(t *testing.T, a, b *pipeConn) {
			var blocked sync.WaitGroup
			for _, c := range []*pipeConn{a, b} {
				want := io.EOF
				if c == a {
					want = net.ErrClosed
				}
				blocked.Go(func() { _, err := c.Read(make([]byte, 1)); wantErr(t, err, want) })
			}
			synctest.Wait()
			a.Close()
			blocked.Wait()
		})
	})
	t.Run("close wakes a writer", func(t *testing.T) {
		piped(t, func(t *testing.T, a, b *pipeConn) {
			time.AfterFunc(time.Second, func() { a.Close() })
			n, err := b.Write(make([]byte, 2*pipeBuffer))
			wantErr(t, err, syscall.EPIPE)
			if n != pipeBuffer {
				t.Errorf("wrote %d", n)
			}
		})
	})
	t.Run("half close", func(t *testing.T) {
		piped(t, func(t *testing.T, a, b *pipeConn) {
			buf := make([]byte, 16)
			a.CloseWrite()
			_, err := b.Read(buf)
			wantErr(t, err, io.EOF)
			b.Write([]byte("still"))
			if n, err := a.Read(buf); n != 5 || err != nil {
				t.Errorf("read %d, %v", n, err)
			}
		})
	})
	t.Run("reset", func(t *testing.T) {
		piped(t, func(t *testing.T, a, b *pipeConn) {
			a.Write([]byte("lost"))
			a.SetLinger(0)
			a.Close()
			_, err := b.Read(make([]byte, 16))
			wantErr(t, err, syscall.ECONNRESET)
		})
	})
}

func TestPipeKeepsOrder(t *testing.T) {
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(i * 7 >> 3)
	}
	piped(t, func(t *testing.T, a, b *pipeConn) {
		var both sync.WaitGroup
		for _, c := range [][2]*pipeConn{{a, b}, {b, a}} {
			both.Go(func() { c[0].Write(sent); c[0].CloseWrite() })
			both.Go(func() {
				if got, err := io.ReadAll(c[1]); err != nil || !bytes.Equal(got, sent) {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
			})
		}
		both.Wait()
	})
}
