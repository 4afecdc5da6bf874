package exchange_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

// Bodies that are at fault, and such as are not, over a real transport.
func TestBadBody(t *testing.T) {
	broken := func(after string) func() io.Reader {
		return func() io.Reader {
			return io.MultiReader(strings.NewReader(after), newFake(func([]byte) (int, error) { return 0, errBoom }))
		}
	}
	stream := func() io.Reader { return io.MultiReader(strings.NewReader("abcde")) }
	for name, c := range map[string]struct {
		answer http.Handler
		body   func() io.Reader
		length int64
		want   Outcome
		is     error // what RoundTrip returns; nil if any
	}{
		"fails at once":  {testserver.OK(""), broken(""), 0, Outcome{Fault: errBoom, BadBody: true}, errBoom},
		"fails later":    {testserver.OK(""), broken("abc"), 10, Outcome{Fault: errBoom, BadBody: true}, errBoom},
		"too short":      {testserver.OK(""), stream, 10, Outcome{Fault: errAny, BadBody: true}, nil},
		"longer than 1":  {testserver.HangBeforeHeaders(), stream, 1, Outcome{Fault: errAny, BadBody: true}, nil},
		"too long":       {testserver.HangBeforeHeaders(), stream, 3, Outcome{Fault: errAny, BadBody: true}, nil},
		"the system's":   {testserver.CloseBeforeHeaders(), stream, 5, Outcome{Fault: errAny}, nil},
		"all is well":    {testserver.OK(""), stream, 5, Outcome{}, nil},
		"unknown length": {testserver.OK(""), stream, 0, Outcome{}, nil},
	} {
		both(t, name, c.answer, func(t *testing.T, s *system) {
			r := newRig(t, s.base)
			req := s.request(t.Context(), c.body())
			req.ContentLength = c.length
			resp, err := r.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			if (err == nil) != (c.want.Fault == nil) || c.is != nil && !errors.Is(err, c.is) {
				t.Error(err)
			}
			r.ended(c.want)
		})
	}
	bubble(t, "none, of a declared length", func(t *testing.T) { // HTTP/2 does not mind
		s := serve(t, testserver.HTTP1, nil)
		r := newRig(t, s.base)
		req := s.request(t.Context())
		req.ContentLength = 5
		if _, err := r.RoundTrip(req); err == nil {
			t.Error("no error")
		}
		r.ended(Outcome{Fault: errAny, BadBody: true})
	})
}

// A transport that reads a body which it has closed, as HTTP/2 does, does not get at the caller's (C-12).
func TestReadAfterClose(t *testing.T) {
	r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
		req.Body.Read(make([]byte, 1))
		req.Body.Close()
		if n, err := req.Body.Read(make([]byte, 1)); n != 0 || err != http.ErrBodyReadAfterClose {
			t.Errorf("%d, %v", n, err)
		}
		return reply(req, 200, http.NoBody), nil
	}))
	body := text("abcde")
	if _, err := r.RoundTrip(request(t.Context(), body)); err != nil {
		t.Fatal(err)
	}
	if left, _ := body.read(make([]byte, 9)); left != 4 {
		t.Errorf("%d of 4 bytes are left", left)
	}
	r.ended(Outcome{})
}

