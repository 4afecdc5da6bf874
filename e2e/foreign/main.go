// Command foreign runs the test suites of others, net/http's among them, with
// the transport of every http.Client in them wrapped by this library, and
// compares with what they do bare. Their sources come from the toolchain and
// through the module proxy, and are kept nowhere.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
)

// least is how many of a hundred tests that pass bare must pass wrapped.
const least = 95

func main() {
	only := flag.String("only", "", "run the suites whose names match this regular expression")
	write := flag.Bool("write", false, "write docs/foreign.md")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, *write); err != nil {
		fmt.Fprintln(os.Stderr, "foreign:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, write bool) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if write && only != "" {
		return errors.New("-write is about all suites")
	}
	dir, err := os.MkdirTemp("", "foreign")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w, err := newWorkshop(ctx, dir)
	if err != nil {
		return err
	}
	var all []*comparison
	for _, s := range suites {
		if chosen.MatchString(s.name) {
			all = append(all, &comparison{suite: s})
		}
	}
	var wg sync.WaitGroup
	var told sync.Mutex
	at := make(chan struct{}, 3) // suites at a time: they wait most of the time
	for _, c := range slices.SortedStableFunc(slices.Values(all), func(a, b *comparison) int { return b.seconds - a.seconds }) {
		at <- struct{}{}
		wg.Go(func() {
			defer func() { <-at }()
			c.run(ctx, w)
			told.Lock()
			defer told.Unlock()
			c.tell(os.Stdout)
		})
	}
	wg.Wait()
	if write {
		if err := os.WriteFile(filepath.Join(w.root, "docs", "foreign.md"), page(w, all), 0o644); err != nil {
			return err
		}
	}
	return verdict(os.Stdout, all)
}
