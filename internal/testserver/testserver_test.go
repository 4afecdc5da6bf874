package testserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/testserver"
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

// bench is a server and a bare client of it.
type bench struct {
	*testing.T
	*Server
	memory   bool
	protocol Protocol
	client   *http.Client
}

var protocols = []Protocol{HTTP1, HTTPS, HTTP2}

// each runs f against each kind of server.
func each(t *testing.T, f func(b *bench)) {
	eachOf(t, Options{}, protocols, f)
}

// eachOf runs f against servers of these options, on sockets and in memory, there inside a bubble.
func eachOf(t *testing.T, o Options, protocols []Protocol, f func(b *bench)) {
	for _, o.Memory = range []bool{false, true} {
		for _, o.Protocol = range protocols {
			network := "socket"
			if o.Memory {
				network = "memory"
			}
			o := o
			t.Run(network+"/"+o.Protocol.String(), func(t *testing.T) {
				t.Parallel()
				run := func(t *testing.T) {
					s := start(t, o)
					tr := s.Transport()
					defer tr.CloseIdleConnections()
					f(&bench{T: t, Server: s, memory: o.Memory, protocol: o.Protocol, client: &http.Client{Transport: tr}})
				}
				if o.Memory {
					synctest.Test(t, run)
				} else {
					run(t)
				}
			})
		}
	}
}

func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if st := s.Stats(); st.Concurrent != 0 || st.Hanging != 0 || st.OpenConns != 0 {
			t.Errorf("after Close: %+v", st)
		}
	})
	return s
}

// answer is what a client got of an exchange.
type answer struct {
	*http.Response
	err     error // of Do
	body    string
	bodyErr error
	took    time.Duration
}

func (b *bench) do(ctx context.Context, body io.Reader, header ...string) answer {
	b.Helper()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, b.URL()+"/x", body)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	start := time.Now()
	resp, err := b.client.Do(req)
	a := answer{Response: resp, err: err}
	if err == nil {
		defer resp.Body.Close()
		var got []byte
		got, a.bodyErr = io.ReadAll(resp.Body)
		a.body = string(got)
	}
	a.took = time.Since(start)
	return a
}

// start runs do in the background.
func (b *bench) start(ctx context.Context, body io.Reader) <-chan answer {
	got := make(chan answer, 1)
	go func() { got <- b.do(ctx, body) }()
	return got
}

// await waits until the statistics satisfy ok.
func (b *bench) await(ok func(Stats) bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := b.Await(ctx, ok); err != nil {
		b.Fatalf("%v; stats %+v", err, b.Stats())
	}
}

// lasted checks a duration: exact in memory, at least that on sockets.
func (b *bench) lasted(got, want time.Duration) {
	b.Helper()
	if got < want || b.memory && got != want {
		b.Errorf("took %v, want %v", got, want)
	}
}

func (b *bench) wantOK(a answer, body string) {
	b.Helper()
	if a.err != nil || a.bodyErr != nil || a.StatusCode != http.StatusOK || a.body != body {
		b.Fatalf("got %+v, want 200 %q", a, body)
	}
}

func (b *bench) wantIn(err error, texts ...string) {
	b.Helper()
	if err == nil {
		b.Fatalf("no error, want one of %q", texts)
	}
	for _, text := range texts {
		if strings.Contains(err.Error(), text) {
			return
		}
	}
	b.Errorf("error %q, want one of %q", err, texts)
}

// impatient is a context that ends soon.
func impatient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), tick)
	t.Cleanup(cancel)
	return ctx
}

const tick = 20 * time.Millisecond
