package faults_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/faults.md")

// every returns the cells that exist, phase by phase.
func every() (cells []cell) {
	for _, p := range phases {
		for _, h := range harms {
			for _, protocol := range all {
				if c := (cell{p, h, protocol}); c.exists() {
					cells = append(cells, c)
				}
			}
		}
	}
	return cells
}

// TestMatrix sees every fault in every phase over every protocol, and compares it with the table.
//
// The times are real, and a machine that is busy with something else can be later than a bound. So what is not as it should
// be is seen again, with less going on beside it, and is an error if it is not as it should be then either.
func TestMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	todo := every()
	want, again := wanted()
	if len(again) > 0 || len(want) != len(todo) {
		t.Fatalf("%d rows for %d cells, twice: %q", len(want), len(todo), again)
	}
	got := map[string]sighting{}
	for _, atATime := range []int{12, 4, 1, 1} {
		seeAll(todo, atATime, got)
		var differ []cell
		for _, c := range todo {
			key := c.String()
			s := got[key]
			if key == tied && s.next == "the transport's, same connection" {
				s.next = want[key].next
				got[key] = s
			}
			if s.seen != want[key] || s.bad != nil {
				t.Logf("%d at a time: %s: %+v, %v, %v", atATime, key, s.seen, s.raw, s.bad)
				differ = append(differ, c)
			}
		}
		todo = differ
	}
	for _, c := range todo {
		key := c.String()
		t.Errorf("%s: %v\n%s", key, got[key].bad, cmp.Diff(want[key], got[key].seen, cmp.AllowUnexported(seen{})))
	}
	if left := goroutines(); left != "" {
		t.Errorf("goroutines are left of the cells:\n%s", left)
	}
	if !t.Failed() {
		compare(t, "../../docs/faults.md", page(every(), got))
	}
}

// In this cell the next exchange's silence and what is written of the one before end at the same moment, a second after the
// first silence, if the window of the stream is larger than the kernel's buffers. Either is right.
const tied = "upload, black hole, HTTP2"

func seeAll(cells []cell, atATime int, got map[string]sighting) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	room := make(chan struct{}, atATime)
	for _, c := range cells {
		wg.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			pprof.Do(context.Background(), pprof.Labels("cell", c.String()), func(context.Context) {
				s := c.see()
				mu.Lock()
				defer mu.Unlock()
				got[c.String()] = s
			})
		})
	}
	wg.Wait()
}

// goroutines returns those that bear a cell's label, which a goroutine hands on to those that it starts, and that do not go away.
func goroutines() (left string) {
	for range 500 {
		var profile bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
		left = ""
		for one := range strings.SplitSeq(profile.String(), "\n\n") {
			if strings.Contains(one, `# labels: {"cell":`) {
				left += one + "\n\n"
			}
		}
		if left == "" {
			return ""
		}
		time.Sleep(10 * ms)
	}
	return left
}

// compare compares a page with what is in the tree, or writes it.
func compare(t *testing.T, path, page string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(old), page); d != "" {
		t.Errorf("%s has drifted; go test ./internal/faults -update writes it:\n%s", path, d)
	}
}
