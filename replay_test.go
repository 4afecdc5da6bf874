package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/resilient-go/resilient"
)

// A call of a recorded load: what came when, how long it took, and how it ended. No two things happen at the same moment: all
// times are whole milliseconds, to which each call adds microseconds of its own.
type call struct {
	kind   string
	pause  time.Duration // since the call before it
	head   time.Duration // to the headers
	body   time.Duration // from there to the end of the body
	status int           // 0: the transport fails; 101: an upgrade
	within time.Duration // the caller's patience
	cfg    resilient.Config
}

func drawLoad(rt *rapid.T) []call {
	millis := func(name string, all ...int) time.Duration {
		return time.Duration(rapid.SampledFrom(all).Draw(rt, name)) * time.Millisecond
	}
	one := rapid.Custom(func(rt *rapid.T) call {
		c := call{
			kind: rapid.SampledFrom([]string{"read", "read", "read", "read", "close", "forget", "cancel", "cancel", "deadline", "deadline", "stream",
				"execute", "execute", "execute in vain", "force open", "force closed", "automatic", "reconfigure"}).Draw(rt, "kind"),
			pause:  millis("pause", 0, 1, 10, 10, 100, 500, 3000, 12_000),
			head:   millis("head", 1, 50, 300, 300, 1500, 4000, 9000),
			body:   millis("body", 0, 0, 20, 700, 3000),
			status: rapid.SampledFrom([]int{200, 200, 200, 500, 500, 404, 0, 101}).Draw(rt, "status"),
			within: millis("within", 110, 510, 2010, 3010),
		}
		c.cfg = replayed(rapid.IntRange(1, 4).Draw(rt, "permits"), rapid.IntRange(2, 4).Draw(rt, "failures"))
		c.cfg.Breaker.OpenFor = millis("open for", 5000, 7000)
		return c
	})
	return rapid.SliceOfN(one, 20, 50).Draw(rt, "load")
}

// replayed is a configuration by which a load is admitted or refused.
func replayed(permits, failures int) resilient.Config {
	cfg := bounds(100*time.Millisecond, 2*time.Second, 5*time.Second, resilient.Config{MaxConnsPerHost: 10})
	cfg.Bulkhead = resilient.BulkheadConfig{MaxConcurrent: permits, AcquireTimeout: resilient.NoWait}
	cfg.Breaker = resilient.BreakerConfig{MinRequests: 5, ConsecutiveFailures: failures, OpenFor: 7 * time.Second, HalfOpenProbes: 2}
	return cfg
}

// What an observing client says it would refuse is what one that refuses at once does refuse, over any load: as many by the bulkhead
// and by the breaker after each call, with the same transitions at the same times. Those that would have been refused, and run on, have
// no part in it.
func TestObserveDecidesAsEnforcing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		load := drawLoad(rt)
		var enforced, observed []string
		synctest.Test(t, func(t *testing.T) { enforced = replay(t, load) })
		synctest.Test(t, func(t *testing.T) { observed = replay(t, load, resilient.Observe()) })
		if diff := cmp.Diff(enforced, observed); diff != "" {
			rt.Fatalf("enforcing (-), observing (+): %s", diff)
		}
	})
}

