package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/resilient-go/resilient/resilienttest"
)

// TestMain is the service itself, where a test has started it as a process.
func TestMain(m *testing.M) {
	if os.Getenv("ADAPTER_TEST_PROCESS") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// clientsFile has bounds that a test can wait for.
const clientsFile = `
systems:
  sber:
    connect_timeout: 250ms
    read_timeout: 500ms
    total_timeout: 1s
    max_connections: 10
    bulkhead: {max_concurrent: 8, acquire_timeout: 50ms}
    breaker: {open_for: 1s}
`

// A process is the service, running.
type process struct {
	*testing.T
	cmd      *exec.Cmd
	clients  string // the file
	api, ops string // base URLs
	log      func() string
	ended    chan error
}

// begin starts the service over a partner, with a file of clients and variables "NAME=value".
func begin(t *testing.T, partnerURL, clients string, env ...string) *process {
	t.Helper()
	p := &process{T: t, ended: make(chan error, 1), clients: filepath.Join(t.TempDir(), "clients.yaml")}
	p.write(clients)
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(append(os.Environ(), "ADAPTER_TEST_PROCESS=1", "LISTEN=127.0.0.1:0", "OPS_LISTEN=127.0.0.1:0", "CLIENTS="+p.clients,
		"SBER_URL="+partnerURL, "SBER_KEY=secret", "DRAIN=200ms", "GRACE=5s", "HTTP_PROXY=", "http_proxy="), env...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var text strings.Builder
	p.log = func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
	serving := make(chan struct{}) // closed when the addresses are known, or there will be none
	go func() {
		once := sync.OnceFunc(func() { close(serving) })
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			var line struct{ Msg, API, Ops string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
				p.api, p.ops = "http://"+line.API, "http://"+line.Ops
				once()
			}
			mu.Lock()
			text.WriteString(lines.Text() + "\n")
			mu.Unlock()
		}
		err := p.cmd.Wait()
		once()
		p.ended <- err
	}()
	select {
	case <-serving:
	case <-time.After(time.Minute):
		t.Error("it does not serve")
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // an error if it has ended
		if t.Failed() {
			t.Logf("its log:\n%s", p.log())
		}
	})
	return p
}

// write replaces the file of clients as one does: by a rename.
func (p *process) write(clients string) {
	p.Helper()
	if err := os.WriteFile(p.clients+".new", []byte(clients), 0o600); err != nil {
		p.Fatal(err)
	}
	if err := os.Rename(p.clients+".new", p.clients); err != nil {
		p.Fatal(err)
	}
}

// terminate asks the process to end.
func (p *process) terminate() {
	p.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.Fatal(err)
	}
}

// wait waits for the process's end.
func (p *process) wait() error {
	p.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(time.Minute):
		p.Fatal("it does not end")
		return nil
	}
}

// eventually waits for what takes a moment, though not one that a test can know.
func (p *process) eventually(what string, ok func() bool) {
	p.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.Fatal("not within 30 s: ", what)
		}
	}
}

// An answer is the service's.
type answer struct {
	code int
	http.Header
	body string
	took time.Duration
	err  error
}

var caller = &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}

func (p *process) do(method, url, body string) (a answer) {
	start := time.Now()
	defer func() { a.took = time.Since(start) }()
	req, err := http.NewRequestWithContext(p.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	resp, err := caller.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{code: resp.StatusCode, Header: resp.Header, body: strings.TrimSpace(string(text)), err: err}
}

func (p *process) get(url string) answer { return p.do("GET", url, "") }
func (p *process) pay() answer {
	return p.do("POST", p.api+"/payments", `{"order":"7","kopecks":9900}`)
}

// sees fails the test unless an answer is this one.
func (p *process) sees(what string, a answer, code int, body string) {
	p.Helper()
	if a.err != nil || a.code != code || !strings.Contains(a.body, body) {
		p.Errorf("%s: %d %s %v, want %d %s", what, a.code, a.body, a.err, code, body)
	}
}

// inForce returns a setting of the bank's client, as the service's inspection has it.
func (p *process) inForce(path ...string) string {
	p.Helper()
	var v any
	a := p.get(p.ops + "/debug/resilient/sber?format=json")
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		p.Fatalf("%v: %d %s", err, a.code, a.body)
	}
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return fmt.Sprint(v)
}

// bank is a partner on a real socket that is well.
func bank(t *testing.T) *resilienttest.Partner {
	p := resilienttest.NewPartner(t, resilienttest.Loopback())
	well(p)
	return p
}

func well(p *resilienttest.Partner) {
	p.Fail(404)
	p.On("/health").Reply(200, "well")
	p.On("/tokens").ReplyJSON(201, map[string]string{"token": "one-time"})
	p.On("/payments").ReplyJSON(201, map[string]string{"id": "p1", "status": "accepted"})
	p.On("/payments/p1").ReplyJSON(200, map[string]string{"id": "p1", "status": "settled"})
	p.On("/payments/p2").ReplyJSON(200, map[string]string{"id": "p2", "status": "accepted"})
}
