package resilient_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A client that is replaced leaves no connection behind, and lets go on what is under way if it is shut down with time.
func TestCase_L01(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.server.On("/slow", testserver.After(time.Second, testserver.OK("ok")))
		r.server.On("/stall", testserver.StallInBody(1))
		for _, c := range []struct {
			name string
			path string
			end  func(c *resilient.Client)
			ok   bool
		}{
			{"idle", "/", func(c *resilient.Client) { c.Close() }, true},
			{"drained", "/slow", func(c *resilient.Client) { c.Shutdown(r.Context()) }, true},
			{"cancelled in the round trip", "/slow", func(c *resilient.Client) { c.Close() }, false},
			{"cancelled in the body", "/stall", func(c *resilient.Client) { c.Close() }, false},
		} {
			for range 5 {
				client, err := r.reg.NewClient("insurer", r.State().Config, resilient.WithDialContext(r.server.Dial), resilient.WithTLSConfig(tlsOf(r)))
				if err != nil {
					r.Fatal(err)
				}
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() {
						resp, err := client.Do(r.to(r.Context(), c.path))
						if err == nil {
							_, err = io.ReadAll(resp.Body)
						}
						if (err == nil) != c.ok || err != nil && !errors.Is(err, resilient.ErrClosed) {
							r.Errorf("%s: %v", c.name, err)
						}
					})
				}
				synctest.Wait()
				c.end(client)
				wg.Wait()
				time.Sleep(2 * time.Second) // over HTTP/2 a connection is not idle at once
				if n := r.server.Stats().OpenConns; n != 0 {
					r.Fatalf("%s: %d connections left", c.name, n)
				}
			}
		}
	})
}

// Nothing keeps a closed client alive, over its own base or another, used or not.
func TestCase_L02(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		one := func(i int) weak.Pointer[resilient.Client] {
			var base roundTripper = func(req *http.Request) (*http.Response, error) { return answer(req, 200, hooked{}), nil }
			opts := []resilient.Option{resilient.WithBase(&base)}
			if i%2 == 0 {
				opts = []resilient.Option{resilient.WithDialContext(r.server.Dial), resilient.WithTLSConfig(tlsOf(r))}
			}
			c, err := r.reg.NewClient(fmt.Sprintf("system-%d", i), resilient.Config{Protocol: r.State().Config.Protocol}, opts...)
			if err != nil {
				r.Fatal(err)
			}
			another := base
			wrapped, err := c.Wrap(&another)
			if err != nil {
				r.Fatal(err)
			}
			for _, rt := range []http.RoundTripper{c, wrapped} {
				resp, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
				if err != nil {
					r.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
			}
			c.Close()
			return weak.Make(c)
		}
		before := runtime.NumGoroutine()
		var all []weak.Pointer[resilient.Client]
		for i := range 500 {
			all = append(all, one(i))
		}
		time.Sleep(30 * time.Second) // over HTTP/2 the timer of its pings keeps a connection for 15s after its end
		runtime.GC()
		runtime.GC()
		if alive := len(slices.DeleteFunc(all, func(p weak.Pointer[resilient.Client]) bool { return p.Value() == nil })); alive > 1 {
			r.Errorf("%d of 500 closed clients are alive", alive)
		}
		if n := runtime.NumGoroutine(); n > before+2 || len(r.reg.Names()) != 1 {
			r.Errorf("%d goroutines, %d before, %d clients", n, before, len(r.reg.Names()))
		}
	})
}

// A client is one, whoever asks for it, and has one transport.
func TestCase_L04(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.works()
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				c, err := r.reg.Client("sber")
				if c != r.Client || err != nil {
					r.Errorf("%p, %v", c, err)
				}
				if rt := c.HTTPClient().Transport; rt != http.RoundTripper(r.Client) {
					r.Errorf("%T", rt)
				}
			})
		}
		wg.Wait()
		for range 10 {
			c, _ := r.reg.Client("sber")
			resp, err := c.HTTPClient().Get(r.server.URL())
			if err != nil {
				r.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
		}
		if n := r.server.Stats().Conns; n != 1 {
			r.Errorf("%d connections", n)
		}
	})
}

// Every kind of end, many times over, leaves no goroutine.
func TestCase_L05(t *testing.T) {
	cfg := bounds(time.Millisecond, 5*time.Millisecond, 10*time.Millisecond, trips(1<<20, permits(8)))
	inBoth(t, setting{cfg: cfg}, func(r *rig) {
		r.server.On("/hang", testserver.HangBeforeHeaders())
		r.server.On("/stall", testserver.StallInBody(1))
		r.server.On("/cut", testserver.CutInBody(1, 9))
		r.server.On("/slow", testserver.After(time.Millisecond, testserver.OK("ok")))
		mixture := func(n int) int {
			var wg sync.WaitGroup
			for i := range n {
				path := []string{"/", "/hang", "/stall", "/cut", "/slow"}[i%5]
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(r.Context(), time.Hour)
					if i%3 == 0 {
						time.AfterFunc(2*time.Millisecond, cancel)
					}
					defer cancel()
					if resp, err := r.Do(r.to(ctx, path)); err == nil && i%7 != 0 {
						io.Copy(io.Discard, resp.Body)
					} else if err == nil {
						time.Sleep(20 * time.Millisecond) // forgotten
					}
				})
				if i%20 == 0 {
					time.Sleep(3 * time.Millisecond)
				}
			}
			wg.Wait()
			time.Sleep(time.Second)
			r.CloseIdleConnections()
			synctest.Wait()
			return runtime.NumGoroutine()
		}
		if before, after := mixture(50), mixture(1000); after > before+2 { // a few are the runtime's
			r.Errorf("%d goroutines, %d before", after, before)
		}
		r.held(0)
		if n := r.server.Stats().OpenConns; n != 0 {
			r.Errorf("%d connections", n)
		}
	})
}

// source returns a file of this module as the go command sees it: from the overlay that GOFLAGS names, if there is one.
func source(t *testing.T, path string) []byte {
	t.Helper()
	var overlay struct{ Replace map[string]string }
	for flag := range strings.FieldsSeq(os.Getenv("GOFLAGS")) {
		if name, ok := strings.CutPrefix(flag, "-overlay="); ok {
			data, err := os.ReadFile(name)
			if err == nil {
				err = json.Unmarshal(data, &overlay)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	full, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(cmp.Or(overlay.Replace[full], full))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// No time is taken to a number and back, nor loses its monotonic reading, where a clock that is set would show.
func TestCase_L07(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "tools" || name == "cmd" || name == "examples" || name == "bench" || name == "faultproxy" || name == "testdata" || len(name) > 1 && name[0] == '.') {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, source(t, path), 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Unix", "UnixNano", "UnixMilli", "UnixMicro", "UTC", "Local"}, s.Sel.Name) {
				t.Errorf("%s: %s", fset.Position(call.Pos()), s.Sel.Name)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
