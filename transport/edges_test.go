package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/transport"
)

// A scripted connection says what is set on it.
type deadlines struct {
	net.Conn
	set int
}

func (c *deadlines) SetDeadline(time.Time) error { c.set++; return nil }
func (c *deadlines) Write(p []byte) (int, error) { return len(p), nil }
func (c *deadlines) Read(p []byte) (int, error)  { return copy(p, "HTTP/1.1 200 OK\r\n\r\n"), nil }
func dialled(c net.Conn) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return c, nil }
}

// A Dialer bounds the dial and what is said to a proxy, also by a nanosecond; without a Timeout it bounds nothing.
func TestDialerBounds(t *testing.T) {
	for timeout, bounded := range map[time.Duration]bool{0: false, 1: true} {
		c := &deadlines{}
		conn, err := (&transport.Dialer{Timeout: timeout, Dial: dialled(c)}).DialContext(t.Context(), "tcp", "proxy.test:1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(nil); err != nil || c.set != 0 {
			t.Errorf("nothing was said: %v, %d deadlines", err, c.set)
		}
		_, _ = io.WriteString(conn, "CONNECT sber.test:443 HTTP/1.1\r\n\r\n")
		if (c.set == 1) != bounded {
			t.Errorf("%v: %d deadlines", timeout, c.set)
		}
		before := c.set
		for range 3 { // the first answer lifts it, and no other does anything
			_, _ = conn.Read(make([]byte, 100))
		}
		if want := before * 2; c.set != want {
			t.Errorf("%v: %d deadlines after the answers, want %d", timeout, c.set, want)
		}
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("CloseWrite: %v", err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		_, err := (&transport.Dialer{Timeout: 1, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}).DialContext(t.Context(), "tcp", "sber.test:1")
		if n, ok := errors.AsType[net.Error](err); !ok || !n.Timeout() || n.Temporary() { //nolint:staticcheck // Temporary is part of net.Error
			t.Errorf("%v", err)
		}
	})
	var dialCtx context.Context
	_, _ = (&transport.Dialer{Timeout: time.Hour, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		dialCtx = ctx
		return &deadlines{}, nil
	}}).DialContext(t.Context(), "tcp", "sber.test:1")
	if dialCtx.Err() == nil {
		t.Error("the dial's context goes on when the dial is over")
	}
}

// The limit of a body: the layer's, or what the request asks for, or none for a stream that does not ask.
func TestLimits(t *testing.T) {
	body := fake(func(req *http.Request) (*http.Response, error) {
		return response(req, 200, io.MultiReader(strings.NewReader("ab"), strings.NewReader("cd"))), nil
	})
	for _, c := range []struct {
		name         string
		layer, asked transport.Bounds
		want         string
	}{
		{"none", transport.Bounds{Total: sec}, transport.Bounds{}, "abcd"},
		{"exactly", transport.Bounds{Total: sec, MaxBytes: 4}, transport.Bounds{}, "abcd"},
		{"one too many", transport.Bounds{Total: sec, MaxBytes: 3}, transport.Bounds{}, "abc!"},
		{"one byte", transport.Bounds{Total: sec, MaxBytes: 1}, transport.Bounds{}, "a!"},
		{"without another bound", transport.Bounds{MaxBytes: 1}, transport.Bounds{}, "a!"},
		{"asked for less", transport.Bounds{Total: sec, MaxBytes: 100}, transport.Bounds{MaxBytes: 1}, "a!"},
		{"asked for more", transport.Bounds{Total: sec, MaxBytes: 1}, transport.Bounds{MaxBytes: 100}, "abcd"},
		{"lifted", transport.Bounds{Total: sec, MaxBytes: 1}, transport.Bounds{MaxBytes: transport.Unbounded}, "abcd"},
		{"asked for time", transport.Bounds{Total: sec, MaxBytes: 1}, transport.Bounds{Total: time.Hour}, "a!"},
		{"asked for silence", transport.Bounds{Total: sec, MaxBytes: 1}, transport.Bounds{Read: time.Hour}, "a!"},
		{"a stream", transport.Bounds{Total: sec, MaxBytes: 1}, transport.Bounds{Total: transport.Unbounded}, "abcd"},
		{"a stream with a limit", transport.Bounds{Total: sec, MaxBytes: 1}, transport.Bounds{Total: transport.Unbounded, MaxBytes: 2}, "ab!"},
	} {
		rt := transport.Chain(body, transport.Timeout("sber", c.layer))
		got, err := read(rt.RoundTrip(newRequest(t, transport.WithBounds(t.Context(), c.asked), "GET", "http://sber.test/", nil)))
		if errors.Is(err, transport.ErrTooLarge) {
			got, err = got+"!", nil
		}
		if got != c.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	asked := 0
	resp, err := transport.Chain(fake(func(req *http.Request) (*http.Response, error) {
		return response(req, 200, readerFunc(func(p []byte) (int, error) { asked = len(p); return len(p), nil })), nil
	}), transport.Timeout("sber", transport.Bounds{Total: sec, MaxBytes: 2})).RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := resp.Body.Read(make([]byte, 4)); n != 2 || !errors.Is(err, transport.ErrTooLarge) || asked != 3 { // the third shows that there is more
		t.Errorf("%d bytes, %v, %d asked for", n, err, asked)
	}
	if err := error(&transport.TooLargeError{}); !errors.Is(err, transport.ErrTooLarge) || errors.Is(err, transport.ErrTimeout) {
		t.Error("what a TooLargeError is")
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Without a total those below are told of no deadline but the caller's.
func TestNoTotalNoDeadline(t *testing.T) {
	for total, want := range map[time.Duration]bool{0: false, transport.Unbounded: false, time.Hour: true} {
		rt := transport.Chain(fake(func(req *http.Request) (*http.Response, error) {
			if _, ok := req.Context().Deadline(); ok != want {
				t.Errorf("total %v: a deadline: %t", total, ok)
			}
			return response(req, 200, strings.NewReader("")), nil
		}), transport.Timeout("sber", transport.Bounds{Total: total, Read: sec}))
		if _, err := read(rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))); err != nil {
			t.Error(err)
		}
	}
}

// An answer is slow that took longer than SlowCall, not one that took as long.
func TestSlowIsLonger(t *testing.T) {
	for after, want := range map[time.Duration]string{sec: "closed", sec + 1: "open"} {
		synctest.Test(t, func(t *testing.T) {
			j := newJudge(t, config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, SlowCall: sec})
			j.after = after
			_ = j.do("s")
			j.is(want)
		})
	}
}

