package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A bounded mixed load with all faults on, over real sockets, for RESILIENT_SOAK
// (make soak): at every scrape the counts are conserved, and each time that the
// load rests nothing is held. Over the last 80 % neither heap nor goroutines grow.
func TestSoak(t *testing.T) {
	length := 2 * time.Second
	if v := os.Getenv("RESILIENT_SOAK"); v != "" {
		var err error
		if length, err = time.ParseDuration(v); err != nil {
			t.Fatalf("RESILIENT_SOAK: %v", err)
		}
	}
	s := newSoak(t)
	// The timer of HTTP/2's pings, 15 s, goes on when its connection is closed, and with it all that net/http has for that, 50 KiB
	// or so: of pools that are replaced five times a second the heap takes that long to become level.
	warm, long := time.Duration(0), length >= 30*time.Second
	if long {
		warm = 20 * time.Second
	}
	ctx, stop := context.WithTimeout(t.Context(), warm+length)
	defer stop()
	var load sync.WaitGroup
	for i := range 2 * len(s.rigs) * 8 {
		load.Go(func() { s.call(ctx, s.rigs[i%len(s.rigs)], rand.New(rand.NewPCG(uint64(i), 1))) })
	}
	load.Go(func() { s.scrape(ctx) })
	load.Go(func() { s.reload(ctx) })
	rests := max(4, min(60, int(length/time.Second)))
	for start, i := time.Now().Add(warm), 1; i <= rests; i++ {
		time.Sleep(time.Until(start.Add(length * time.Duration(i) / time.Duration(rests+1))))
		s.rest(start)
	}
	load.Wait()
	s.rest(time.Time{})
	if long {
		s.level("heap, KiB", s.heap)
	}
	s.level("goroutines", s.goroutines)
	t.Logf("%v: %d calls, %d scrapes, %d reloads, %d rests: %v", length, s.calls, s.scrapes, s.reloads, rests, s.ends)
	if len(s.ends) < 6 || s.scrapes == 0 || s.reloads == 0 {
		t.Errorf("the load was not mixed: %v, %d scrapes, %d reloads", s.ends, s.scrapes, s.reloads)
	}
}

type soak struct {
	*testing.T
	rigs []*rig

	resting sync.RWMutex // held for reading by each call

	mu                      sync.Mutex
	calls, scrapes, reloads int
	ends                    map[string]int // what calls ended with
	at, heap, goroutines    []float64
}

// patience are bounds that let every fault end soon.
var patience = resilient.Config{
	MaxConnsPerHost: 10, IdleConnTimeout: time.Second, ConnectTimeout: 100 * time.Millisecond, ReadTimeout: 200 * time.Millisecond, TotalTimeout: 400 * time.Millisecond,
	Bulkhead: resilient.BulkheadConfig{AcquireTimeout: 20 * time.Millisecond, MaxWaiting: 20},
	Breaker:  resilient.BreakerConfig{OpenFor: 100 * time.Millisecond, ConsecutiveFailures: 12, MinRequests: 40, FailureRatio: 0.9},
}

func newSoak(t *testing.T) *soak {
	s := &soak{T: t, ends: map[string]int{}}
	for _, p := range []testserver.Protocol{testserver.HTTP1, testserver.HTTPS, testserver.HTTP2} {
		r := newRig(t, setting{cfg: patience, server: testserver.Options{Protocol: p, Handler: mixed(p)}})
		s.rigs = append(s.rigs, r)
	}
	return s
}

// mixed answers well four times in five.
func mixed(p testserver.Protocol) http.Handler {
	bad := []http.Handler{
		testserver.Status(500), testserver.Status(503), testserver.Status(404), testserver.Abort(), testserver.CutInBody(10, 100),
		testserver.StallInBody(10), testserver.HangBeforeHeaders(), testserver.After(50*time.Millisecond, testserver.OK("late")),
		testserver.Trickle(8, 5*time.Millisecond, 20), testserver.Informational(testserver.OK("ok"), 103, 103), testserver.Gzip("packed"),
		testserver.Trailers("body", "X-Sum", "1"), http.RedirectHandler("/again", http.StatusFound), testserver.Echo(), testserver.HugeHeaders(2 << 20),
	}
	if p != testserver.HTTP2 {
		bad = append(bad, testserver.Reset(), testserver.HangInHeaders(), testserver.CloseBeforeHeaders())
	}
	well := testserver.OK(strings.Repeat("ok", 1000))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := rand.IntN(5 * len(bad)); n < len(bad) {
			bad[n].ServeHTTP(w, r)
			return
		}
		well.ServeHTTP(w, r)
	})
}

// call calls one system until ctx ends, each time in another way.
func (s *soak) call(ctx context.Context, r *rig, random *rand.Rand) {
	for ctx.Err() == nil {
		s.resting.RLock()
		err := s.once(r, random)
		s.resting.RUnlock()
		var end string
		switch _, open := errors.AsType[*resilient.OpenError](err); {
		case err == nil:
			end = "ok"
		case errors.Is(err, resilient.ErrBulkheadFull):
			end = "full"
		case open:
			end = "open"
			time.Sleep(time.Millisecond)
		case errors.Is(err, resilient.ErrTimeout):
			end = "timeout"
		case errors.Is(err, context.Canceled):
			end = "canceled"
		case errors.Is(err, context.DeadlineExceeded):
			end = "deadline"
		case errors.Is(err, errMapping):
			end = "domain"
		default:
			end = "transport"
		}
		s.mu.Lock()
		s.calls++
		s.ends[end]++
		s.mu.Unlock()
	}
}

