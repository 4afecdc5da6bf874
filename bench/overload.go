package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/resilient-go/resilient/internal/testserver"
)

// busy is what a system under too much load is called with.
var busy = limits{permits: 16, waiting: 200, wait: 100 * time.Millisecond, total: 7 * time.Second}

const partnerTakes = 200 * time.Millisecond

// slowPartners take partnerTakes for an answer, in two ways.
var slowPartners = []struct {
	name    string
	handler http.Handler
}{
	{"slow headers", testserver.After(partnerTakes, testserver.OK("ok"))},
	{"slow bodies", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "o")
		_ = http.NewResponseController(w).Flush()
		testserver.Sleep(r, partnerTakes)
		_, _ = io.WriteString(w, "k")
	})},
}

// A load is what 200 callers saw, and the server.
type load struct {
	answered, refused int
	late              time.Duration // p99 of the refusals, beyond the time that they may wait
	allocs            float64       // a call, in the whole process
	concurrent        int           // at most, at the server
}

// overload measures what becomes of calls to a partner that is too slow for them.
func overload(ctx context.Context, e effort) (*section, error) {
	s := newSection("Overload")
	callers := 200
	e.load = max(e.load, 3*partnerTakes)
	s.para("%d callers call a partner that takes %v, through %d permits, and wait %v for one; each calls again at once. "+
		"Refusals should come on time, and the partner should never see more than %d calls at once. Allocations are those of the whole process, server included, for a call, refused or not.",
		callers, partnerTakes, busy.permits, busy.wait, busy.permits)
	for _, partner := range slowPartners {
		rows := [][]string{{partner.name, "answered", "refused", "p99 of refusals, after " + busy.wait.String(), "allocations a call", "calls at the partner, at most"}}
		for _, name := range []string{ours, byHand, failsafe, heimdall} {
			l, err := overloaded(ctx, e, stackNamed(name), partner.handler, callers)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", partner.name, name, err)
			}
			if name == ours && l.answered == 0 {
				return nil, errors.New("no call was answered")
			}
			late := "+" + nanos(float64(l.late))
			if l.late < 0 {
				late = "at once"
			}
			rows = append(rows, []string{name, fmt.Sprint(l.answered), fmt.Sprint(l.refused), late, number(l.allocs), fmt.Sprint(l.concurrent)})
			if name != ours {
				continue
			}
			what := "overload, " + partner.name + ": "
			s.atMost(what+"p99 of refusals beyond the acquire timeout", float64(l.late)/1e6, 3, " ms", "Callers, server and library share the processors of this machine; each refusal needs one of them.")
			s.atMost(what+"allocations a call", l.allocs, 11, "", "A refusal costs two, an answer some fifty in net/http at both ends: the mean depends on how many are answered.")
			s.atMost(what+"calls at the server at once", float64(l.concurrent), float64(busy.permits), "", "")
		}
		s.table(rows...)
	}
	return s, nil
}

func overloaded(ctx context.Context, e effort, st stack, h http.Handler, callers int) (load, error) {
	server, err := testserver.Start(testserver.Options{Handler: h})
	if err != nil {
		return load{}, err
	}
	defer server.Close()
	g, err := st.over(busy, nil)
	if err != nil {
		return load{}, err
	}
	defer g.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []caller
	for range callers {
		c, err := get(ctx, g, server.URL()+"/")
		if err != nil {
			return load{}, err
		}
		all = append(all, c)
	}
	if _, err := loaded(all, max(e.load/4, 2*partnerTakes)); err != nil { // connections, pools
		return load{}, err
	}
	server.ResetPeaks()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, err := loaded(all, e.load)
	runtime.ReadMemStats(&after)
	l.allocs = float64(after.Mallocs-before.Mallocs) / float64(max(1, l.answered+l.refused))
	l.concurrent = server.Stats().MaxConcurrent
	return l, err
}

// loaded has all of them call for some time.
func loaded(all []caller, d time.Duration) (load, error) {
	var (
		l     load
		mu    sync.Mutex
		took  []time.Duration // of refusals
		wg    sync.WaitGroup
		until = time.Now().Add(d)
	)
	for _, c := range all {
		wg.Go(func() {
			mine := make([]time.Duration, 0, 1024)
			answered := 0
			for time.Now().Before(until) {
				began := time.Now()
				if err := c.call(); err == nil {
					answered++
					continue
				}
				waited := time.Since(began)
				mine = append(mine, waited)
				if waited < time.Millisecond { // nobody calls again without a pause
					time.Sleep(busy.wait)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			l.answered += answered
			took = append(took, mine...)
		})
	}
	wg.Wait()
	slices.Sort(took)
	l.refused, l.late = len(took), quantile(took, 0.99)-busy.wait
	return l, nil
}