// A state is forced for as long as was asked for, and a breaker that has closed has nothing more to explain.
func TestForcedForANanosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 1})
		j.ForceOpen(1)
		j.is("forced_open")
		time.Sleep(2)
		j.is("closed")
		_ = j.do("f")
		if s := j.State(); s.Reason == "" || s.FailureRate == 0 {
			t.Errorf("open: %+v", s)
		}
		time.Sleep(30*sec + 1)
		_ = j.do("s")
		if s := j.State(); s.State != "closed" || s.Reason != "" || s.FailureRate != 0 {
			t.Errorf("closed: %+v", s)
		}
	})
}

// A probe that nothing bounds keeps a half-open breaker from deciding for twice TotalTimeout, and not longer.
func TestProbeThatNothingBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, config.Breaker{MinRequests: 1, ConsecutiveFailures: 1, HalfOpenProbes: 1})
		_ = j.do("f")
		time.Sleep(30*sec + 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = j.Wrap(fake(hang)).RoundTrip(newRequest(t, ctx, "GET", "http://sber.test/", nil))
		}()
		synctest.Wait()
		time.Sleep(14*sec - 1) // twice TotalTimeout
		j.refused()
		time.Sleep(2)
		if err := j.do("s"); err != nil {
			t.Error(err)
		}
		j.is("closed")
		cancel()
		<-done
	})
}

type several []error

func (several) Error() string     { return "several" }
func (s several) Unwrap() []error { return s }

// Of several errors each one has to prove that nothing was sent; none proves nothing.
func TestNotSentOfJoined(t *testing.T) {
	refused := error(&transport.OpenError{System: "sber"})
	for _, c := range []struct {
		err  error
		want bool
	}{
		{several{}, false}, {several{refused}, true}, {several{refused, refused}, true},
		{several{refused, errDown}, false}, {several{errDown}, false}, {errors.Join(refused), true},
	} {
		if got := transport.NotSent(c.err); got != c.want {
			t.Errorf("%d: NotSent is %t", len(c.err.(interface{ Unwrap() []error }).Unwrap()), got)
		}
	}
}

// The time-outs of a transport that is not ours are a connect's where they were a dial's, and else what they were.
func TestForeignDialTimeouts(t *testing.T) {
	for op, connects := range map[string]bool{"dial": true, "proxyconnect": true, "read": false, "socks connect": false} {
		foreign := &net.OpError{Op: op, Net: "tcp", Err: os.ErrDeadlineExceeded}
		rt := transport.NewForeignTimeouts("sber", complete(t, config.Config{})).Wrap(fake(func(*http.Request) (*http.Response, error) {
			return nil, foreign
		}))
		_, err := rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))
		timeout, ok := errors.AsType[*transport.TimeoutError](err)
		if ok != connects || ok && (timeout.Phase != transport.PhaseConnect || timeout.Limit != 0) || !ok && err != error(foreign) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// Our own base says what is wrong with a URL, and not the scheme, which may be a user's name. A CONNECT may be the caller's own.
