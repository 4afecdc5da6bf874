package resilient_test

import (
	"context"
	"encoding/json"
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
	"github.com/resilient-go/resilient/internal/testserver"
)

// Goexit, and its sister panic, inside a probe: in the round trip, in a Read, in a Close, in the request's own body.
func TestCase_P02(t *testing.T) {
	goexit := func() { runtime.Goexit() }
	for _, c := range []struct {
		name string
		in   string // where end is called
		end  func()
		want string // the breaker after that probe; "" = closed or open, but no third
	}{
		{"Goexit in RoundTrip", "RoundTrip", goexit, "open"},
		{"panic in RoundTrip", "RoundTrip", func() { panic(errBoom) }, "open"},
		{"Goexit in Read", "Read", goexit, "open"},
		{"panic in Read", "Read", func() { panic(errBoom) }, "open"},
		{"Goexit in Close", "Close", goexit, ""},
		{"panic in Close", "Close", func() { panic(errBoom) }, ""},
		{"Goexit in the upload", "upload", goexit, ""},
		{"panic in the upload", "upload", func() { panic(errBoom) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inOne(t, setting{cfg: trips(3, permits(1))}, func(r *rig) {
				at := func(place string) {
					if c.in == place {
						c.end()
					}
				}
				rt := r.over(func(req *http.Request) (*http.Response, error) {
					at("RoundTrip")
					io.Copy(io.Discard, req.Body)
					return answer(req, 200, hooked{
						read:    func([]byte) (int, error) { at("Read"); return 0, io.EOF },
						closing: func() error { at("Close"); return nil },
					}), nil
				})
				r.halfOpen()
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() { _ = recover() }()
					resp, err := rt.RoundTrip(r.request(r.Context(), "POST", hooked{read: func([]byte) (int, error) { at("upload"); return 0, io.EOF }}))
					if err == nil && c.in == "Read" {
						io.Copy(io.Discard, resp.Body)
					} else if err == nil {
						resp.Body.Close()
					}
					r.Errorf("it returned, with %v", err)
				})
				wg.Wait()
				r.held(0)
				if c.want != "" {
					r.breaker(c.want)
				}
				time.Sleep(r.State().Config.Breaker.OpenFor + 1)
				r.works()
				r.breaker("closed")
			})
		})
	}
}