// replay returns how many had been refused, and the breaker's transitions, after each call.
func replay(t *testing.T, load []call, opts ...resilient.Option) (story []string) {
	r := &rig{T: t, prom: prometheus.NewRegistry()}
	r.reg = resilient.NewRegistry(resilient.WithRegisterer(r.prom))
	start, transitions := time.Now(), &strings.Builder{}
	hook := resilient.OnStateChange(func(tr resilient.Transition) {
		fmt.Fprintf(transitions, " %v:%s>%s,%s,%.2f", time.Since(start), tr.From, tr.To, tr.Reason, tr.FailureRate)
	})
	var base roundTripper = scripted
	c, err := r.reg.NewClient("sber", replayed(2, 3), append(opts, resilient.WithBase(&base), resilient.WithLogger(discard), hook)...)
	if err != nil {
		t.Fatal(err)
	}
	r.Client = c
	var all sync.WaitGroup
	for i, one := range load {
		time.Sleep(one.pause + time.Microsecond)
		all.Go(func() { r.play(one) })
		synctest.Wait()
		m := r.metrics()
		full := m["requests_total refused_full"] + m["executions_total refused_full"] + m["would_refuse_total full"]
		open := m["requests_total refused_open"] + m["executions_total refused_open"] + m["would_refuse_total open"]
		s := r.State()
		synctest.Wait() // for a transition by this look
		story = append(story, fmt.Sprintf("%d %s: %v full, %v open, %d permits out, breaker %s%s", i, one.kind, full, open, s.Bulkhead.Active, s.Breaker.State, transitions))
		transitions.Reset()
	}
	all.Wait()
	time.Sleep(time.Minute)
	if s := r.State(); s.Bulkhead.Active != 0 || s.InFlight != 0 || s.Executions != 0 {
		t.Errorf("not given back: %+v", s)
	}
	r.conserved()
	r.Close()
	return story
}

type scriptKey struct{}

// scripted is a base that does what the call in the request's context says.
func scripted(req *http.Request) (*http.Response, error) {
	c := req.Context().Value(scriptKey{}).(call)
	if req.Body != nil {
		req.Body.Close()
	}
	if err := pass(req.Context(), c.head); err != nil {
		return nil, err
	}
	if c.status == 0 {
		return nil, errBoom
	}
	ctx, closed := context.WithCancel(req.Context())
	if c.status == http.StatusSwitchingProtocols {
		ctx, closed = context.WithCancel(context.Background())
	}
	read := func([]byte) (int, error) {
		if err := pass(ctx, c.body); err != nil {
			return 0, err
		}
		return 0, io.EOF
	}
	body := hooked{read: read, closing: func() error { closed(); return nil }}
	if c.status == http.StatusSwitchingProtocols {
		return answer(req, c.status, struct {
			io.ReadCloser
			io.Writer
		}{body, io.Discard}), nil
	}
	return answer(req, c.status, body), nil
}

// pass waits for d, or for the end of ctx.
func pass(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// play does one call of a load, whatever becomes of it.
func (r *rig) play(c call) {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), scriptKey{}, c))
	defer cancel()
	send := func(ctx context.Context) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, "GET", "http://sber.test/", nil)
		if err != nil {
			r.Fatal(err)
		}
		return r.RoundTrip(req)
	}
	read := func(ctx context.Context) {
		if resp, err := send(ctx); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	switch c.kind {
	case "read":
		read(ctx)
	case "close":
		if resp, err := send(ctx); err == nil {
			time.Sleep(c.body)
			resp.Body.Close()
		}
	case "forget":
		if resp, err := send(ctx); err == nil {
			time.Sleep(20 * time.Second)
			resp.Body.Close()
		}
	case "cancel":
		time.AfterFunc(c.within, cancel)
		read(ctx)
	case "deadline":
		ctx, cancel := context.WithTimeout(ctx, c.within)
		defer cancel()
		read(ctx)
	case "stream":
		read(resilient.WithBounds(ctx, resilient.Bounds{Total: resilient.Unbounded}))
	case "execute", "execute in vain":
		var all sync.WaitGroup
		defer all.Wait() // not in the func, which is to take as long as was recorded, whatever is refused within it
		_, _ = resilient.Execute(ctx, r.Client, func(ctx context.Context) (int, error) {
			for i := range 3 { // two at nearly the same moment, of which the first has the permit, and one later
				if c.kind == "execute in vain" {
					break
				}
				all.Go(func() { time.Sleep(time.Duration(i/2)*c.within + time.Duration(i)); read(ctx) })
			}
			return 0, errors.Join(pass(ctx, c.within+50), map[bool]error{true: errBoom}[c.status == 0])
		})
	case "force open":
		r.ForceOpen(c.within)
	case "force closed":
		r.ForceClosed(c.within)
	case "automatic":
		r.Automatic()
	case "reconfigure":
		if err := r.Reconfigure(c.cfg); err != nil {
			r.Error(err)
		}
	}
}
