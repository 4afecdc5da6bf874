package faultproxy_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/resilient-go/resilient/internal/faultproxy"
)

const ms = time.Millisecond

// A rig is a proxy with one connection through it, both of whose ends are the test's.
type rig struct {
	*testing.T
	proxy          *Proxy
	listener       net.Listener
	client, server *net.TCPConn
}

func newRig(t *testing.T) *rig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute))
	p, err := Start(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, proxy: p, listener: l}
	t.Cleanup(func() {
		r.client.Close()
		r.server.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if n := p.Open(); n != 0 {
			t.Errorf("%d connections after Close", n)
		}
		l.Close()
	})
	r.client, r.server = r.connect()
	return r
}

func (r *rig) connect() (client, server *net.TCPConn) {
	r.Helper()
	c, err := net.DialTimeout("tcp", r.proxy.Addr(), 10*time.Second)
	if err != nil {
		r.Fatal(err)
	}
	s, err := r.listener.Accept()
	if err != nil {
		r.Fatal(err)
	}
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

func (r *rig) send(to io.Writer, text string) {
	r.Helper()
	if _, err := io.WriteString(to, text); err != nil {
		r.Error(err)
	}
}

// gets checks that exactly want comes, with nothing after it for a while.
func (r *rig) gets(from net.Conn, want string) {
	r.Helper()
	r.receives(from, want)
	r.quiet(from)
}

func (r *rig) receives(from net.Conn, want string) {
	r.Helper()
	buf := make([]byte, len(want))
	from.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := io.ReadFull(from, buf); err != nil || string(buf) != want {
		r.Fatalf("got %q, %v, want %q", buf[:n], err, want)
	}
}

func (r *rig) quiet(from net.Conn) {
	r.Helper()
	r.ends(from, os.ErrDeadlineExceeded, 50*ms)
}

// ends checks that nothing comes from a connection but err.
func (r *rig) ends(from net.Conn, want error, within time.Duration) {
	r.Helper()
	from.SetReadDeadline(time.Now().Add(within))
	n, err := from.Read(make([]byte, 1))
	if n != 0 || !errors.Is(err, want) {
		r.Fatalf("got %d bytes, %v, want %v", n, err, want)
	}
}

func (r *rig) is(err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("got %v, want %v", err, want)
	}
}

// patience is how long to wait for err: not long for the passing of the time.
func patience(err error) time.Duration {
	if err == os.ErrDeadlineExceeded {
		return 100 * ms
	}
	return 10 * time.Second
}

func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func TestPasses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	big := strings.Repeat("0123456789", 50_000)
	for _, f := range []Fault{{}, {Slice: 777}, {Jitter: 5 * ms}, {Bandwidth: 10_000_000}, {After: 1 << 30, End: Reset}} {
		r.proxy.Set(ToServer, f)
		r.proxy.Set(ToClient, f)
		go io.WriteString(r.client, big)
		r.receives(r.server, big)
		go io.WriteString(r.server, big)
		r.receives(r.client, big)
	}
	r.proxy.Heal()
	r.client.CloseWrite()
	r.ends(r.server, io.EOF, 10*time.Second)
	r.send(r.server, "still there")
	r.receives(r.client, "still there")
	r.server.Close()
	r.ends(r.client, io.EOF, 10*time.Second)
	await(t, func() bool { return r.proxy.Open() == 0 })
	if n := r.proxy.Accepted(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A reset of one side's own making reaches the other side as one.
func TestPassesReset(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.send(r.client, "x")
	r.receives(r.server, "x")
	r.server.SetLinger(0)
	r.server.Close()
	r.ends(r.client, syscall.ECONNRESET, 10*time.Second)
}

func TestLatency(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.Set(ToClient, Fault{Latency: 500 * ms})
	if d := took(func() { r.send(r.client, "there"); r.receives(r.server, "there") }); d > 400*ms {
		t.Errorf("the other direction: %v", d)
	}
	all := took(func() {
		for range 5 { // pieces that do not wait for one another
			r.send(r.server, "x")
			time.Sleep(10 * ms)
		}
		r.receives(r.client, "xxxxx")
	})
	if all < 500*ms || all > 2000*ms {
		t.Errorf("five pieces in %v", all)
	}
	r.proxy.Set(ToClient, Fault{Jitter: 100 * ms})
	r.send(r.server, "in order")
	r.receives(r.client, "in order")
}

func TestBandwidth(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.Set(ToClient, Fault{Bandwidth: 10_000})
	data := strings.Repeat("x", 10_000)
	r.send(r.server, data)
	first := took(func() { r.receives(r.client, "x") })
	all := first + took(func() { r.receives(r.client, data[1:]) })
	if first > 800*ms || all < 900*ms {
		t.Errorf("the first byte after %v, all after %v", first, all)
	}
}

// A thousand bytes in a second are one every millisecond, and not twenty every twenty.
func TestSlice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.Set(ToClient, Fault{Slice: 1, Bandwidth: 1000})
	text := strings.Repeat("x", 20)
	if d := took(func() { r.send(r.server, text); r.receives(r.client, text) }); d < 19*ms {
		t.Errorf("twenty bytes in %v", d)
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name           string
		fault          Fault
		client, server error // of a Read
	}{
		{"half-close", Fault{End: HalfClose}, io.EOF, os.ErrDeadlineExceeded},
		{"cut", Fault{End: Cut}, io.EOF, io.EOF},
		{"reset", Fault{End: Reset}, syscall.ECONNRESET, syscall.ECONNRESET},
		{"silence", Fault{End: Silence}, os.ErrDeadlineExceeded, os.ErrDeadlineExceeded},
	} {
		check := func(r *rig) {
			r.Helper()
			r.ends(r.client, row.client, patience(row.client))
			r.ends(r.server, row.server, patience(row.server))
			if row.server == os.ErrDeadlineExceeded { // the other direction is there
				r.send(r.client, "up")
				r.receives(r.server, "up")
			}
		}
		t.Run(row.name+" at once", func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.proxy.Set(ToClient, row.fault) // while both readers wait
			check(r)
		})
		t.Run(row.name+" from the start", func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.proxy.Set(ToClient, row.fault)
			c, err := net.Dial("tcp", r.proxy.Addr())
			if err != nil { // the reset was there before connect(2) returned
				r.is(err, row.client)
				return
			}
			s, err := r.listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			r.client.Close()
			r.server.Close()
			r.client, r.server = c.(*net.TCPConn), s.(*net.TCPConn)
			check(r)
		})
		t.Run(row.name+" after 5", func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.proxy.Set(ToClient, Fault{After: 5, End: row.fault.End})
			r.send(r.server, "abc")
			r.receives(r.client, "abc")
			r.send(r.server, "defghi")
			r.receives(r.client, "de")
			check(r)
		})
	}
}

