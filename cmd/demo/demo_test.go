package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/resilient-go/resilient"
)

// TestService has either kind of client call partners that are well.
func TestService(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(*partners) (*clients, error){
		"guarded, counted": func(p *partners) (*clients, error) { return guarded(resilient.NewRegistry(), p, true) },
		"guarded":          func(p *partners) (*clients, error) { return guarded(resilient.NewRegistry(), p, false) },
		"unguarded":        unguarded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := startPartners()
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			c, err := connect(p)
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			s := newStage(p, c)
			for n := range 2 {
				for of := range system(systems) {
					s.service.handle(context.Background(), of, n)
				}
			}
			if n := s.log.count(func(c call) bool { return c.outcome == answered }); n != 4 {
				t.Errorf("%d of 4 calls answered: %+v", n, s.log.calls)
			}
			for i, g := range p.gauges {
				want := 1
				if name == "guarded" {
					want = 0 // not counted
				}
				if g.current() != 0 || g.peak() != want {
					t.Errorf("%s: %d exchanges at the end, %d at most, want 0 and %d", systemNames[i], g.current(), g.peak(), want)
				}
			}
		})
	}
}

// TestCounting ends an exchange in each of the ways there are, and twice.
func TestCounting(t *testing.T) {
	t.Parallel()
	p, err := startPartners()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	base := new(http.Transport)
	defer base.CloseIdleConnections()
	rt, g := newCounting(base, p), p.gauges[insurance]

	get := func(ctx context.Context) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.servers[insurance].URL()+"/policies/1", nil)
		if err != nil {
			t.Fatal(err)
		}
		return rt.RoundTrip(r)
	}
	for name, end := range map[string]func(io.ReadCloser){
		"closed":          func(b io.ReadCloser) { b.Close() },
		"read":            func(b io.ReadCloser) { io.Copy(io.Discard, b) },
		"read and closed": func(b io.ReadCloser) { io.Copy(io.Discard, b); b.Close(); b.Close() },
	} {
		resp, err := get(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if n := g.current(); n != 1 {
			t.Errorf("%s: %d while under way", name, n)
		}
		end(resp.Body)
		resp.Body.Close()
		if n := g.current(); n != 0 {
			t.Errorf("%s: %d afterwards", name, n)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := get(ctx); err == nil || g.current() != 0 {
		t.Errorf("error %v: %d afterwards", err, g.current())
	}
}

// TestPicture looks for lines that would wrap.
func TestPicture(t *testing.T) {
	t.Parallel()
	shot := snapshot{
		at: 99 * time.Second, phase: recovers, phases: []string{"warm-up", "healthy", "sber hangs", "sber still hangs", "sber recovers"},
		active: [systems]int{slots, slots}, slots: slots, goroutines: 12345, history: make([]moment, 50),
	}
	shot.states[sber] = new(resilient.State)
	shot.states[sber].Breaker.State = "half_open"
	for i := range shot.last {
		shot.last[i] = lately{outcomes: [outcomes]int{9999, 9999, 9999, 9999}, p99: 99 * time.Second}
	}
	for i := range shot.history {
		shot.history[i] = moment{sber: 1 << i, insurance: time.Second, breaker: "open"}
	}
	color := regexp.MustCompile("\x1b\\[[0-9]+m")
	for _, line := range (&live{color: true}).picture(shot) {
		if line = color.ReplaceAllString(line, ""); utf8.RuneCountInString(line) >= 80 || strings.ContainsRune(line, '\x1b') {
			t.Errorf("%d columns: %q", utf8.RuneCountInString(line), line)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{"-h": 0, "-help": 0, "-no-such": 2, "-serve -port 65536": 2, "-port x": 2, "left over": 2} {
		var stderr strings.Builder
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		if got := run(t.Context(), strings.Fields(args), out, &stderr); got != want {
			t.Errorf("%s: exit status %d, want %d", args, got, want)
		}
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		if told := string(text) + stderr.String(); !strings.Contains(told, usage) {
			t.Errorf("%s: %q", args, told)
		}
		out.Close()
	}
}
