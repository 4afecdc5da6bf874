package resilienttest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/resilienttest"
)

// short is for sockets, where a timeout takes its time.
var short = resilient.Config{ConnectTimeout: 500 * time.Millisecond, ReadTimeout: time.Second, TotalTimeout: 4 * time.Second}

// each runs f on both networks, in clear and over HTTP/2, in memory in a bubble.
func each(t *testing.T, f func(t *testing.T, p *resilienttest.Partner, c *resilient.Client)) {
	t.Helper()
	for _, network := range []string{"memory", "loopback"} {
		for _, protocol := range []config.Protocol{resilient.HTTP1, resilient.HTTP2} {
			t.Run(network+"/"+string(protocol), func(t *testing.T) {
				cfg, opts := resilient.Config{}, []resilienttest.Option(nil)
				if protocol == resilient.HTTP2 {
					opts = append(opts, resilienttest.TLS())
				}
				if network == "loopback" {
					cfg, opts = short, append(opts, resilienttest.Loopback())
				}
				cfg.Protocol = protocol
				run := func(t *testing.T) {
					p := resilienttest.NewPartner(t, opts...)
					f(t, p, p.Client("sber", cfg))
				}
				if network == "memory" {
					synctest.Test(t, run)
					return
				}
				t.Parallel()
				run(t)
			})
		}
	}
}

// send does a request and reads the answer's body to its end.
func send(c *resilient.Client, method, url, body string) (code int, got string, err error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("X-Order", "7")
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// Each verb does what it says, and the client counts it as what it is.
func TestScript(t *testing.T) {
	for _, c := range []struct {
		name    string
		verb    func(resilienttest.Script)
		code    int // 0: an error in place of an answer
		body    string
		err     error // io.ErrUnexpectedEOF: any that is no timeout
		outcome string
	}{
		{"Reply", func(s resilienttest.Script) { s.Reply(202, "taken", "X-Queue", "3") }, 202, "taken", nil, "success"},
		{"ReplyJSON", func(s resilienttest.Script) { s.ReplyJSON(200, []int{1}) }, 200, "[1]", nil, "success"},
		{"Fail", func(s resilienttest.Script) { s.Fail(503, "Retry-After", "7") }, 503, "Service Unavailable", nil, "error_status"},
		{"no body", func(s resilienttest.Script) { s.Reply(204, "") }, 204, "", nil, "success"},
		{"ReplyAfter", func(s resilienttest.Script) { s.ReplyAfter(50*time.Millisecond, 200, "late") }, 200, "late", nil, "success"},
		{"Do", func(s resilienttest.Script) { s.Do(http.NotFoundHandler()) }, 404, "404 page not found\n", nil, "success"},
		{"Hang", resilienttest.Script.Hang, 0, "", resilient.ErrTimeout, "timeout"},
		{"Stall", resilienttest.Script.Stall, 200, "b", resilient.ErrTimeout, "timeout"},
		{"Cut", resilienttest.Script.Cut, 200, "b", io.ErrUnexpectedEOF, "transport_error"},
		{"Reset", resilienttest.Script.Reset, 0, "", io.ErrUnexpectedEOF, "transport_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, p *resilienttest.Partner, client *resilient.Client) {
				c.verb(p.Script)
				start := time.Now()
				code, body, err := send(client, "POST", p.URL()+"/pay?x=1", "order")
				if code != c.code || body != c.body {
					t.Errorf("answered %d %q, %v", code, body, err)
				}
				if timeout := errors.Is(err, resilient.ErrTimeout); (err != nil) != (c.err != nil) || timeout != (c.err == resilient.ErrTimeout) {
					t.Errorf("error %v", err)
				}
				if c.name == "ReplyAfter" && time.Since(start) < 50*time.Millisecond {
					t.Errorf("after %v", time.Since(start))
				}
				outcomes, sum := resilienttest.Outcomes(t, p.Registry(), "sber"), 0
				for _, n := range outcomes {
					sum += n
				}
				if outcomes[c.outcome] != 1 || sum != 1 || len(outcomes) != 12 {
					t.Errorf("outcomes %v", outcomes)
				}
				seen := p.Requests()
				if len(seen) != 1 {
					t.Fatalf("%d requests", len(seen))
				}
				if r := seen[0]; r.Method != "POST" || r.URI != "/pay?x=1" || r.Header.Get("X-Order") != "7" {
					t.Errorf("seen %+v", r)
				}
				if body := seen[0].Body; body != "order" && c.name != "Do" { // a NotFoundHandler reads nothing
					t.Errorf("the body was %q", body)
				}
			})
		})
	}
}

