package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

// TestMain fails when goroutines outlive the tests.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s", stacks[:runtime.Stack(stacks, true)])
			os.Exit(1)
		}
	}
	os.Exit(code)
}

var (
	errBoom  = errors.New("boom")
	errBound = errors.New("too slow")
	errOwner = errors.New("client closed")
)

// A rig is a chain of layers that note what begins and ends:
//
//	watch   Always, Streams, Waiting: an observer; it holds the List
//	permit  Streams: a bulkhead
//	slot    none of them: a breaker; it ends with a 101's handshake
//	bound   Interrupts, Uploads: a timeout; with total set, a timer
//
// Its hooks run inside the layers' functions and are set before the first request.
type rig struct {
	testing.TB
	http.RoundTripper

	total    time.Duration
	begin    func(layer string, x *Exchange) error
	answered func(layer string, x *Exchange, resp *http.Response)
	failed   func(layer string, x *Exchange, err error) error
	end      func(layer string, x *Exchange)

	mu      sync.Mutex
	list    List
	runs    []*run
	of      map[*Exchange]*run
	waiting int
	starts  int
	heard   int
}

// A run is what the layers noted of one exchange.
type run struct {
	*Exchange
	begun, ended []string
	early        []string // ended before the rest: the handshake's part of an upgrade
	how          Outcome  // as the outermost layer's End saw it
	answered     []string
	silent       time.Duration // as End saw it
}

var all = []string{"watch", "permit", "slot", "bound"}

// newRig puts the named layers around base, first outermost: all of them if none is named.
func newRig(t testing.TB, base http.RoundTripper, names ...string) *rig {
	r := &rig{TB: t, RoundTripper: base, of: map[*Exchange]*run{}}
	if len(names) == 0 {
		names = all
	}
	r.around(names...)
	return r
}

// around puts more layers around those that r has.
func (r *rig) around(names ...string) {
	for _, name := range slices.Backward(names) {
		r.RoundTripper = r.layer(name).Wrap(r.RoundTripper)
	}
}

func (r *rig) layer(name string) *Layer {
	l := &Layer{
		Begin:    func(x *Exchange, h *Hold) error { return r.onBegin(name, x, h) },
		End:      func(x *Exchange, h *Hold) { r.onEnd(name, x, h) },
		Answered: func(x *Exchange, h *Hold, resp *http.Response) { r.onAnswered(name, x, h, resp) },
		Failed: func(x *Exchange, err error) error {
			if r.failed != nil {
				return r.failed(name, x, err)
			}
			return err
		},
	}
	switch strings.TrimRight(name, "0123456789") {
	case "watch":
		l.Always, l.Streams = true, true
		l.Waiting = r.onWaiting
	case "permit":
		l.Streams = true
	case "bound":
		l.Interrupts, l.Uploads = true, true
	case "early": // a bound whose timer outlives an upgrade's handshake no more than the slot
		l.Interrupts = true
	}
	return l
}

func (r *rig) onBegin(name string, x *Exchange, h *Hold) error {
	if r.begin != nil {
		if err := r.begin(name, x); err != nil {
			return err
		}
	}
	h.Token, h.Note = &name, len(name)
	if name == "bound" && r.total > 0 {
		x.SetDeadline(time.Now().Add(r.total))
		h.Token = time.AfterFunc(r.total, func() { x.Interrupt(Bound, errBound, context.DeadlineExceeded) })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of[x]
	if of == nil {
		of = &run{Exchange: x}
		r.of[x], r.runs = of, append(r.runs, of)
	}
	of.begun = append(of.begun, name)
	if name == "watch" {
		r.list.Add(x)
	}
	return nil
}

func (r *rig) onAnswered(name string, x *Exchange, h *Hold, resp *http.Response) {
	r.mu.Lock()
	of := r.of[x]
	of.answered = append(of.answered, name)
	r.mu.Unlock()
	if h.Note != len(name) {
		r.Errorf("%s was given another layer's hold", name)
	}
	if r.answered != nil {
		r.answered(name, x, resp)
	}
}

func (r *rig) onEnd(name string, x *Exchange, h *Hold) {
	if h.Note != len(name) {
		r.Errorf("%s was given another layer's hold", name)
	}
	if timer, ok := h.Token.(*time.Timer); ok {
		timer.Stop()
	}
	silent := x.Silence()
	r.mu.Lock()
	of := r.of[x]
	of.ended = append(of.ended, name)
	of.how, of.silent = x.Outcome, silent
	if name == "watch" {
		r.list.Remove(x)
	}
	r.mu.Unlock()
	if r.end != nil {
		r.end(name, x)
	}
}

func (r *rig) onWaiting(start, heard bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if start {
		r.waiting++
		r.starts++
	} else {
		r.waiting--
	}
	if heard {
		r.heard++
	}
	if r.waiting < 0 || start && heard {
		r.Errorf("waiting: %d, start %v, heard %v", r.waiting, start, heard)
	}
}

// last returns what was noted of the exchange that began last.
func (r *rig) last() *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.runs) == 0 {
		r.Helper()
		r.Fatal("no exchange has begun")
	}
	return r.runs[len(r.runs)-1]
}

// held checks how many holds have begun and not ended.
func (r *rig) held(want int) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := 0
	for _, of := range r.runs {
		got += len(of.begun) - len(of.ended)
	}
	if got != want {
		r.Errorf("%d holds, want %d", got, want)
	}
}

// settled checks that each hold ended once, inside out, and that nobody waits.
func (r *rig) settled() {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range r.runs {
		want := slices.Clone(of.begun)
		slices.Reverse(want)
		if !slices.Equal(of.ended, want) {
			r.Errorf("begun %v, ended %v", of.begun, of.ended)
		}
	}
	if r.waiting != 0 || r.list.Len() != 0 {
		r.Errorf("%d waiting, %d in the list", r.waiting, r.list.Len())
	}
}

// ended checks that the last exchange is over, and how.
func (r *rig) ended(want Outcome) {
	r.Helper()
	r.settled()
	if got := r.last().how; !reflect.DeepEqual(got, want) {
		r.Errorf("outcome\n got %+v\nwant %+v", got, want)
	}
}

// interrupt interrupts the exchange that began last.
func (r *rig) interrupt(by By) {
	x := r.last()
	switch by {
	case Owner:
		x.Interrupt(Owner, errOwner, context.Canceled)
	case Bound:
		x.Interrupt(Bound, errBound, context.DeadlineExceeded)
	}
}

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

// bubble runs f in fake time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

var protocols = []testserver.Protocol{testserver.HTTP1, testserver.HTTP2}

// both runs f in fake time over HTTP/1.1 and over HTTP/2.
func both(t *testing.T, name string, h http.Handler, f func(t *testing.T, s *system)) {
	t.Helper()
	for _, p := range protocols {
		bubble(t, name+"/"+p.String(), func(t *testing.T) { f(t, serve(t, p, h)) })
	}
}

// A system is a real server and a transport to it.
type system struct {
	*testserver.Server
	base     *http.Transport
	protocol testserver.Protocol
}

func serve(t *testing.T, p testserver.Protocol, h http.Handler) *system {
	t.Helper()
	s, err := testserver.Start(testserver.Options{Memory: true, Protocol: p, Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	sys := &system{Server: s, base: s.Transport(), protocol: p}
	t.Cleanup(func() {
		sys.base.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return sys
}

func (s *system) request(ctx context.Context, body ...io.Reader) *http.Request {
	req := request(ctx, body...)
	u := *req.URL
	u.Scheme, u.Host, _ = strings.Cut(s.URL(), "://")
	req.URL = &u
	req.Host = u.Host
	return req
}
