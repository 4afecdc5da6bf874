// Monitoring proves what is in monitoring/: promtool judges the alert rules, and a
// real Prometheus scrapes the demo every second and answers every query of the
// dashboard and of the alerts. It takes about half a minute and leaves nothing behind.
//
// It needs Debian's package prometheus. Where RESILIENT_CI is set it installs
// that, and fails if it can't; elsewhere it says what it skips.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// limit is how long all of it may take, but for installing and compiling.
const limit = time.Minute

// played is how long the demo is scraped: more than one round of its script, so that all of it has been seen.
const played = 16 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	root, err := filepath.Abs("../..") // make runs it in its directory
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(root, "monitoring", "alerts.yaml")); err != nil {
		return fmt.Errorf("run it in its own directory, or with make e2e-monitoring: %w", err)
	}
	if err := install(ctx); err != nil {
		if os.Getenv("RESILIENT_CI") != "" {
			return err
		}
		fmt.Println("skipped:", err)
		return nil
	}
	tmp, err := os.MkdirTemp("", "monitoring")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	demo := filepath.Join(tmp, "demo")
	build := exec.CommandContext(ctx, "go", "build", "-o", demo, ".")
	build.Dir = filepath.Join(root, "cmd", "demo")
	if err := loudly(build); err != nil {
		return fmt.Errorf("building the demo: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := judgeRules(ctx, filepath.Join(root, "monitoring")); err != nil {
		return err
	}
	return scrape(ctx, root, tmp, demo)
}

// install makes sure that there is Debian's Prometheus.
func install(ctx context.Context) error {
	missing := func() error {
		for _, name := range []string{"promtool", "prometheus"} {
			if _, err := exec.LookPath(name); err != nil {
				return fmt.Errorf("no %s; apt-get install prometheus", name)
			}
		}
		return nil
	}
	if err := missing(); err == nil || os.Getenv("RESILIENT_CI") == "" {
		return err
	}
	for _, args := range [][]string{{"apt-get", "update"}, {"apt-get", "install", "-y", "--no-install-recommends", "prometheus"}} {
		if os.Geteuid() != 0 {
			args = append([]string{"sudo", "env", "DEBIAN_FRONTEND=noninteractive"}, args...)
		}
		c := exec.CommandContext(ctx, args[0], args[1:]...)
		c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if err := loudly(c); err != nil {
			return fmt.Errorf("%v: %w", args, err)
		}
	}
	return missing()
}

func judgeRules(ctx context.Context, dir string) error {
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		c := exec.CommandContext(ctx, "promtool", args...)
		c.Dir = dir
		if err := loudly(c); err != nil {
			return fmt.Errorf("promtool %v: %w", args, err)
		}
	}
	return nil
}

// loudly runs c and shows what it says.
func loudly(c *exec.Cmd) error {
	fmt.Println("$", c.Args)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}

// scrape has a Prometheus look at the demo, then asks it everything.
func scrape(ctx context.Context, root, tmp, demo string) error {
	ctx, stop := context.WithCancel(ctx) // ends both programs
	defer stop()
	d, err := startDemo(ctx, demo)
	if err != nil {
		return err
	}
	defer d.end()
	p, err := startPrometheus(ctx, root, tmp, d.address)
	if err != nil {
		return err
	}
	defer p.end()

	if err := p.wait(ctx, "scraped", func() error {
		return p.want(ctx, `up{job="demo"} == 1`)
	}); err != nil {
		return errors.Join(err, p.said())
	}
	began := time.Now()
	fmt.Printf("the demo plays, and is scraped, for %v\n", played)
	select {
	case <-time.After(played):
	case <-d.over:
		return errors.New("the demo has ended")
	case <-p.over:
		return errors.Join(errors.New("the Prometheus has ended"), p.said())
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := lintMetrics(ctx, d.address); err != nil {
		return err
	}
	return p.ask(ctx, root, began, time.Now())
}

// lintMetrics has promtool look at what the demo exposes.
func lintMetrics(ctx context.Context, address string) error {
	body, err := get(ctx, "http://"+address+"/metrics")
	if err != nil {
		return err
	}
	defer body.Close()
	c := exec.CommandContext(ctx, "promtool", "check", "metrics")
	c.Stdin = io.Reader(body)
	if err := loudly(c); err != nil {
		return fmt.Errorf("promtool check metrics: %w", err)
	}
	return nil
}
