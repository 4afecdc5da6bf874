package page

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browser is the one of all tests; each has a tab, with storage of its own.
var browser context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	path, err := exec.LookPath("chromium")
	if err != nil {
		fmt.Println("chromium is missing; Debian has it as a package of that name")
		if os.Getenv("RESILIENT_CI") != "" {
			os.Exit(1)
		}
		fmt.Println("skipped")
		return
	}
	os.Exit(run(m, path))
}

func run(m *testing.M, path string) int {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		// Nothing but this machine has a name or an address: a page that asked for more would fail, and the test see it.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	ctx, stop := chromedp.NewContext(allocator)
	defer stop()
	if err := chromedp.Do(ctx); err != nil {
		fmt.Println("chromium does not start:", err)
		return 1
	}
	browser = ctx
	return m.Run()
}

// A tab shows a page. At the end of its test, whatever the browser had to complain about fails it.
type tab struct {
	*testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
	requests   []string
}

type action = chromedp.Action[chromedp.Void]

const patience = 20 * time.Second // for what comes within a second or two

// open loads url after the actions, in a window of that size.
func open(t *testing.T, url string, width, height int64, before ...action) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{T: t, ctx: ctx}
	b.do(chromedp.EmulateViewport(width, height))
	console, requests := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	go func() {
		for said, err := range console { // violations of the policy too
			if err != nil {
				return // the end of the test
			}
			b.mu.Lock()
			b.complaints = append(b.complaints, said.String())
			b.mu.Unlock()
		}
	}()
	go func() {
		for asked, err := range requests {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.requests = append(b.requests, asked.Request.URL)
			b.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		if said := b.said(); len(said) > 0 {
			t.Errorf("the browser complains: %s", strings.Join(said, "\n"))
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.requests) == 0 {
			t.Error("nothing was asked for")
		}
		own, _, _ := strings.Cut(url, "/debug/")
		for _, asked := range b.requests {
			if !strings.HasPrefix(asked, own+"/debug/") && !strings.HasPrefix(asked, "data:image/svg+xml,") {
				t.Errorf("asked for %s", asked)
			}
		}
	})
	b.do(before...)
	b.do(chromedp.Navigate(url))
	return b
}

// said takes what the browser has complained about so far.
func (b *tab) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := b.complaints
	b.complaints = nil
	return said
}

func (b *tab) do(actions ...action) {
	b.Helper()
	try(b, func() (any, error) { return nil, chromedp.Do(b.ctx, actions...) })
}

// get does an action that returns something.
func get[T any](b *tab, a chromedp.Action[T]) T {
	b.Helper()
	return try(b, func() (T, error) { return chromedp.Run(b.ctx, a) })
}

// try does not wait for longer than it has patience: chromedp ties a tab to the context of its first action, so that can't have an end.
func try[T any](b *tab, f func() (T, error)) (v T) {
	b.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		v, err = f()
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			b.Fatal(err)
		}
	case <-time.After(patience):
		b.Fatal("the browser does not answer")
	}
	return v
}

// eval returns what an expression in the page is.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	return get(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// until waits for an expression in the page to be true.
func (b *tab) until(expression string) {
	b.Helper()
	for end := time.Now().Add(patience); !eval[bool](b, expression); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("never: %s\n%s", expression, eval[string](b, "document.body.innerText"))
		}
	}
}

// text is an expression: what is to be read in the first element of that selector.
func text(selector string) string {
	return fmt.Sprintf("(document.querySelector(%q)?.innerText ?? '')", selector)
}

// press presses keys as a keyboard does: what a key types comes with its going down, and not at all if the page has taken it.
func (b *tab) press(keys ...string) {
	b.Helper()
	for _, key := range keys {
		events := kb.Encode([]rune(key)[0])
		if len(events) == 3 {
			events[0].Text, events[0].UnmodifiedText = events[1].Text, events[1].UnmodifiedText
			events = append(events[:1], events[2])
		}
		for _, e := range events {
			b.do(call(input.DispatchKeyEvent, *e))
		}
	}
}

// call is a command of the browser's as an action.
func call[P, R any](command cdp.Command[P, R], params P) action {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}