// One request gets what Next says, else what On says of its path, else what is said of all.
func TestScriptsOrder(t *testing.T) {
	each(t, func(t *testing.T, p *resilienttest.Partner, c *resilient.Client) {
		p.On("/health").Reply(200, "well")
		p.Reply(200, "paid")
		p.Next(2).Reply(201, "a")
		p.Next(1).Reply(201, "b")
		var got []string
		for _, path := range []string{"/", "/health", "/health", "/health", "/"} {
			_, body, err := send(c, "GET", p.URL()+path, "")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, body)
		}
		if s := strings.Join(got, " "); s != "a a b well paid" {
			t.Error(s)
		}
	})
}

// What hangs is counted, can be waited for, and goes on.
func TestHangAndRelease(t *testing.T) {
	each(t, func(t *testing.T, p *resilienttest.Partner, c *resilient.Client) {
		if err := c.Reconfigure(resilient.Config{Protocol: c.State().Config.Protocol}); err != nil { // with all of its time
			t.Fatal(err)
		}
		p.Hang()
		var calls sync.WaitGroup
		for range 5 {
			calls.Go(func() {
				if code, body, err := send(c, "POST", p.URL(), "order"); code != 201 || body != "late: order" {
					t.Errorf("answered %d %q, %v", code, body, err)
				}
			})
		}
		if seen := p.Await(5); len(seen) != 5 || p.InFlight() != 5 {
			t.Errorf("%d seen, %d in flight", len(seen), p.InFlight())
		}
		// What it would get now, with the body that it came with.
		p.Do(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(201)
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "late: %s", body)
		}))
		p.Release()
		calls.Wait()
		if p.InFlight() != 0 || p.MaxInFlight() != 5 {
			t.Errorf("%d in flight, %d at most", p.InFlight(), p.MaxInFlight())
		}

		// Where there is nothing else to get; and a body ends.
		for _, body := range []string{"ok", "b"} {
			p.Hang()
			if body == "b" {
				p.Stall()
			}
			n := len(p.Requests())
			calls.Go(func() {
				if code, got, err := send(c, "GET", p.URL(), ""); code != 200 || got != body {
					t.Errorf("answered %d %q, %v, want %q", code, got, err, body)
				}
			})
			p.Await(n + 1)
			p.Release()
			calls.Wait()
		}
	})
}

func TestFill(t *testing.T) {
	each(t, func(t *testing.T, p *resilienttest.Partner, c *resilient.Client) {
		release := resilienttest.Fill(t, p.Registry(), "sber")
		_, _, err := send(c, "GET", p.URL(), "")
		full, ok := errors.AsType[*resilient.FullError](err)
		if !ok || full.Active != full.Max || full.Waited < 100*time.Millisecond {
			t.Errorf("error %v", err)
		}
		if n := len(p.Requests()); n != 0 {
			t.Errorf("%d requests", n)
		}
		release()
		release()
		if code, _, err := send(c, "GET", p.URL(), ""); code != 200 {
			t.Errorf("when released: %v", err)
		}
		resilienttest.Fill(t, p.Registry(), "sber") // given back at the end
		if o := resilienttest.Outcomes(t, p.Registry(), "sber"); o["refused_full"] != 1 || o["success"] != 1 {
			t.Errorf("outcomes %v", o)
		}
	})
}

// Outcomes are one system's, whatever the metrics' names begin with.
func TestOutcomesOfOne(t *testing.T) {
	for _, prefix := range []string{"", "partners_"} {
		synctest.Test(t, func(t *testing.T) {
			p, reg := resilienttest.NewPartner(t), resilienttest.NewRegistry(t, resilient.WithMetricPrefix(prefix))
			for i, name := range []string{"sber", "sber-reports"} {
				c, err := reg.NewClient(name, resilient.Config{}, p.Options()...)
				if err != nil {
					t.Fatal(err)
				}
				for range i + 1 {
					send(c, "GET", p.URL(), "")
				}
			}
			for i, name := range reg.Names() {
				if o := resilienttest.Outcomes(t, reg, name); o["success"] != i+1 {
					t.Errorf("%s: outcomes %v", name, o)
				}
			}
		})
	}
}

// A spy is a test that may fail.
type spy struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (s *spy) Cleanup(f func())             { s.cleanups = append(s.cleanups, f) }
func (s *spy) Error(args ...any)            { s.failures = append(s.failures, fmt.Sprint(args...)) }
func (s *spy) Errorf(text string, a ...any) { s.failures = append(s.failures, fmt.Sprintf(text, a...)) }
func (s *spy) Fatal(args ...any)            { s.Error(args...); runtime.Goexit() }
func (s *spy) Fatalf(text string, a ...any) { s.Errorf(text, a...); runtime.Goexit() }
func (s *spy) wants(t *testing.T, texts ...string) {
	t.Helper()
	if len(s.failures) != len(texts) {
		t.Fatalf("failures %q, want %q", s.failures, texts)
	}
	for i, text := range texts {
		if !strings.Contains(s.failures[i], text) {
			t.Errorf("failure %q, want %q", s.failures[i], text)
		}
	}
}

