package resilient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
)

// A watched is a registry that follows a file, in fake time, and what it logs.
type watched struct {
	*testing.T
	reg  *resilient.Registry
	path string
	log  *lockedBuffer
	done chan error
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.Reset()
	return b.String()
}

func watching(t *testing.T, content string, f func(w *watched)) {
	t.Helper()
	dir := t.TempDir()
	log := &lockedBuffer{}
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		w := &watched{T: t, reg: resilient.NewRegistry(), path: filepath.Join(dir, "clients.yaml"), log: log, done: make(chan error, 1)}
		w.write(content)
		for _, name := range []string{"sber", "atol"} {
			c, err := w.reg.NewClient(name, resilient.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { w.done <- w.reg.Watch(ctx, w.path) }()
		synctest.Wait()
		f(w)
		cancel()
		if err := <-w.done; err != nil {
			t.Error(err)
		}
	})
}

func (w *watched) write(content string) {
	w.Helper()
	if err := os.WriteFile(w.path, []byte(content), 0o600); err != nil {
		w.Fatal(err)
	}
}

// permits waits for a change to be applied, and compares.
func (w *watched) permits(name string, want int) {
	w.Helper()
	time.Sleep(1100 * time.Millisecond)
	c, err := w.reg.Client(name)
	if err != nil {
		w.Fatal(err)
	}
	if got := c.State().Bulkhead.MaxConcurrent; got != want {
		w.Errorf("%s: %d permits, want %d\n%s", name, got, want, w.log.take())
	}
}

func sized(n int) string {
	return fmt.Sprintf("systems:\n  sber:\n    bulkhead:\n      max_concurrent: %d\n  atol: {}\n", n)
}

// At once, then written over, renamed over, and through a symbolic link whose target changes as a ConfigMap's does.
func TestWatchFollows(t *testing.T) {
	watching(t, sized(3), func(w *watched) {
		w.permits("sber", 3)
		w.permits("atol", 16)
		w.write(sized(4))
		w.permits("sber", 4)
		next := w.path + ".new"
		if err := os.WriteFile(next, []byte(sized(5)), 0o600); err != nil {
			w.Fatal(err)
		}
		if err := os.Rename(next, w.path); err != nil {
			w.Fatal(err)
		}
		w.permits("sber", 5)

		dir := filepath.Dir(w.path)
		mount := func(version string, n int) {
			if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
				w.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, version, "clients.yaml"), []byte(sized(n)), 0o600); err != nil {
				w.Fatal(err)
			}
			if err := os.Symlink(version, filepath.Join(dir, "..tmp")); err != nil {
				w.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
				w.Fatal(err)
			}
		}
		mount("..1", 6)
		if err := os.Symlink("..data/clients.yaml", next); err != nil {
			w.Fatal(err)
		}
		if err := os.Rename(next, w.path); err != nil {
			w.Fatal(err)
		}
		w.permits("sber", 6)
		mount("..2", 7)
		if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
			w.Fatal(err)
		}
		w.permits("sber", 7)
		w.log.take()
		time.Sleep(time.Minute)
		if log := w.log.take(); log != "" {
			w.Errorf("with nothing to tell: %s", log)
		}
	})
}

// A file that is being written is not applied until it rests.
func TestWatchWaitsForTheFileToRest(t *testing.T) {
	watching(t, sized(3), func(w *watched) {
		time.Sleep(250 * time.Millisecond) // between two looks
		for n := 4; n < 12; n++ {
			w.write(sized(n))
			time.Sleep(500 * time.Millisecond)
		}
		if log := w.log.take(); strings.Count(log, "reconfigured") > 1 { // the first file's
			w.Error(log)
		}
		w.permits("sber", 11)
	})
}

// What is wrong is told, once, and all goes on as it was.
func TestWatchRefuses(t *testing.T) {
	watching(t, sized(3), func(w *watched) {
		w.log.take()
		for _, bad := range []string{
			"systems:\n  sber:\n    bulkhead:\n      max_concurrent: 20\n      max_waitin: 3\n",
			"systems: [",
		} {
			w.write(bad)
			w.permits("sber", 3)
			time.Sleep(time.Minute)
			if log := w.log.take(); strings.Count(log, "configuration refused") != 1 || !strings.Contains(log, "clients.yaml:") {
				w.Errorf("%q: %s", bad, log)
			}
		}
		if err := os.Remove(w.path); err != nil {
			w.Fatal(err)
		}
		w.permits("sber", 3)
		time.Sleep(time.Minute)
		if log := w.log.take(); strings.Count(log, "not read") != 1 {
			w.Error(log)
		}
		w.write(sized(4))
		w.permits("sber", 4)
	})
}

// A system that is new gets no client, and one that is gone keeps its own; both are told.
func TestWatchNewAndGone(t *testing.T) {
	watching(t, sized(3), func(w *watched) {
		w.log.take()
		w.write("systems:\n  vsk: {}\n  atol: {max_connections: 10}\n")
		w.permits("sber", 3)
		w.permits("atol", 8)
		if names := strings.Join(w.reg.Names(), " "); names != "atol sber" {
			w.Error(names)
		}
		time.Sleep(time.Minute)
		log := w.log.take()
		for _, want := range []string{"no longer configured", "system=sber", "has no client yet", "system=vsk"} {
			if strings.Count(log, want) != 1 {
				w.Errorf("%d times %q in %s", strings.Count(log, want), want, log)
			}
		}
	})
}

func TestWatchNeedsAGoodFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients.yaml")
	reg := resilient.NewRegistry(resilient.WithMaxTotalConns(30))
	if err := reg.Watch(t.Context(), path); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	c, err := reg.NewClient("sber", resilient.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := os.WriteFile(path, []byte("systems: {sber: {max_connections: 31}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := reg.Watch(t.Context(), path); err == nil || !strings.Contains(err.Error(), "limit of 30") {
		t.Error(err)
	}
}