var errMapping = errors.New("domain error")

func (s *soak) once(r *rig, random *rand.Rand) (err error) {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	way := random.IntN(9)
	switch way {
	case 1:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(100))*time.Millisecond)
		defer cancel()
	case 2:
		defer time.AfterFunc(time.Duration(random.IntN(100))*time.Millisecond, cancel).Stop()
	case 3: // several requests under one permit, two of them at once
		_, err = resilient.Execute(ctx, r.Client, func(ctx context.Context) (int, error) {
			var other sync.WaitGroup
			other.Go(func() { _ = s.exchange(ctx, r, "GET", nil, 0) })
			defer other.Wait()
			return 0, errors.Join(s.exchange(ctx, r, "GET", nil, 0), errMapping)
		})
		return err
	case 4:
		return s.exchange(ctx, r, "POST", io.LimitReader(zeros{}, random.Int64N(200<<10)), 0)
	case 5:
		return s.exchange(ctx, r, "PUT", strings.NewReader(strings.Repeat("x", random.IntN(100<<10))), 0)
	case 6: // an upload that fails
		return s.exchange(ctx, r, "POST", io.MultiReader(strings.NewReader("abc"), failing{}), 0)
	}
	return s.exchange(ctx, r, "GET", nil, way)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errMapping }

// exchange does a request and ends its body in one of several ways.
func (s *soak) exchange(ctx context.Context, r *rig, method string, body io.Reader, way int) error {
	resp, err := r.Do(r.request(ctx, method, body))
	if err != nil {
		return err
	}
	switch way {
	case 7: // forgotten: the total ends it
		return nil
	case 8: // read in part
		_, err = io.CopyN(io.Discard, resp.Body, 10)
		resp.Body.Close()
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return err
}

// scrape looks at the metrics, which have to add up at every moment.
func (s *soak) scrape(ctx context.Context) {
	for ctx.Err() == nil {
		for _, r := range s.rigs {
			r.conserved()
		}
		s.scrapes++
		time.Sleep(10 * time.Millisecond)
	}
}

// reload changes limits, bounds and pools, and forces the breaker now and then.
func (s *soak) reload(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		for _, r := range s.rigs {
			cfg := r.State().Config
			cfg = resilient.Config{MaxConnsPerHost: 10 + i/10%2, IdleConnTimeout: patience.IdleConnTimeout, Protocol: cfg.Protocol, ConnectTimeout: patience.ConnectTimeout, ReadTimeout: patience.ReadTimeout,
				TotalTimeout: patience.TotalTimeout + time.Duration(i%3)*time.Millisecond, Bulkhead: patience.Bulkhead, Breaker: patience.Breaker}
			cfg.Bulkhead.MaxConcurrent = 6 + i%3
			if err := r.Reconfigure(cfg); err != nil {
				s.Error(err)
			}
			if i%20 == 10 {
				r.ForceOpen(5 * time.Millisecond)
			}
		}
		s.reloads++
		time.Sleep(20 * time.Millisecond)
	}
}

// rest lets all calls end, looks for what was not given back, and measures, unless start is zero.
func (s *soak) rest(start time.Time) {
	s.resting.Lock()
	defer s.resting.Unlock()
	for _, r := range s.rigs {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			state := r.State()
			if state.InFlight == 0 && state.Executions == 0 && state.Bulkhead.Active == 0 && state.Bulkhead.Waiting == 0 {
				break
			}
			if time.Now().After(deadline) {
				s.Fatalf("not given back: %+v", state)
			}
		}
		if n, most := r.server.Stats().OpenConns, 3*11; n > most {
			s.Errorf("%d connections, at most %d were expected", n, most)
		}
		r.CloseIdleConnections()
	}
	if start.IsZero() {
		return
	}
	time.Sleep(20 * time.Millisecond)
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.at = append(s.at, time.Since(start).Minutes())
	s.heap = append(s.heap, float64(m.HeapAlloc)/1024)
	s.goroutines = append(s.goroutines, float64(runtime.NumGoroutine()))
}

// level fails if what was measured grows, over the last 80 %, by more than 1 % a
// minute, beyond what its scatter leaves open: three standard errors of the slope.
// In less than two minutes that says nothing, of a few dozen goroutines; there it
// has to be by a quarter in all.
func (s *soak) level(name string, values []float64) {
	at, values := s.at[len(s.at)/5:], values[len(values)/5:]
	n := float64(len(at))
	var mx, my, xx, xy float64
	for i := range at {
		mx, my = mx+at[i]/n, my+values[i]/n
	}
	for i := range at {
		xx, xy = xx+(at[i]-mx)*(at[i]-mx), xy+(at[i]-mx)*(values[i]-my)
	}
	slope, rest := xy/xx, 0.0
	for i := range at {
		d := values[i] - my - slope*(at[i]-mx)
		rest += d * d
	}
	scatter := math.Sqrt(rest / (n - 2) / xx)
	percent := func(x float64) string { return fmt.Sprintf("%+.2f %%", 100*x/my) }
	s.Logf("%s: mean %.0f, %s a minute ± %s", name, my, percent(slope), percent(scatter))
	span, grown := at[len(at)-1]-at[0], slope-3*scatter
	if span < 2 && grown*span > my/4 || span >= 2 && grown > my/100 {
		s.Errorf("%s grow by %s a minute: %.0f", name, percent(slope), values)
	}
}