// What a transport may do with a body, and what of it is the body's fault.
func TestBodyInTransport(t *testing.T) {
	fails := func() io.ReadCloser { return newFake(func([]byte) (int, error) { return 0, errBoom }) }
	five := func() io.ReadCloser { return newFake(iotest.OneByteReader(strings.NewReader("abcde")).Read) }
	onceClosed := func() io.ReadCloser {
		b := newFake(nil)
		b.read = func([]byte) (int, error) { <-b.closed; return 0, errBoom }
		return b
	}
	for name, c := range map[string]struct {
		body func() io.ReadCloser
		copy func() (io.ReadCloser, error)
		base func(req *http.Request) (*http.Response, error)
		want Outcome
	}{
		"fails only because it was closed": {body: onceClosed, base: func(req *http.Request) (*http.Response, error) {
			time.AfterFunc(time.Second, func() { req.Body.Close() })
			req.Body.Read(nil)
			return nil, io.EOF
		}, want: Outcome{Fault: io.EOF}},
		"fails, and is then closed": {body: fails, base: func(req *http.Request) (*http.Response, error) {
			_, err := req.Body.Read(nil)
			req.Body.Close()
			return nil, err
		}, want: Outcome{Fault: errBoom, BadBody: true}},
		"fails, which the system does not mind": {body: fails, base: func(req *http.Request) (*http.Response, error) {
			req.Body.Read(nil)
			return reply(req, 200, nil), nil
		}},
		"fails after the answer": {body: fails, base: func(req *http.Request) (*http.Response, error) {
			time.AfterFunc(time.Second, func() { req.Body.Read(nil) })
			return reply(req, 200, newFake(func([]byte) (int, error) { time.Sleep(2 * time.Second); return 0, io.EOF })), nil
		}},
		"fails after the answer, which breaks off": {body: fails, base: func(req *http.Request) (*http.Response, error) {
			return reply(req, 200, newFake(func([]byte) (int, error) { return req.Body.Read(nil) })), nil
		}, want: Outcome{Fault: errBoom, BadBody: true}},
		"cannot be had again": {body: five, copy: func() (io.ReadCloser, error) { return nil, errBoom },
			base: func(req *http.Request) (*http.Response, error) {
				req.Body.Close()
				_, err := req.GetBody()
				return nil, err
			}, want: Outcome{Fault: errBoom, BadBody: true}},
		"fails the second time": {body: five, copy: func() (io.ReadCloser, error) { return fails(), nil },
			base: func(req *http.Request) (*http.Response, error) {
				req.Body.Close()
				b, _ := req.GetBody()
				_, err := b.Read(nil)
				b.Close()
				return nil, err
			}, want: Outcome{Fault: errBoom, BadBody: true}},
		"is closed the second time": {body: five, copy: func() (io.ReadCloser, error) { return fails(), nil },
			base: func(req *http.Request) (*http.Response, error) {
				b, _ := req.GetBody()
				b.Close()
				b.Read(nil)
				return nil, io.EOF
			}, want: Outcome{Fault: io.EOF}},
		"is of the right length the second time": {body: five,
			copy: func() (io.ReadCloser, error) { return five(), nil },
			base: func(req *http.Request) (*http.Response, error) {
				io.Copy(io.Discard, req.Body)
				b, _ := req.GetBody()
				io.Copy(io.Discard, b)
				return nil, io.EOF
			}, want: Outcome{Fault: io.EOF}},
	} {
		bubble(t, name, func(t *testing.T) {
			r := newRig(t, trip(c.base))
			req := request(t.Context(), c.body())
			req.ContentLength, req.GetBody = 5, c.copy
			if resp, err := r.RoundTrip(req); err == nil && resp.Body != nil {
				resp.Body.Read(nil)
			}
			r.ended(c.want)
		})
	}
}

// ownClose is a reader that has a Close, so that net/http does not know it.
type ownClose struct{ io.Reader }

func (ownClose) Close() error { return nil }

// Small bodies in memory are sent as they are, and all others are watched, by a layer that asks for it.
func TestWhatIsWatched(t *testing.T) {
	const limit = 64 << 10
	large := strings.Repeat("x", limit+1)
	for name, c := range map[string]struct {
		body    io.ReadCloser
		watched bool
	}{
		"none":                     {nil, false},
		"NoBody":                   {http.NoBody, false},
		"bytes.Reader":             {io.NopCloser(bytes.NewReader([]byte(large[:limit]))), false},
		"bytes.Buffer":             {io.NopCloser(bytes.NewBufferString(large[:limit])), false},
		"strings.Reader":           {io.NopCloser(strings.NewReader(large[:limit])), false},
		"an empty one":             {io.NopCloser(strings.NewReader("")), false},
		"twice a NopCloser":        {io.NopCloser(io.NopCloser(strings.NewReader("abc"))), false},
		"large bytes.Reader":       {io.NopCloser(bytes.NewReader([]byte(large))), true},
		"large bytes.Buffer":       {io.NopCloser(bytes.NewBufferString(large)), true},
		"large strings.Reader":     {io.NopCloser(strings.NewReader(large)), true},
		"a reader":                 {io.NopCloser(io.MultiReader()), true},
		"a reader that writes":     {io.NopCloser(struct{ *bytes.Buffer }{bytes.NewBufferString("abc")}), true},
		"a small one with a Close": {ownClose{strings.NewReader("abc")}, true},
		"a NopCloser of nothing":   {io.NopCloser(nil), true},
		"a pointer":                {&ownClose{strings.NewReader("abc")}, true},
	} {
		for _, layers := range [][]string{{"watch"}, {"watch", "permit"}, {"uploads"}, {"bound"}, {"uploads", "watch"}, all} {
			bubble(t, name+"/"+strings.Join(layers, " "), func(t *testing.T) {
				watched := false
				r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
					watched = req.Body != c.body
					return reply(req, 200, nil), nil
				}), layers...)
				req := request(t.Context())
				req.Body = c.body
				if resp, err := r.RoundTrip(req); err != nil || resp.Request != req || req.Body != c.body {
					t.Error(err, resp.Request, req.Body)
				}
				asked := layers[0] == "uploads" || slices.Contains(layers, "bound")
				if want := c.watched && asked; watched != want {
					t.Errorf("watched: %v, want %v", watched, want)
				}
				r.ended(Outcome{})
			})
		}
	}
}

