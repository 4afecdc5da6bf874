//go:build linux && netns

package faults_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// What a proxy can't do: packets that vanish. The client and the system are in network namespaces of their own, with a virtual
// cable between them that can be pulled out. It needs root and iproute2; what is missing is skipped, and an error in CI.
//
//	go test -tags=netns ./internal/faults -run TestNetns

const (
	inside   = "RESILIENT_NETNS" // set in the process that runs in the client's namespace
	ci       = "RESILIENT_CI"
	ours     = "10.99.0.1"
	theirs   = "10.99.0.2"
	noHost   = "10.99.0.3" // does not answer ARP
	noRoute  = "10.99.1.1"
	ourEnd   = "client0"
	theirEnd = "system0"
	ourMAC   = "02:00:00:00:00:01"
	theirMAC = "02:00:00:00:00:02"
)

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv(ci) != "" {
		t.Fatalf("%s is missing, and $%s is set", what, ci)
	}
	t.Skipf("%s is missing", what)
}

// TestNetns runs the tests of this file again, in a process that has a network namespace of its own.
func TestNetns(t *testing.T) {
	if os.Getenv(inside) != "" {
		t.Skip("is inside")
	}
	if os.Geteuid() != 0 {
		missing(t, "root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		missing(t, "ip, of iproute2,")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestInside$", "-test.v", "-test.timeout=120s")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) {
		missing(t, "the right to a network namespace ("+err.Error()+")")
	}
	t.Logf("\n%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: TestInside") {
		t.Errorf("inside: %v", err)
	}
}

// A far is the system's namespace: a thread that is in it, and does what it is told.
type far struct {
	do   chan func()
	done chan struct{}
}

// newFar lays a cable between the namespace of this process and a new one.
func newFar(t *testing.T) *far {
	t.Helper()
	f := &far{do: make(chan func()), done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		started <- syscall.Unshare(syscall.CLONE_NEWNET)
		for task := range f.do {
			task()
			f.done <- struct{}{}
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ip(t, "link del %s", ourEnd)
		close(f.do)
	})
	thread := 0
	f.run(func() { thread = syscall.Gettid() })
	ip(t, "link set lo up")
	ip(t, "link add %s address %s type veth peer name %s address %s netns %d", ourEnd, ourMAC, theirEnd, theirMAC, thread)
	ip(t, "addr add %s/24 dev %s", ours, ourEnd)
	ip(t, "link set %s up", ourEnd)
	ip(t, "neigh add %s lladdr %s dev %s nud permanent", theirs, theirMAC, ourEnd) // ARP would take a second when the cable is back
	ip(t, "route add unreachable %s/32", noRoute)
	f.ip(t, "link set lo up")
	f.ip(t, "addr add %s/24 dev %s", theirs, theirEnd)
	f.ip(t, "link set %s up", theirEnd)
	f.ip(t, "neigh add %s lladdr %s dev %s nud permanent", ours, ourMAC, theirEnd)
	return f
}

func (f *far) run(task func()) {
	f.do <- task
	<-f.done
}

func (f *far) ip(t *testing.T, format string, args ...any) {
	t.Helper()
	f.run(func() { ip(t, format, args...) })
}

// ip runs ip in the namespace of the calling thread.
func ip(t *testing.T, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
		t.Errorf("ip %s: %v: %s", line, err, out)
	}
}

// pull pulls the cable out, at the system's end: the client's does not notice.
func (f *far) pull(t *testing.T) { t.Helper(); f.ip(t, "link set %s down", theirEnd) }
func (f *far) plug(t *testing.T) { t.Helper(); f.ip(t, "link set %s up", theirEnd) }

// drop has the system send nothing back, so that nobody can connect to it.
func (f *far) drop(t *testing.T)   { t.Helper(); f.ip(t, "route add blackhole %s/32", ours) }
func (f *far) undrop(t *testing.T) { t.Helper(); f.ip(t, "route del blackhole %s/32", ours) }

// bench is a client in this namespace, of a system in the far one.
func (f *far) bench(t *testing.T, c cell) *bench {
	t.Helper()
	b := &bench{cell: c, prom: prometheus.NewRegistry(), dialled: make(chan time.Time, 100), goOn: make(chan struct{})}
	system := httptest.NewUnstartedServer(http.HandlerFunc(b.answer))
	system.Listener.Close()
	var err error
	f.run(func() { system.Listener, err = net.Listen("tcp", theirs+":0") })
	if err != nil {
		t.Fatal(err)
	}
	b.addr = system.Listener.Addr().String()
	if c.protocol == testserver.HTTP1 {
		system.Start()
	} else {
		system.EnableHTTP2 = c.protocol == testserver.HTTP2
		system.StartTLS()
		b.tls = &tls.Config{RootCAs: system.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"}
	}
	b.url = system.URL
	if err := errors.Join(b.startClient(), b.halfOpen()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.received.Do(func() { close(b.goOn) })
		if err := b.stop(); err != nil {
			t.Error(err)
		}
		system.CloseClientConnections()
		system.Close()
	})
	return b
}

