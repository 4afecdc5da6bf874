package exchange_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A trip is a RoundTripper.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answer is a base that always answers 200 with b.
func answer(b io.ReadCloser) trip {
	return func(req *http.Request) (*http.Response, error) { return reply(req, http.StatusOK, b), nil }
}

func reply(req *http.Request, code int, b io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: b, ContentLength: -1, Request: req}
}

func request(ctx context.Context, body ...io.Reader) *http.Request {
	method, b := http.MethodGet, io.Reader(nil)
	if len(body) > 0 {
		method, b = http.MethodPost, body[0]
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://system.test/path", b)
	if err != nil {
		panic(err)
	}
	return req
}

// A fake is a body made of funcs, which counts its Closes.
type fake struct {
	read  func([]byte) (int, error) // nil: io.EOF
	close func() error              // nil: no error

	mu     sync.Mutex
	closes int
	closed chan struct{} // after the first Close
}

func newFake(read func([]byte) (int, error)) *fake {
	return &fake{read: read, closed: make(chan struct{})}
}

func text(s string) *fake { return newFake(strings.NewReader(s).Read) }

// stuck gives one byte n times, and then nothing until it is closed or ctx ends.
func stuck(ctx context.Context, n int) *fake {
	f := newFake(nil)
	f.read = func(p []byte) (int, error) {
		if n--; n >= 0 {
			return copy(p, "x"), nil
		}
		select {
		case <-f.closed:
			return 0, http.ErrBodyReadAfterClose
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return f
}

func (f *fake) Read(p []byte) (int, error) {
	if f.read == nil {
		return 0, io.EOF
	}
	return f.read(p)
}

func (f *fake) Close() error {
	f.mu.Lock()
	if f.closes++; f.closes == 1 {
		close(f.closed)
	}
	f.mu.Unlock()
	if f.close == nil {
		return nil
	}
	return f.close()
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closes
}

// panics returns what f panics with.
func panics(f func()) (e any) {
	defer func() { e = recover() }()
	f()
	return nil
}

// goexits reports whether f ends its goroutine, which is one of its own.
func goexits(f func()) bool {
	done, returned := make(chan struct{}), false
	go func() {
		defer close(done)
		f()
		returned = true
	}()
	<-done
	return !returned
}

// A lateContext tells of its end at once, but its Done and what hangs on it only later.
type lateContext struct {
	context.Context
	done chan struct{}
}

func late(ctx context.Context, by time.Duration) lateContext {
	done := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(by, func() { close(done) }) })
	return lateContext{ctx, done}
}

func (c lateContext) Done() <-chan struct{} { return c.done }