// A body read to its end costs no permit, whoever reads it and how.
func TestCase_P04(t *testing.T) {
	readers := map[string]func(io.Reader) error{
		"ReadAll":  func(b io.Reader) error { _, err := io.ReadAll(b); return err },
		"Copy":     func(b io.Reader) error { _, err := io.Copy(struct{ io.Writer }{io.Discard}, b); return err },
		"CopyN":    func(b io.Reader) error { _, err := io.CopyN(io.Discard, b, 5); return ignoreEOF(err) },
		"one byte": func(b io.Reader) error { _, err := io.ReadAll(oneByte{b}); return err },
		"Decoder": func(b io.Reader) error {
			d := json.NewDecoder(b)
			for d.More() {
				d.Decode(new(any))
			}
			return ignoreEOF(d.Decode(new(any)))
		},
	}
	inBoth(t, setting{cfg: permits(1), server: testserver.Options{Handler: testserver.OK(`{}`)}}, func(r *rig) {
		for name, read := range readers {
			if err := read(r.send(r.Context(), "/").Body); err != nil {
				r.Errorf("%s: %v", name, err)
			}
			r.held(0)
			r.works()
			r.server.Default(testserver.OK(`{}`))
		}
		if n := r.server.Stats().Conns; n != 1 {
			r.Errorf("%d connections", n)
		}
	})
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

type oneByte struct{ io.Reader }

func (b oneByte) Read(p []byte) (int, error) { return b.Reader.Read(p[:1]) }

// Read, Close and the end of the exchange at once.
func TestCase_P06(t *testing.T) {
	cfg := trips(1_000_000, permits(1))
	inBoth(t, setting{cfg: cfg, server: testserver.Options{Handler: testserver.StallInBody(1)}}, func(r *rig) {
		for i := range 500 {
			// Half of them race the caller's cancel, the others the total.
			ctx, cancel := context.WithCancel(resilient.WithBounds(r.Context(), resilient.Bounds{Total: time.Second}))
			body := r.send(ctx, "/").Body
			start := make(chan struct{})
			racers := []func(){
				func() {
					if _, err := io.ReadAll(body); err == nil {
						r.Error("Read ended well")
					}
				},
				func() { body.Close() },
				func() { body.Close() },
			}
			if i%2 == 0 {
				racers = append(racers, cancel)
			}
			var wg sync.WaitGroup
			for _, f := range racers {
				wg.Go(func() { <-start; f() })
			}
			synctest.Wait()
			time.Sleep(time.Second - time.Duration(1-i%2)) // to the instant of the total
			close(start)
			wg.Wait()
			synctest.Wait()
			r.held(0)
			cancel()
		}
	})
}

// A response without a body holds nothing once RoundTrip has returned, and is as the bare transport makes it.
func TestCase_P07(t *testing.T) {
	stream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		io.WriteString(w, "hello")
	})
	for _, c := range []struct {
		name, method string
		handler      http.Handler
	}{
		{"HEAD", "HEAD", testserver.OK("hello")},
		{"HEAD of a stream", "HEAD", stream},
		{"HEAD of a failure", "HEAD", testserver.Status(404)},
		{"HEAD of gzip", "HEAD", testserver.Gzip("hello")},
		{"204", "GET", testserver.Status(204)},
		{"204 to a POST", "POST", testserver.Status(204)},
		{"304", "GET", testserver.Status(304, "ETag", `"1"`)},
		{"length 0", "GET", testserver.OK("")},
		{"length 0 of a failure", "PUT", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(409) })},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, setting{cfg: permits(1), server: testserver.Options{Handler: c.handler}}, func(r *rig) {
				bare := r.server.Transport()
				plain, err := bare.RoundTrip(r.request(r.Context(), c.method, nil))
				if err != nil {
					r.Fatal(err)
				}
				var ctx context.Context
				rt := r.over(func(req *http.Request) (*http.Response, error) { ctx = req.Context(); return bare.RoundTrip(req) })
				for range 3 { // over one permit, none of them closed
					resp, err := rt.RoundTrip(r.request(r.Context(), c.method, nil))
					if err != nil {
						r.Fatal(err)
					}
					r.held(0)
					if ctx.Err() == nil {
						r.Error("the exchange's context, and so its timer, lives on")
					}
					got, want := fmt.Sprintf("%T %v %d", resp.Body, resp.Body == http.NoBody, resp.ContentLength),
						fmt.Sprintf("%T %v %d", plain.Body, plain.Body == http.NoBody, plain.ContentLength)
					if got != want {
						r.Errorf("got %s, want %s", got, want)
					}
				}
			})
		})
	}
}