func TestOwnBaseOfBadRequests(t *testing.T) {
	cfg := complete(t, config.Config{})
	base := transport.Base(cfg)
	base.DialContext = (&transport.Dialer{Timeout: cfg.ConnectTimeout, Dial: refuse}).DialContext
	rt := transport.NewTimeouts("sber", cfg).Wrap(base)
	_, err := rt.RoundTrip(newRequest(t, t.Context(), "GET", "hunter2://sber.test/", nil))
	if _, ok := errors.AsType[*exchange.InvalidError](err); !ok || !strings.Contains(err.Error(), "neither http nor https") {
		t.Error(err)
	}
	for method, want := range map[string]bool{"POST": true, "CONNECT": false} {
		_, err := rt.RoundTrip(newRequest(t, t.Context(), method, "http://sber.test/", nil))
		if err == nil || transport.NotSent(err) != want {
			t.Errorf("%s: %v: NotSent is not %t", method, err, want)
		}
	}
}

// A TLS handshake's time-out has net/http's words.
func TestWordsOfTimeouts(t *testing.T) {
	for phase, want := range map[transport.Phase]string{
		transport.PhaseTLS:  "transport: sber: TLS handshake timeout of 1s: context deadline exceeded",
		transport.PhaseRead: "transport: sber: read timeout of 1s: context deadline exceeded",
	} {
		if got := (&transport.TimeoutError{System: "sber", Phase: phase, Limit: sec}).Error(); got != want {
			t.Errorf("%s", got)
		}
	}
}

// counted is a base that answers by number, and hears how often it was asked.
func counted(n *atomic.Int32, answers ...func(*http.Request) (*http.Response, error)) fake {
	return func(req *http.Request) (*http.Response, error) {
		i := int(n.Add(1)) - 1
		return answers[min(i, len(answers)-1)](req)
	}
}

func status(code int) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		return response(req, code, strings.NewReader("text")), nil
	}
}

// What is below 400 is no failure of an attempt, whatever the policy lists.
func TestRetryFrom400(t *testing.T) {
	for code, want := range map[int]int32{399: 1, 400: 2, 401: 2} {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int32
			p := attempts(2)
			p.Statuses = statuses("100-599")
			_, _ = read(newRetry(p).Wrap(counted(&n, status(code))).RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil)))
			if n.Load() != want {
				t.Errorf("%d: %d attempts", code, n.Load())
			}
		})
	}
}

// The caller's end is what the caller is told, though little was left of its deadline, and ends a pause without another attempt.
func TestRetryTellsTheCallersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := attempts(3)
		p.DeadlineFloor = 50 * ms
		ctx, cancel := context.WithTimeout(t.Context(), sec)
		defer cancel()
		time.Sleep(sec)
		synctest.Wait()
		var n atomic.Int32
		below := counted(&n, func(req *http.Request) (*http.Response, error) { return nil, req.Context().Err() })
		if _, err := newRetry(p).Wrap(below).RoundTrip(newRequest(t, ctx, "GET", "http://sber.test/", nil)); err != context.DeadlineExceeded || n.Load() != 1 {
			t.Errorf("%v after %d attempts", err, n.Load())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*ms, cancel)
		var n atomic.Int32
		var err error
		d := took(func() {
			_, err = newRetry(attempts(3)).Wrap(counted(&n, status(503))).RoundTrip(newRequest(t, ctx, "GET", "http://sber.test/", nil))
		})
		if !errors.Is(err, context.Canceled) || n.Load() != 1 || d != 50*ms {
			t.Errorf("%v after %d attempts and %v", err, n.Load(), d)
		}
	})
}

// Close ends a pause at once: the layers below then say what becomes of the attempt.
func TestRetryCloseEndsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := attempts(2)
		p.BaseDelay, p.MaxDelay, p.MaxElapsed = time.Hour, time.Hour, 0
		retry := newRetry(p)
		time.AfterFunc(50*ms, retry.Close)
		var n atomic.Int32
		if d := took(func() {
			_, _ = read(retry.Wrap(counted(&n, status(503))).RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil)))
		}); d != 50*ms || n.Load() != 2 {
			t.Errorf("%d attempts after %v", n.Load(), d)
		}
	})
}

// A refusal after an answer that could be kept returns that answer, also if an earlier one was given up.
func TestRetryKeepsWhatHadNoBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		base := counted(&n, status(503), func(req *http.Request) (*http.Response, error) {
			resp := response(req, 502, nil)
			resp.Body = http.NoBody
			return resp, nil
		}, func(*http.Request) (*http.Response, error) { return nil, &transport.OpenError{System: "sber"} })
		resp, err := newRetry(attempts(3)).Wrap(base).RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))
		if err != nil || resp.StatusCode != 502 || n.Load() != 3 {
			t.Errorf("%v, %v after %d attempts", resp, err, n.Load())
		}
	})
}

