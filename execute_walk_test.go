package resilient_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A step is what a func of a walk does. Those that have steps of their own are executions.
type step struct {
	Do     string
	Client int           // which of two
	Path   string        // of a request
	Body   string        // what becomes of its body
	For    time.Duration // sleep; how long until the context ends
	Beside bool          // in a goroutine of its own, for which nobody waits
	Kept   bool          // with the context of an execution that may be over
	Total  time.Duration
	Steps  []step
}

func (s step) String() string {
	text := fmt.Sprintf("%s of %d", s.Do, s.Client)
	switch s.Do {
	case "request":
		text += fmt.Sprintf(" for %s, body %s", s.Path, s.Body)
	case "execute":
		text += fmt.Sprintf(", total %v %v", s.Total, s.Steps)
	default:
		text += fmt.Sprintf(" for %v %v", s.For, s.Steps)
	}
	return text + fmt.Sprintf(" (beside %v, kept %v)", s.Beside, s.Kept)
}

func stepsOf(t *rapid.T, depth int) []step {
	kinds := []string{"request", "request", "request", "sleep", "panic", "goexit"}
	if depth > 0 {
		kinds = append(kinds, "execute", "execute", "cancel", "deadline")
	}
	var steps []step
	for range rapid.IntRange(0, 4).Draw(t, "steps") {
		s := step{
			Do:     rapid.SampledFrom(kinds).Draw(t, "do"),
			Client: rapid.IntRange(0, 1).Draw(t, "client"),
			For:    time.Duration(rapid.IntRange(0, 8000).Draw(t, "ms")) * time.Millisecond,
			Beside: rapid.IntRange(0, 3).Draw(t, "beside") == 0,
			Kept:   rapid.IntRange(0, 3).Draw(t, "kept") == 0,
		}
		switch s.Do {
		case "request":
			s.Path = rapid.SampledFrom([]string{"/", "/slow", "/fails", "/hang", "/stall", "/cut", "/upgrade"}).Draw(t, "path")
			s.Body = rapid.SampledFrom([]string{"read", "read", "close", "forget", "later"}).Draw(t, "body")
		case "execute":
			s.Total = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, resilient.Unbounded}).Draw(t, "total")
			fallthrough
		case "cancel", "deadline":
			s.Steps = stepsOf(t, depth-1)
		}
		steps = append(steps, s)
	}
	return steps
}

func count(steps []step) int {
	n := len(steps)
	for _, s := range steps {
		n += count(s.Steps)
	}
	return n
}

// A crowd walks: each of its members does steps, of two clients of one server.
type crowd struct {
	clients [2]*rig
	wg      sync.WaitGroup

	mu       sync.Mutex
	executed [2]int
	kept     context.Context // the last of a func that returned
	bodies   []io.Closer     // of those who forget
}

func (c *crowd) walk(ctx context.Context, steps []step) {
	for _, s := range steps {
		ctx := ctx
		c.mu.Lock()
		if s.Kept && c.kept != nil {
			ctx = c.kept
		}
		c.mu.Unlock()
		if s.Beside {
			c.wg.Go(func() {
				defer func() { _ = recover() }()
				c.step(ctx, s)
			})
		} else {
			c.step(ctx, s)
		}
		for _, r := range c.clients {
			if b := r.State().Bulkhead; b.Active > 3 {
				r.Errorf("%+v", b)
			}
		}
	}
}

