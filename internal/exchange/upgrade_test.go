package exchange_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A conn is what the body of a 101 response is over HTTP/1.1.
type conn struct{ *fake }

func (conn) Write(p []byte) (int, error) { return len(p), nil }

// A halfConn can be closed in one direction.
type halfConn struct{ conn }

func (halfConn) CloseWrite() error { return errBoom }

func upgradeTo(b io.ReadCloser) trip {
	return func(req *http.Request) (*http.Response, error) {
		return reply(req, http.StatusSwitchingProtocols, b), nil
	}
}

// handshake checks that only the handshake's part of the last exchange has ended, and as one.
func (r *rig) handshake() {
	r.Helper()
	r.held(2)
	x := r.last()
	if want := []string{"bound", "slot"}; !slices.Equal(x.ended, want) {
		r.Errorf("ended %v, want %v", x.ended, want)
	}
	for _, how := range x.how {
		if how != (Outcome{Upgraded: true}) {
			r.Errorf("the handshake ended with %+v", how)
		}
	}
}

// How an upgraded connection ends, and what does not end it.
func TestUpgradeEnds(t *testing.T) {
	for name, c := range map[string]struct {
		read func(b *fake) func([]byte) (int, error)
		act  func(t *testing.T, r *rig, b io.ReadCloser, cancel context.CancelFunc)
		want Outcome
	}{
		"Close": {
			act: func(_ *testing.T, _ *rig, b io.ReadCloser, _ context.CancelFunc) { b.Close() },
		},
		"EOF, which does not": {
			act: func(t *testing.T, r *rig, b io.ReadCloser, _ context.CancelFunc) {
				for range 2 {
					if _, err := b.Read(nil); err != io.EOF {
						t.Error(err)
					}
					r.handshake()
				}
				b.Close()
			},
		},
		"a Read error": {
			read: func(*fake) func([]byte) (int, error) {
				return func([]byte) (int, error) { return 0, errBoom }
			},
			act: func(t *testing.T, _ *rig, b io.ReadCloser, _ context.CancelFunc) {
				if _, err := b.Read(nil); err != errBoom {
					t.Error(err)
				}
			},
			want: Outcome{Fault: errBoom},
		},
		"a panic in Read": {
			read: func(*fake) func([]byte) (int, error) {
				return func([]byte) (int, error) { panic(errBoom) }
			},
			act: func(t *testing.T, _ *rig, b io.ReadCloser, _ context.CancelFunc) {
				if e := panics(func() { b.Read(nil) }); e != errBoom {
					t.Error(e)
				}
			},
			want: Outcome{Fault: errAny, Panicked: true},
		},
		"the caller's context, which does not": {
			act: func(t *testing.T, r *rig, b io.ReadCloser, cancel context.CancelFunc) {
				cancel()
				synctest.Wait()
				r.handshake()
				if _, err := b.Read(nil); err != io.EOF {
					t.Error(err)
				}
				if err := r.last().Context().Err(); err != nil {
					t.Error(err)
				}
				r.handshake()
				b.Close()
			},
		},
		"the caller's context, which is no cause": {
			read: func(*fake) func([]byte) (int, error) {
				return func([]byte) (int, error) { return 0, errBoom }
			},
			act: func(t *testing.T, _ *rig, b io.ReadCloser, cancel context.CancelFunc) {
				cancel()
				if _, err := b.Read(nil); err != errBoom {
					t.Error(err)
				}
			},
			want: Outcome{Fault: errBoom},
		},
		"a bound, which does not": {
			act: func(_ *testing.T, r *rig, b io.ReadCloser, _ context.CancelFunc) {
				time.Sleep(time.Hour) // over the total, whose timer has stopped
				r.interrupt(Bound)    // as if it had not
				r.handshake()
				b.Close()
			},
		},
		"the owner": {
			act: func(t *testing.T, r *rig, b io.ReadCloser, _ context.CancelFunc) {
				r.interrupt(Owner)
				r.settled()
				if _, err := b.Read(nil); err != errOwner {
					t.Error(err)
				}
			},
			want: Outcome{Fault: errOwner, By: Owner, Idle: math.MaxInt64},
		},
		"the owner, after the caller's context": {
			act: func(_ *testing.T, r *rig, _ io.ReadCloser, cancel context.CancelFunc) {
				cancel()
				synctest.Wait()
				r.interrupt(Owner)
			},
			want: Outcome{Fault: errOwner, By: Owner, Idle: math.MaxInt64},
		},
		"the owner, in a Read": {
			read: func(b *fake) func([]byte) (int, error) {
				return func([]byte) (int, error) { <-b.closed; return 0, io.EOF }
			},
			act: func(t *testing.T, r *rig, b io.ReadCloser, _ context.CancelFunc) {
				time.AfterFunc(time.Second, func() { r.interrupt(Owner) })
				if _, err := b.Read(nil); err != errOwner {
					t.Error(err)
				}
			},
			want: Outcome{Fault: errOwner, By: Owner},
		},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b := text("")
			if c.read != nil {
				b.read = c.read(b)
			}
			r := newRig(t, upgradeTo(conn{b}))
			r.total = time.Minute
			resp, err := r.RoundTrip(request(ctx))
			if err != nil {
				t.Fatal(err)
			}
			r.handshake()
			c.act(t, r, resp.Body, cancel)
			c.want.Upgraded = true
			r.ended(c.want)
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
			r.ended(c.want)
		})
	}
}