// again checks that the client works once the network does: at the latest when TCP has noticed.
func (b *bench) again(t *testing.T) {
	t.Helper()
	b.received.Do(func() { close(b.goOn) })
	var next error
	for range 20 {
		var err error
		if next, _, _, err = b.tryNext(); next == nil || err != nil {
			next = err
			break
		}
	}
	if next != nil {
		t.Errorf("when the network works again: %v", next)
	}
}

// TestInside is what TestNetns runs.
func TestInside(t *testing.T) {
	if os.Getenv(inside) == "" {
		t.Skip("runs within TestNetns")
	}
	f := newFar(t)
	t.Run("black hole", f.blackHole)
	t.Run("nobody", f.nobody)
	t.Run("loss", f.loss)
	t.Run("dead idle", f.deadIdle)
}

// A cable that is pulled out shows what the proxy's black hole does.
func (f *far) blackHole(t *testing.T) {
	want, _ := wanted()
	for _, c := range every() {
		if c.harm.name != hole || c.phase == connect || c.phase == shake || c.phase == upgrade {
			continue
		}
		t.Run(c.String(), func(t *testing.T) {
			b := f.bench(t, c)
			b.harms = func() error { f.pull(t); return nil }
			if c.phase == dial {
				b.harms = func() error { f.drop(t); return nil }
			}
			var got seen
			raw, bad := b.meet(&got)
			if c.phase == dial {
				f.undrop(t)
			} else {
				f.plug(t)
			}
			w := want[c.String()]
			w.next, w.queue = "", ""
			if d := cmp.Diff(w, got, cmp.AllowUnexported(seen{})); d != "" || bad != nil {
				t.Errorf("%v, %v\n%s", raw, bad, d)
			}
			b.again(t)
		})
	}
}

// A host that is not there is a dial that takes too long, one to which there is no route a dial that fails.
func (f *far) nobody(t *testing.T) {
	for _, p := range all {
		for host, want := range map[string]seen{noHost: noDial, noRoute: refused} {
			t.Run(p.String()+" "+host, func(t *testing.T) {
				b := f.bench(t, cell{phase: dial, harm: harm{name: "nobody"}, protocol: p})
				b.harms = func() error { return nil }
				there := b.addr
				b.addr = host + ":80"
				var got seen
				raw, bad := b.meet(&got)
				b.addr = there
				want.next, want.queue = "", ""
				if d := cmp.Diff(want, got, cmp.AllowUnexported(seen{})); d != "" || bad != nil {
					t.Errorf("%v, %v\n%s", raw, bad, d)
				}
				b.again(t)
			})
		}
	}
}

// Packets that are lost for a moment, TCP sends again: nobody notices.
func (f *far) loss(t *testing.T) {
	for _, c := range every() {
		if c.harm.name != "latency 100ms" || c.phase != upload && c.phase != headers && c.phase != body {
			continue
		}
		t.Run(c.String(), func(t *testing.T) {
			for try := range 3 { // TCP waits twice as long each time, which on a busy machine may be too long
				if bad := f.lose(t, c); bad == "" {
					return
				} else if t.Log(bad); try == 2 {
					t.Fail()
				}
			}
		})
	}
}

func (f *far) lose(t *testing.T, c cell) (bad string) {
	b := f.bench(t, c)
	plugged := make(chan struct{})
	b.harms = func() error {
		f.pull(t)
		time.AfterFunc(100*ms, func() { f.plug(t); close(plugged) })
		return nil
	}
	var got seen
	raw, err := b.meet(&got)
	<-plugged
	b.again(t)
	w := fine
	w.next, w.queue = "", ""
	if d := cmp.Diff(w, got, cmp.AllowUnexported(seen{})); d != "" || err != nil {
		return fmt.Sprintf("%v, %v\n%s", raw, err, d)
	}
	return ""
}

// An idle connection whose peer has gone without a word costs one request its ReadTimeout, not more.
func (f *far) deadIdle(t *testing.T) {
	for _, p := range overH1 {
		t.Run(p.String(), func(t *testing.T) {
			b := f.bench(t, cell{phase: "idle", harm: harm{name: "dead"}, protocol: p})
			b.again(t)
			f.drop(t)
			start := time.Now()
			resp, err := b.client.Do(b.request(context.Background(), 5))
			if err == nil {
				resp.Body.Close()
			}
			if w := errorWord(err); w != "ErrTimeout read" || resilient.NotSent(err) || time.Since(start) < bounds.ReadTimeout {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			f.undrop(t)
			if next, connection, _, err := b.tryNext(); next != nil || connection != "new" {
				t.Errorf("the next one: %v, %v, over the %s connection", next, err, connection)
			}
		})
	}
}