// An upgraded connection holds its permit until it is closed, however it is used.
func TestCase_P09(t *testing.T) {
	upgraded := func(t *testing.T, f func(r *rig, conn io.ReadWriteCloser)) {
		inOne(t, setting{cfg: permits(1), server: testserver.Options{Handler: testserver.Upgrade()}}, func(r *rig) {
			ctx, cancel := context.WithCancel(r.Context())
			resp, err := r.Do(r.upgrade(ctx))
			if err != nil {
				r.Fatal(err)
			}
			cancel()
			time.Sleep(time.Hour)
			r.held(1)
			if _, err := r.get(r.Context()); !errors.Is(err, resilient.ErrBulkheadFull) {
				r.Errorf("beside the upgrade: %v", err)
			}
			f(r, resp.Body.(io.ReadWriteCloser))
			synctest.Wait()
			r.held(0)
		})
	}
	t.Run("closed", func(t *testing.T) {
		upgraded(t, func(r *rig, conn io.ReadWriteCloser) {
			io.WriteString(conn, "hello\n")
			conn.Close()
			r.works()
		})
	})
	t.Run("closed while it is read", func(t *testing.T) {
		upgraded(t, func(r *rig, conn io.ReadWriteCloser) {
			go io.Copy(io.Discard, conn)
			synctest.Wait()
			conn.Close()
		})
	})
	t.Run("the client is closed", func(t *testing.T) {
		upgraded(t, func(r *rig, conn io.ReadWriteCloser) {
			r.Close()
			if _, err := io.WriteString(conn, "hello\n"); err == nil {
				r.Error("it is still open")
			}
		})
	})
	t.Run("refused", func(t *testing.T) { // that is an ordinary answer
		inOne(t, setting{cfg: permits(1)}, func(r *rig) {
			resp, err := r.RoundTrip(r.upgrade(r.Context()))
			if err != nil {
				r.Fatal(err)
			}
			if _, ok := resp.Body.(io.Writer); ok {
				r.Error("a Writer")
			}
			io.Copy(io.Discard, resp.Body)
			r.held(0)
		})
	})
}

// Followed from one system's host to another's, a request takes and gives back permits of its own client alone.
func TestCase_P11(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		other, err := r.reg.NewClient("insurer", permits(1), resilient.WithDialContext(r.server.Dial), resilient.WithTLSConfig(tlsOf(r)))
		if err != nil {
			r.Fatal(err)
		}
		defer other.Close()
		scheme, _, _ := strings.Cut(r.server.URL(), ":")
		r.server.On("/a", http.RedirectHandler(scheme+"://insurer.test/b", http.StatusFound))
		r.server.On("/b", testserver.After(time.Second, testserver.OK("ok")))
		var wg sync.WaitGroup
		for _, c := range []*resilient.Client{r.Client, other} {
			wg.Go(func() {
				resp, err := c.Do(r.to(r.Context(), "/a"))
				if err != nil {
					r.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
			})
			synctest.Wait() // at the second hop
			for _, s := range r.reg.States() {
				if want := c == other || s.Name == "sber"; (s.Bulkhead.Active == 1) != want {
					r.Errorf("%s has %d permits out", s.Name, s.Bulkhead.Active)
				}
			}
		}
		wg.Wait()
		for _, s := range r.reg.States() {
			if s.Bulkhead.Active != 0 || s.Bulkhead.Rejected != 0 {
				r.Errorf("%+v", s.Bulkhead)
			}
		}
	})
}

// Redirects that the client does not follow to their end.
func TestCase_P12(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		r.server.On("/loop", http.RedirectHandler("/loop", http.StatusFound))
		r.server.On("/nowhere", testserver.Status(302))
		r.server.On("/malformed", testserver.Status(302, "Location", "::"))
		r.server.On("/keep", http.RedirectHandler("/loop", http.StatusTemporaryRedirect))
		for _, c := range []struct {
			path   string
			policy error
			body   io.Reader
			ok     bool
		}{
			{"/loop", errBoom, nil, false},
			{"/loop", http.ErrUseLastResponse, nil, true},
			{"/loop", nil, nil, false}, // ten hops
			{"/nowhere", nil, nil, true},
			{"/malformed", nil, nil, false},
			{"/keep", nil, io.MultiReader(strings.NewReader("no GetBody")), true},
		} {
			client := r.HTTPClient()
			if c.policy != nil {
				client.CheckRedirect = func(*http.Request, []*http.Request) error { return c.policy }
			}
			req := r.request(r.Context(), "POST", c.body)
			req.URL.Path = c.path
			resp, err := client.Do(req)
			if ok := err == nil; ok != c.ok {
				r.Errorf("%s, %v: %v", c.path, c.policy, err)
			}
			if err == nil {
				resp.Body.Close()
			}
			r.held(0)
			r.works()
		}
		r.breaker("closed")
	})
}