// Over a real connection: it is spoken on after the caller's context and the total have ended.
func TestUpgradeOverHTTP1(t *testing.T) {
	for name, end := range map[string]func(r *rig, b io.ReadCloser) Outcome{
		"Close": func(_ *rig, b io.ReadCloser) Outcome { b.Close(); return Outcome{Upgraded: true} },
		"the owner": func(r *rig, _ io.ReadCloser) Outcome {
			r.interrupt(Owner)
			return Outcome{Fault: errOwner, By: Owner, Upgraded: true, Idle: time.Second}
		},
		"CloseWrite, then EOF, then Close": func(r *rig, b io.ReadCloser) Outcome {
			if err := b.(interface{ CloseWrite() error }).CloseWrite(); err != nil && !errors.Is(err, http.ErrNotSupported) {
				r.Error(err)
			} else if err == nil {
				if _, err := b.Read(make([]byte, 1)); err != io.EOF {
					r.Error(err)
				}
			}
			r.handshake()
			b.Close()
			return Outcome{Upgraded: true}
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s := serve(t, testserver.HTTP1, testserver.Upgrade())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := newRig(t, s.base)
			r.total = time.Minute
			req := s.request(ctx)
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "echo")
			resp, err := r.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusSwitchingProtocols {
				t.Fatal(resp.Status)
			}
			r.handshake()
			lines := bufio.NewReader(resp.Body)
			for range 3 {
				if _, err := io.WriteString(resp.Body.(io.Writer), "ping\n"); err != nil {
					t.Error(err)
				}
				if line, err := lines.ReadString('\n'); line != "ping\n" || err != nil {
					t.Errorf("%q, %v", line, err)
				}
				cancel()
				time.Sleep(time.Hour)
				r.handshake()
			}
			io.WriteString(resp.Body.(io.Writer), "ping\n")
			lines.ReadString('\n')
			time.Sleep(time.Second)
			r.ended(end(r, resp.Body))
			if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
				t.Error("a Read afterwards")
			}
		})
	}
}

// The writer of a 101's body is kept, and no other's.
func TestWriter(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   io.ReadCloser
		writer bool
	}{
		"101":                  {101, conn{text("")}, true},
		"101 without a writer": {101, text(""), false},
		"200 with a writer":    {200, conn{text("")}, false},
	} {
		bubble(t, name, func(t *testing.T) {
			r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
				return reply(req, c.status, c.body), nil
			}))
			resp, _ := r.RoundTrip(request(t.Context()))
			if w, ok := resp.Body.(io.Writer); ok != c.writer {
				t.Errorf("a writer: %v", ok)
			} else if ok {
				r.handshake()
				if n, err := w.Write([]byte("abc")); n != 3 || err != nil {
					t.Error(n, err)
				}
			} else {
				r.held(4)
			}
			resp.Body.Close()
			r.ended(Outcome{Upgraded: c.writer})
		})
	}
	bubble(t, "CloseWrite", func(t *testing.T) {
		for body, want := range map[io.ReadCloser]error{conn{text("")}: http.ErrNotSupported, halfConn{conn{text("")}}: errBoom} {
			r := newRig(t, upgradeTo(body))
			resp, _ := r.RoundTrip(request(t.Context()))
			if err := resp.Body.(interface{ CloseWrite() error }).CloseWrite(); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			r.handshake()
			resp.Body.Close()
			r.ended(Outcome{Upgraded: true})
		}
	})
}

// An End of the handshake that panics ends the rest too.
func TestPanicInHandshake(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := text("")
		r := newRig(t, upgradeTo(conn{b}))
		r.end = func(layer string, _ *Exchange, _ Outcome) {
			if layer == "slot" {
				panic(errBoom)
			}
		}
		if e := panics(func() { r.RoundTrip(request(t.Context())) }); e != errBoom {
			t.Error(e)
		}
		r.ended(Outcome{Fault: errAny, Panicked: true, Upgraded: true})
		if b.count() != 1 {
			t.Error("not closed")
		}
	})
}