// A watched body is read as it is, but in pieces that a slow link can take, and closed once.
func TestWatchedBody(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := newFake(func(p []byte) (int, error) { return len(p), nil })
		b.close = func() error { return errBoom }
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			for _, n := range [][2]int{{0, 0}, {1, 1}, {32 << 10, 32 << 10}, {512 << 10, 32 << 10}} {
				if got, err := req.Body.Read(make([]byte, n[0])); got != n[1] || err != nil {
					t.Errorf("%d of %d, %v", got, n[0], err)
				}
			}
			if req.GetBody != nil {
				t.Error("a GetBody that the caller has not")
			}
			if one, two := req.Body.Close(), req.Body.Close(); one != errBoom || two != nil {
				t.Error(one, two)
			}
			return reply(req, 200, nil), nil
		}))
		r.RoundTrip(request(t.Context(), b))
		if b.count() != 1 {
			t.Errorf("closed %d times", b.count())
		}
		r.ended(Outcome{})
	})
}

// An interruption closes a body that the transport waits for, and blames nobody who was not waited for.
func TestInterruptedUpload(t *testing.T) {
	for _, c := range []struct {
		name string
		base func(req *http.Request) // until the interruption, after a second
		idle time.Duration
	}{
		{"in its Read", func(req *http.Request) { req.Body.Read(nil) }, 1},
		{"before it", func(req *http.Request) { <-req.Context().Done() }, 0},
	} {
		for _, broken := range []func() error{nil, func() error { panic(errBoom) }} {
			bubble(t, c.name, func(t *testing.T) {
				b := newFake(nil)
				b.read = func([]byte) (int, error) { <-b.closed; return 0, errBoom }
				b.close = broken
				r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
					c.base(req)
					synctest.Wait()
					req.Body.Close()
					return nil, errBoom
				}))
				r.total = time.Second
				if _, err := r.RoundTrip(request(t.Context(), b)); err != errBound {
					t.Error(err)
				}
				r.ended(Outcome{Fault: errBound, By: Bound, Idle: c.idle})
				if b.count() != 1 {
					t.Errorf("closed %d times", b.count())
				}
			})
		}
	}
	bubble(t, "sent a second time", func(t *testing.T) {
		again := newFake(nil)
		again.read = func([]byte) (int, error) { <-again.closed; return 0, errBoom }
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			req.Body.Close()
			b, _ := req.GetBody()
			_, err := b.Read(nil)
			return nil, err
		}))
		r.total = time.Second
		req := request(t.Context(), text("abc"))
		req.GetBody = func() (io.ReadCloser, error) { return again, nil }
		r.RoundTrip(req)
		r.ended(Outcome{Fault: errBound, By: Bound, Idle: 1})
	})
	both(t, "over a transport", testserver.HangUnread(), func(t *testing.T, s *system) {
		b := newFake(nil)
		b.read = func([]byte) (int, error) { <-b.closed; return 0, errBoom }
		r := newRig(t, s.base)
		r.total = time.Second
		if _, err := r.RoundTrip(s.request(t.Context(), b)); err != errBound {
			t.Error(err)
		}
		r.ended(Outcome{Fault: errBound, By: Bound, Idle: 1})
		if at := r.last().at[0]; at != time.Second {
			t.Error(at)
		}
	})
	bubble(t, "of a body that had failed", func(t *testing.T) {
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			req.Body.Read(nil)
			<-req.Context().Done()
			return nil, context.Cause(req.Context())
		}))
		r.total = time.Second
		r.RoundTrip(request(t.Context(), newFake(func([]byte) (int, error) { return 0, errBoom })))
		r.ended(Outcome{Fault: errBound, By: Bound, Idle: 1})
	})
	bubble(t, "in a Read of the answer", func(t *testing.T) { // which is what is waited for
		body, w := io.Pipe()
		defer w.Close()
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			go req.Body.Read(make([]byte, 1))
			return reply(req, http.StatusOK, stuck(req.Context(), 0)), nil
		}))
		r.total = time.Second
		resp, _ := r.RoundTrip(request(t.Context(), body))
		if _, err := resp.Body.Read(make([]byte, 1)); err != errBound {
			t.Error(err)
		}
		r.ended(Outcome{Fault: errBound, By: Bound})
	})
}