// A slow body is one that never ends, and takes its time to close.
type slowBody struct {
	closed chan struct{}
	shut   atomic.Bool
	when   time.Time
}

func (b *slowBody) Read([]byte) (int, error) { <-b.closed; return 0, io.ErrClosedPipe }

func (b *slowBody) Close() error {
	if b.shut.CompareAndSwap(false, true) {
		b.when = time.Now()
		close(b.closed)
		time.Sleep(sec)
	}
	return nil
}

// What does not end within 50 ms is closed then, and the next attempt does not begin before that is done.
func TestRetryDrainsFor50ms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &slowBody{closed: make(chan struct{})}
		var n atomic.Int32
		start := time.Now()
		var second time.Duration
		_, err := read(newRetry(attempts(2)).Wrap(counted(&n, func(req *http.Request) (*http.Response, error) {
			resp := response(req, 503, nil)
			resp.Body = b
			return resp, nil
		}, func(req *http.Request) (*http.Response, error) {
			second = time.Since(start)
			return status(200)(req)
		})).RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil)))
		if d := b.when.Sub(start); err != nil || d != 50*ms || second != sec+50*ms {
			t.Errorf("closed after %v, second attempt after %v, %v", d, second, err)
		}
	})
}

// As much as may be read is read to its end and no further, which only a Read beyond it can see.
func TestRetryReadsToTheEnd(t *testing.T) {
	for size, ended := range map[int]bool{4096: true, 4097: false} {
		synctest.Test(t, func(t *testing.T) {
			b := &ending{Reader: bytes.NewReader(make([]byte, size))}
			var n atomic.Int32
			_, _ = read(newRetry(attempts(2)).Wrap(counted(&n, func(req *http.Request) (*http.Response, error) {
				resp := response(req, 503, nil)
				resp.Body, resp.ContentLength = b, -1
				return resp, nil
			}, status(200))).RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil)))
			if b.end != ended {
				t.Errorf("%d bytes: read to the end: %t", size, b.end)
			}
		})
	}
}

type ending struct {
	io.Reader
	end bool
}

func (b *ending) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.end = b.end || err == io.EOF
	return n, err
}
func (b *ending) Close() error { return nil }

// A window of a nanosecond is one.
func TestBudgetOfANanosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		p := attempts(2)
		p.BudgetWindow, p.BudgetFloor = 1, 1
		_, _ = read(newRetry(p).Wrap(counted(&n, status(503))).RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil)))
		if n.Load() != 2 {
			t.Errorf("%d attempts", n.Load())
		}
	})
}

// Where a redirect has led, hop by hop, only the system's own host is told how much is left.
func TestDeadlineHeaderAfterRedirects(t *testing.T) {
	for hops, told := range map[string]bool{
		"sber": true, "sber sber": true, "sber sber sber": true, "sber evil": false, "sber evil sber": true, "sber sber evil": false, "? sber": false,
	} {
		t.Run(hops, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), sec)
				defer cancel()
				var req *http.Request
				for host := range strings.SplitSeq(hops, " ") {
					next := newRequest(t, ctx, "GET", "http://"+strings.Trim(host, "?")+"/", nil)
					if host == "?" {
						next.URL = nil
					}
					if req != nil {
						next.Response = &http.Response{Request: req}
					}
					req = next
				}
				p := attempts(1)
				p.DeadlineHeader = "X-Deadline-Ms"
				rt := newRetry(p).Wrap(fake(func(req *http.Request) (*http.Response, error) {
					if got := req.Header.Get("X-Deadline-Ms"); (got == "1000") != told {
						t.Errorf("told %q", got)
					}
					return status(200)(req)
				}))
				if _, err := read(rt.RoundTrip(req)); err != nil {
					t.Error(err)
				}
			})
		})
	}
	req := newRequest(t, t.Context(), "GET", "http://sber/", nil)
	req.URL = nil
	req.Response = &http.Response{Request: &http.Request{URL: &url.URL{Host: "sber"}}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	p := attempts(1)
	p.DeadlineHeader = "X-Deadline-Ms"
	_, err := read(newRetry(p).Wrap(fake(func(req *http.Request) (*http.Response, error) {
		if h := req.Header.Get("X-Deadline-Ms"); h != "" {
			t.Errorf("told %s", h)
		}
		return status(200)(req)
	})).RoundTrip(req.WithContext(ctx)))
	if err != nil {
		t.Error(err)
	}
}

// A Base dials as it promises, with nothing set on it.
func TestBaseDials(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	cfg := complete(t, config.Config{})
	_, err = transport.NewTimeouts("sber", cfg).Wrap(transport.Base(cfg)).RoundTrip(newRequest(t, t.Context(), "POST", url, nil))
	if !transport.NotSent(err) {
		t.Errorf("%v: NotSent is false", err)
	}
}