func (c *crowd) step(ctx context.Context, s step) {
	switch s.Do {
	case "request":
		c.request(ctx, s)
	case "sleep":
		time.Sleep(s.For)
	case "panic":
		panic(errBoom)
	case "goexit":
		runtime.Goexit()
	case "cancel":
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(s.For, func() { cancel(errBoom) })
		c.walk(ctx, s.Steps)
	case "deadline":
		ctx, cancel := context.WithTimeout(ctx, s.For)
		defer cancel()
		c.walk(ctx, s.Steps)
	case "execute":
		c.mu.Lock()
		c.executed[s.Client]++
		c.mu.Unlock()
		fallback := func(ctx context.Context, err error) (int, error) { return 0, c.clients[1-s.Client].fetch(ctx, "/") }
		resilient.Call[int]{Total: s.Total, Fallback: fallback}.Do(ctx, c.clients[s.Client].Client, func(ctx context.Context) (int, error) {
			defer func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.kept = ctx
			}()
			defer func() {
				if s.Client == 0 { // sber's adapter forgives
					_ = recover()
				}
			}()
			c.walk(ctx, s.Steps)
			return 0, ctx.Err()
		})
	}
}

func (c *crowd) request(ctx context.Context, s step) {
	req := c.clients[s.Client].to(ctx, s.Path)
	if s.Path == "/upgrade" {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
	}
	resp, err := c.clients[s.Client].RoundTrip(req)
	switch {
	case err != nil:
	case resp.StatusCode == http.StatusSwitchingProtocols || s.Body == "forget":
		c.mu.Lock()
		c.bodies = append(c.bodies, resp.Body)
		c.mu.Unlock()
	case s.Body == "read":
		io.Copy(io.Discard, resp.Body)
	case s.Body == "close":
		resp.Body.Close()
	case s.Body == "later":
		c.wg.Go(func() {
			time.Sleep(s.For)
			io.Copy(io.Discard, resp.Body)
		})
	}
}

// Whatever funcs do, with contexts, requests, bodies and goroutines, everything is given back, and counted once.
func TestExecuteWalk(t *testing.T) {
	for _, p := range []testserver.Protocol{testserver.HTTP1, testserver.HTTP2} {
		t.Run(p.String(), func(t *testing.T) {
			taken := 0
			defer func() { t.Logf("%d steps", taken) }()
			rapid.Check(t, func(rt *rapid.T) {
				var members [][]step
				for range rapid.IntRange(1, 8).Draw(rt, "members") {
					members = append(members, stepsOf(rt, 3))
				}
				for _, steps := range members {
					taken += count(steps)
				}
				closes := rapid.IntRange(0, 3).Draw(rt, "closes") == 0
				if !t.Run("", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { crowdWalk(t, p, members, closes) })
				}) {
					rt.Fatalf("%v", members)
				}
			})
		})
	}
}

func crowdWalk(t *testing.T, p testserver.Protocol, members [][]step, closes bool) {
	cfg := permits(3)
	cfg.Breaker.OpenFor = 2 * time.Second
	sber := newRig(t, setting{cfg: cfg, server: testserver.Options{Memory: true, Protocol: p}})
	c := &crowd{clients: [2]*rig{sber, sber.another("insurer", cfg)}}
	for path, h := range map[string]http.Handler{
		"/slow": testserver.After(time.Second, testserver.OK("ok")), "/fails": testserver.Status(500), "/hang": testserver.HangBeforeHeaders(),
		"/stall": testserver.StallInBody(3), "/cut": testserver.CutInBody(1, 100),
	} {
		sber.server.On(path, h)
	}
	if p == testserver.HTTP1 {
		sber.server.On("/upgrade", testserver.Upgrade())
	}
	for _, steps := range members {
		c.wg.Go(func() {
			defer func() { _ = recover() }()
			c.walk(t.Context(), steps)
		})
	}
	if closes {
		time.Sleep(3 * time.Second)
		c.clients[1].Close()
	}
	c.wg.Wait()
	time.Sleep(10 * time.Second) // forgotten bodies have had their total
	for _, b := range c.bodies {
		b.Close()
	}
	synctest.Wait()
	for i, r := range c.clients {
		r.inside(0, 0, 0)
		executed := 0.0
		for name, v := range r.metrics() {
			if strings.HasPrefix(name, "executions_total ") {
				executed += v
			}
		}
		if gone := i == 1 && closes; !gone && executed != float64(c.executed[i]) {
			r.Errorf("%d executions, counted %v", c.executed[i], executed)
		}
	}
}