// A black hole holds back what is sent until its sender can send no more, and gives it out when it has healed.
func TestSilence(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.Set(ToServer, Fault{After: 2, End: Silence})
	r.send(r.client, "abcdef")
	r.gets(r.server, "ab")
	r.proxy.Set(ToServer, Fault{After: 1, End: Silence}) // counts anew
	r.gets(r.server, "c")
	r.proxy.Heal()
	r.gets(r.server, "def")

	r.proxy.Set(ToServer, Fault{End: Silence})
	r.client.SetWriteDeadline(time.Now().Add(300 * ms))
	if _, err := r.client.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("64 MiB were taken: %v", err)
	}
}

// After is of each connection.
func TestAfter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.Set(ToClient, Fault{After: 3, End: Cut})
	for range 3 {
		c, s := r.connect()
		r.send(s, "abcdef")
		r.receives(c, "abc")
		r.ends(c, io.EOF, 10*time.Second)
		c.Close()
		s.Close()
	}
}

// The connections to come can be spared.
func TestSetNew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.send(r.client, "the proxy knows it")
	r.receives(r.server, "the proxy knows it")
	r.proxy.Set(ToClient, Fault{End: Silence})
	r.proxy.SetNew(ToClient, Fault{})
	c, s := r.connect()
	r.send(r.server, "x")
	r.send(s, "y")
	r.receives(c, "y")
	r.quiet(r.client)
	c.Close()
	s.Close()
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 2 {
		if err := r.proxy.Refuse(); err != nil {
			t.Fatal(err)
		}
		if _, err := net.Dial("tcp", r.proxy.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v", err)
		}
		r.send(r.client, "goes on")
		r.receives(r.server, "goes on")
		if err := errors.Join(r.proxy.Accept(), r.proxy.Accept()); err != nil {
			t.Fatal(err)
		}
		c, s := r.connect()
		c.Close()
		s.Close()
	}
}

func TestIgnore(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux drops SYNs to a full queue")
	}
	t.Parallel()
	r := newRig(t)
	for range 2 {
		if err := r.proxy.Ignore(); err != nil {
			t.Fatal(err)
		}
		if err := r.proxy.Ignore(); err == nil {
			t.Error("twice")
		}
		if _, err := net.DialTimeout("tcp", r.proxy.Addr(), 300*ms); !os.IsTimeout(err) {
			t.Errorf("got %v", err)
		}
		r.send(r.client, "goes on")
		r.receives(r.server, "goes on")
		if err := r.proxy.Heal(); err != nil {
			t.Fatal(err)
		}
		c, s := r.connect()
		c.Close()
		s.Close()
	}
	await(t, func() bool { return r.proxy.Accepted() == 3 })
}

func TestClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.Set(ToClient, Fault{Latency: time.Hour})
	r.proxy.Set(ToServer, Fault{End: Silence})
	r.send(r.server, "x")
	r.send(r.client, "x")
	if d := took(func() { r.proxy.Close() }); d > 5*time.Second {
		t.Errorf("Close took %v", d)
	}
	r.client.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := r.client.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the client's connection: %v", err) // EOF, or a RST since there is something unread
	}
	if err := r.proxy.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	if err := r.proxy.Ignore(); err == nil {
		t.Error("Ignore succeeded")
	}
}

// A target that is not there closes the client's connection.
func TestNoTarget(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.listener.Close()
	c, err := net.Dial("tcp", r.proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r.ends(c, io.EOF, 10*time.Second)
}

func await(t *testing.T, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(5 * ms)
	}
	t.Fatal("not within five seconds")
}

// No goroutine is left of any test.
func TestMain(m *testing.M) {
	code := m.Run()
	buf := make([]byte, 1<<20)
	for range 100 {
		if buf = buf[:runtime.Stack(buf[:cap(buf)], true)]; !bytes.Contains(buf, []byte("internal/faultproxy.")) {
			os.Exit(code)
		}
		time.Sleep(10 * ms)
	}
	os.Stderr.Write(buf)
	os.Exit(1)
}
