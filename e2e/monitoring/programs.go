package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"
)

// A program is one that runs beside this one.
type program struct {
	cmd     *exec.Cmd
	address string
	out     output
	over    chan struct{} // closed when it has ended
}

// An output is what a program has said so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start starts a program that ctx ends, first gently.
func start(ctx context.Context, name string, args ...string) (*program, error) {
	p := &program{cmd: exec.CommandContext(ctx, name, args...), over: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 5 * time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.over)
		_ = p.cmd.Wait()
	}()
	return p, nil
}

// end ends p and waits until it is gone.
func (p *program) end() {
	_ = p.cmd.Cancel()
	select {
	case <-p.over:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.over
	}
}

// said returns what p has said, as an error.
func (p *program) said() error { return errors.New(p.out.String()) }

// wait returns nil as soon as ready does; p has ten seconds for it.
func (p *program) wait(ctx context.Context, what string, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-p.over:
			return errors.Join(fmt.Errorf("%s ended before it was %s", p.cmd.Path, what), p.said())
		case <-ctx.Done():
			return fmt.Errorf("not %s: %w", what, err)
		}
	}
}

var announced = regexp.MustCompile(`http://(\S+)/metrics`)

func startDemo(ctx context.Context, path string) (*program, error) {
	p, err := start(ctx, path, "-serve", "-port", "0")
	if err != nil {
		return nil, err
	}
	err = p.wait(ctx, "serving", func() error {
		m := announced.FindStringSubmatch(p.out.String())
		if m == nil {
			return errors.New("it has not said where")
		}
		p.address = m[1]
		return nil
	})
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

const config = `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: demo
    static_configs: [{targets: [%q]}]
`

type prometheus struct{ *program }

func startPrometheus(ctx context.Context, root, tmp, target string) (*prometheus, error) {
	file := filepath.Join(tmp, "prometheus.yml")
	text := fmt.Sprintf(config, filepath.Join(root, "monitoring", "alerts.yaml"), target)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, "prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(tmp, "data"), "--web.listen-address="+address)
	if err != nil {
		return nil, err
	}
	p.address = address
	err = p.wait(ctx, "ready", func() error {
		body, err := get(ctx, "http://"+address+"/-/ready")
		if err != nil {
			return err
		}
		return body.Close()
	})
	if err != nil {
		p.end()
		return nil, errors.Join(err, p.said())
	}
	return &prometheus{p}, nil
}

// freeAddress returns one that nobody listens on, for a program that can't take port 0.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
