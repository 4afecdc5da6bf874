package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const source = `package bank

import (
	"context"
	"time"
)

const Wait = 2 * time.Second

const Open = "open"

var ErrGone error

type Layer = func(int) string

type Doer interface {
	Do(ctx context.Context) error
	own()
}

type Client struct {
	Name  string
	state int
}

func (c *Client) Close() error { return nil }
func (c Client) String() string { return "" }

type Call[T any] struct{ Total time.Duration }

func (c Call[T]) Do(f func() (T, error)) (T, error) { return f() }

type kind int

func New(name string, more ...func(*Client)) (*Client, error) { return nil, nil }

func hidden(kind) {}
`

const list = `const Open = "open"
const Wait time.Duration = 2000000000
func New(name string, more ...func(*Client)) (*Client, error)
method (*Client) Close() error
method (Call[T any]) Do(f func() (T, error)) (T, error)
method (Client) String() string
type Call[T any] struct
type Call[T any] struct, Total time.Duration
type Client struct
type Client struct, Name string
type Doer interface
type Doer interface, Do(ctx context.Context) error
type Doer interface, unexported methods
type Layer = func(int) string
var ErrGone error
`

// module makes a module of the source in a repository of its own.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.test/bank\n\ngo 1.26\n", "bank.go": source,
		"internal/x/x.go": "package x\n\nconst X = 1\n", "cmd/main.go": "package main\n\nfunc main() {}\n",
		"sub/pay/pay.go": "package pay\n\nfunc Pay(amount int) {}\n",
	} {
		edit(t, dir, name, func(string) string { return text })
	}
	do(t, dir, "init", "-q")
	return dir
}

func edit(t *testing.T, dir, name string, change func(string) string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(name)
	if err := os.WriteFile(name, []byte(change(string(text))), 0o644); err != nil {
		t.Fatal(err)
	}
}

func replace(t *testing.T, dir, name, old, now string) {
	t.Helper()
	edit(t, dir, name, func(s string) string {
		if !strings.Contains(s, old) {
			t.Fatalf("%s has no %q", name, old)
		}
		return strings.Replace(s, old, now, 1)
	})
}

func do(t *testing.T, dir string, args ...string) {
	t.Helper()
	if _, err := git(dir, append([]string{"-c", "user.name=t", "-c", "user.email=t@example.test", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...); err != nil {
		t.Fatal(err)
	}
}

func release(t *testing.T, dir, tag string) {
	t.Helper()
	do(t, dir, "add", "-A")
	do(t, dir, "commit", "-q", "--allow-empty", "-m", tag)
	do(t, dir, "tag", tag)
}

// faults returns the lines of a check that fails.
func faults(t *testing.T, dir string) string {
	t.Helper()
	err := run(dir, false)
	if err == nil {
		return ""
	}
	return err.Error()
}

func write(t *testing.T, dir string) {
	t.Helper()
	if err := run(dir, true); err != nil {
		t.Fatal(err)
	}
}

func TestListing(t *testing.T) {
	dir := module(t)
	do(t, dir, "commit", "-q", "--allow-empty", "-m", "begin")
	if got := faults(t, dir); !strings.Contains(got, "bank.txt: + var ErrGone error") {
		t.Errorf("without a listing: %s", got)
	}
	write(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, folder, "bank.txt"))
	if err != nil || string(text) != list {
		t.Errorf("%v, listing\n%s\nwant\n%s", err, text, list)
	}
	files, _ := filepath.Glob(filepath.Join(dir, folder, "*"))
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if want := []string{"bank.txt", "sub.pay.txt"}; !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
	if got := faults(t, dir); got != "" {
		t.Errorf("just written: %s", got)
	}

	replace(t, dir, "bank.go", "Name  string", "Name  string\n\tURL string")
	replace(t, dir, "bank.go", "Close() error", "Shut() error")
	edit(t, dir, filepath.Join(folder, "old.txt"), func(string) string { return "func Old()\n" })
	got := faults(t, dir)
	for _, want := range []string{
		"bank.txt: + type Client struct, URL string", "bank.txt: + method (*Client) Shut() error",
		"bank.txt: - method (*Client) Close() error", "old.txt: there is no such package",
	} {
		if !strings.Contains(got, "\n  "+want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n != 4 {
		t.Errorf("%d differences, want 4:\n%s", n, got)
	}
	write(t, dir)
	if got := faults(t, dir); got != "" {
		t.Errorf("written again: %s", got)
	}
}

func TestRelease(t *testing.T) {
	dir := module(t)
	write(t, dir)
	release(t, dir, "v0.9.0")
	release(t, dir, "cmd/x/v3.0.0") // another module's
	replace(t, dir, "bank.go", "func New(", "func Other() {}\n\nfunc New(")
	write(t, dir)
	release(t, dir, "v0.10.0")
	if got := faults(t, dir); got != "" {
		t.Errorf("nothing has changed: %s", got)
	}

	replace(t, dir, "bank.go", "func New(", "func Third() {}\n\nfunc New(")
	write(t, dir)
	if got := faults(t, dir); got != "" {
		t.Errorf("a func more breaks nobody: %s", got)
	}

	replace(t, dir, "bank.go", "func Other() {}\n\n", "") // is in v0.10.0, not in v0.9.0
	replace(t, dir, "sub/pay/pay.go", "amount int", "amount int64")
	write(t, dir)
	broken := []string{"bank: Other: removed", "sub.pay: Pay: changed from func(int) to func(int64)"}
	got := faults(t, dir)
	for _, want := range broken {
		if !strings.Contains(got, "breaks the users of v0.10.0: "+want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}

	edit(t, dir, filepath.Join(folder, breaks), func(string) string {
		return "# why\n" + broken[0] + "  # nobody used it\n" + broken[1] + "\n"
	})
	if got := faults(t, dir); got != "" {
		t.Errorf("both are allowed: %s", got)
	}
	write(t, dir) // leaves breaks.txt
	if got := faults(t, dir); got != "" {
		t.Errorf("after -write: %s", got)
	}
	if err := os.RemoveAll(filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	write(t, dir)
	got = faults(t, dir)
	for _, want := range []string{"breaks the users of v0.10.0: sub.pay: package removed", "breaks.txt: no such change since v0.10.0: " + broken[1]} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// What does not compile has no API to compare.
func TestBroken(t *testing.T) {
	dir := module(t)
	replace(t, dir, "bank.go", "func hidden(kind) {}", "func hidden(unkind) {}")
	if got := faults(t, dir); !strings.Contains(got, "unkind") {
		t.Errorf("got %q, want the compiler's error", got)
	}
}