// spied runs f as a test, to its end or failure, and then what it has left to do.
func spied(t *testing.T, f func(*spy)) *spy {
	s := &spy{TB: t}
	for steps := []func(){func() { f(s) }}; len(steps) > 0; {
		step := steps[len(steps)-1]
		steps = steps[:len(steps)-1]
		done := make(chan struct{})
		go func() { defer close(done); step() }()
		<-done
		steps, s.cleanups = append(steps, s.cleanups...), nil
	}
	return s
}

// What was not given back fails the test, and is taken back all the same.
func TestLeaks(t *testing.T) {
	for name, c := range map[string]struct {
		leak func(ctx context.Context, p *resilienttest.Partner, c *resilient.Client)
		want []string
	}{
		"none": {func(_ context.Context, p *resilienttest.Partner, c *resilient.Client) { send(c, "GET", p.URL(), "") }, nil},
		"a body that is open": {func(_ context.Context, p *resilienttest.Partner, c *resilient.Client) {
			p.Stall()
			if _, err := c.HTTPClient().Get(p.URL()); err != nil {
				t.Error(err)
			}
		}, []string{"sber has 1 exchanges under way"}},
		"a request that nobody waits for": {func(_ context.Context, p *resilienttest.Partner, c *resilient.Client) {
			p.Hang()
			go send(c, "GET", p.URL(), "")
			p.Await(1)
		}, []string{"sber has 1 exchanges under way"}},
		"a request that ends by itself": {func(ctx context.Context, p *resilienttest.Partner, c *resilient.Client) {
			p.Hang()
			ctx, cancel := context.WithCancel(ctx)
			go func() {
				req, _ := http.NewRequestWithContext(ctx, "GET", p.URL(), nil)
				c.Do(req)
			}()
			p.Await(1)
			cancel()
		}, nil},
		"an execution": {func(_ context.Context, p *resilienttest.Partner, c *resilient.Client) {
			started := make(chan struct{})
			go resilient.Execute(context.Background(), c, func(ctx context.Context) (int, error) {
				close(started)
				<-ctx.Done()
				return 0, nil
			})
			<-started
		}, []string{"1 executions, 1 permits out"}},
	} {
		for _, network := range []string{"memory", "loopback"} {
			t.Run(name+"/"+network, func(t *testing.T) {
				run := func(t *testing.T, opts ...resilienttest.Option) {
					var client *resilient.Client
					var reg *resilient.Registry
					s := spied(t, func(s *spy) {
						p := resilienttest.NewPartner(s, opts...)
						client, reg = p.Client("sber", resilient.Config{}), p.Registry()
						c.leak(t.Context(), p, client)
					})
					s.wants(t, c.want...)
					for range 1000 { // the func of an execution has been told to end
						if len(reg.Names()) == 0 {
							return
						}
						time.Sleep(time.Millisecond)
					}
					t.Errorf("afterwards %+v", client.State())
				}
				if network == "memory" {
					synctest.Test(t, func(t *testing.T) { run(t) })
					return
				}
				t.Parallel()
				run(t, resilienttest.Loopback())
			})
		}
	}
}

// Misuse is told where it happens.
func TestMisuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		spied(t, func(s *spy) { resilienttest.NewPartner(s).Await(1) }).wants(t, "0 requests have reached the partner in 10s, want 1")
		if d := time.Since(start); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("waited %v", d)
		}
		spied(t, func(s *spy) { resilienttest.Fill(s, resilienttest.NewPartner(s).Registry(), "sber") }).wants(t, "sber")
		spied(t, func(s *spy) { resilienttest.Outcomes(s, resilienttest.NewPartner(s).Registry(), "sber") }).wants(t, `no client "sber"`)
		spied(t, func(s *spy) {
			p := resilienttest.NewPartner(s)
			p.Client("sber", resilient.Config{})
			p.Client("sber", resilient.Config{})
		}).wants(t, `a client "sber" exists`)
	})
	for name, f := range map[string]func(resilienttest.Script){
		"a status of 1xx":   func(s resilienttest.Script) { s.Reply(103, "") },
		"what is no JSON":   func(s resilienttest.Script) { s.ReplyJSON(200, func() {}) },
		"no handler at all": func(s resilienttest.Script) { s.Do(nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: taken", name)
				}
			}()
			f(resilienttest.NewPartner(t).Script)
		}()
	}
}
