package resilient_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A body that waits for a 100 stays where it is until that comes, is closed in any case, and no answer to it is a failure.
func TestCase_C13(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(r *rig)
		handler http.Handler
		sent    bool
		ok      bool
	}{
		{"417", nil, testserver.EarlyAnswer(417), false, true},
		{"redirect", nil, testserver.EarlyAnswer(303), false, true},
		{"100", nil, testserver.Echo(), true, true},
		{"silence", nil, testserver.HangUnread(), true, false}, // then net/http sends it after a second
		{"closed client", func(r *rig) { r.Close() }, testserver.Echo(), false, false},
		{"open", (*rig).trip, testserver.Echo(), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, setting{cfg: trips(3, permits(1))}, func(r *rig) {
				if c.prepare != nil {
					c.prepare(r)
				}
				before := r.State().Breaker
				r.server.Default(c.handler)
				var reads, closed atomic.Int32
				data := strings.NewReader("payment")
				body := hooked{read: func(p []byte) (int, error) { reads.Add(1); return data.Read(p) }, closing: func() error { closed.Add(1); return nil }}
				req := r.request(r.Context(), "PUT", body)
				req.Header.Set("Expect", "100-continue")
				resp, err := r.RoundTrip(req)
				if (err == nil) != c.ok {
					r.Errorf("%v", err)
				}
				if err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				synctest.Wait()
				if sent := reads.Load() > 0; sent != c.sent || closed.Load() == 0 {
					r.Errorf("sent %v, closed %d times", sent, closed.Load())
				}
				r.held(0)
				if after := r.State().Breaker; after != before {
					r.Errorf("the breaker is %+v", after)
				}
			})
		})
	}
}

// Who asks for gzip gets it raw, who does not gets it unpacked, as over a bare transport.
func TestCase_C14(t *testing.T) {
	inBoth(t, setting{cfg: permits(1), server: testserver.Options{Handler: testserver.Gzip("hello")}}, func(r *rig) {
		type answer struct {
			Length       int64
			Uncompressed bool
			Header       http.Header
			Body         string
		}
		get := func(rt http.RoundTripper, encoding, method string) (a answer) {
			req := r.request(r.Context(), method, nil)
			if encoding != "" {
				req.Header.Set("Accept-Encoding", encoding)
			}
			resp, err := rt.RoundTrip(req)
			if err != nil {
				r.Fatal(err)
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				r.Error(err)
			}
			return answer{resp.ContentLength, resp.Uncompressed, resp.Header, string(b)}
		}
		bare := r.server.Transport()
		for _, method := range []string{"GET", "HEAD"} {
			for _, encoding := range []string{"", "gzip", "identity"} {
				if d := cmp.Diff(get(bare, encoding, method), get(r.Client, encoding, method)); d != "" {
					r.Errorf("%s, %q: %s", method, encoding, d)
				}
			}
		}
		if a := get(r.Client, "", "GET"); a.Body != "hello" || a.Length != -1 || !a.Uncompressed || a.Header.Get("Content-Encoding") != "" {
			r.Errorf("%+v", a)
		}
	})
}

// What arrives at another host after a redirect, and at the first, is what net/http sends by itself.
func TestCase_C15(t *testing.T) {
	inBoth(t, setting{cfg: permits(1), server: testserver.Options{Handler: testserver.Echo()}}, func(r *rig) {
		scheme, _, _ := strings.Cut(r.server.URL(), ":")
		r.server.On("/far", http.RedirectHandler(scheme+"://insurer.test/", http.StatusFound))
		r.server.On("/near", http.RedirectHandler("/", http.StatusFound))
		bare := r.server.Transport()
		for _, path := range []string{"/", "/near", "/far"} {
			var seen [2]http.Header
			for i, client := range []*http.Client{{Transport: bare}, r.HTTPClient()} {
				req := r.to(r.Context(), path)
				req.Header.Set("Authorization", "Bearer SECRET")
				req.Header.Set("Cookie", "session=SECRET")
				req.Header.Set("X-Request-Id", "1")
				resp, err := client.Do(req)
				if err != nil {
					r.Fatal(err)
				}
				var e testserver.Echoed
				if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
					r.Error(err)
				}
				resp.Body.Close()
				seen[i] = e.Header
			}
			if d := cmp.Diff(seen[0], seen[1]); d != "" {
				r.Errorf("%s: %s", path, d)
			}
			if told := seen[1].Get("Authorization") != "" || seen[1].Get("Cookie") != ""; told != (path != "/far") {
				r.Errorf("%s: %v", path, seen[1])
			}
		}
	})
}

// The caller's trace, values and Cancel go with the request.
func TestCase_C16(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		bare := r.server.Transport()
		var seen *http.Request
		rt := r.over(func(req *http.Request) (*http.Response, error) { seen = req; return bare.RoundTrip(req) })
		conns, reused := 0, 0
		ctx := httptrace.WithClientTrace(context.WithValue(r.Context(), key{}, 1), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
			conns++
			if i.Reused {
				reused++
			}
		}})
		for range 3 {
			req := r.request(ctx, "GET", nil)
			req.Pattern = "GET /"
			req.SetPathValue("id", "7")
			client := &http.Client{Transport: rt, Timeout: time.Minute}
			resp, err := client.Do(req)
			if err != nil {
				r.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close() // ends a goroutine of http.Client's
			if seen.Context().Value(key{}) != 1 || seen.Cancel == nil || seen.PathValue("id") != "7" || seen.Pattern != "GET /" {
				r.Errorf("%+v", seen)
			}
			if _, ok := seen.Context().Deadline(); !ok {
				r.Error("the deadline is lost")
			}
		}
		if conns != 3 || reused != 2 {
			r.Errorf("%d connections got, %d of them reused", conns, reused)
		}
	})
	for _, in := range []string{"headers", "body"} {
		handler := map[string]http.Handler{"headers": testserver.HangBeforeHeaders(), "body": testserver.StallInBody(1)}[in]
		inBoth(t, setting{cfg: trips(1, permits(1)), server: testserver.Options{Handler: handler}}, func(r *rig) {
			req, end := r.request(r.Context(), "GET", nil), make(chan struct{})
			req.Cancel = end
			time.AfterFunc(10*time.Millisecond, func() { close(end) })
			if d := took(func() {
				resp, err := r.RoundTrip(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
				}
				if err == nil || errors.Is(err, resilient.ErrTimeout) {
					r.Error(err)
				}
			}); d != 10*time.Millisecond {
				r.Errorf("%s: Cancel was heard after %v", in, d)
			}
			r.held(0)
			r.breaker("closed")
			r.outcomes(map[string]float64{"cancelled": 1})
		})
	}
}

// A request that is its caller's mistake is an error of its own, costs nothing and is sent to nobody.
func TestCase_C17(t *testing.T) {
	for name, spoil := range map[string]func(*http.Request){
		"no URL":           func(q *http.Request) { q.URL = nil },
		"no host":          func(q *http.Request) { q.URL.Host, q.Host = "", "" },
		"no scheme":        func(q *http.Request) { q.URL.Scheme = "" },
		"no header":        func(q *http.Request) { q.Header = nil },
		"unknown scheme":   func(q *http.Request) { q.URL.Scheme = "gopher" },
		"bad method":       func(q *http.Request) { q.Method = "BAD METHOD" },
		"bad header key":   func(q *http.Request) { q.Header["a b"] = []string{"1"} },
		"bad header value": func(q *http.Request) { q.Header.Set("A", "1\n2") },
		"bad host":         func(q *http.Request) { q.Host = "a b\r\n" },
		"bad trailer":      func(q *http.Request) { q.Trailer = http.Header{"Content-Length": nil} },
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{cfg: trips(1, permits(1))}, func(r *rig) {
				body := &closeCounter{Reader: strings.NewReader("payment")}
				req := r.request(r.Context(), "POST", body)
				spoil(req)
				resp, err := r.RoundTrip(req)
				if err == nil {
					resp.Body.Close()
					r.Fatal("no error")
				}
				synctest.Wait()
				if body.closed.Load() == 0 {
					r.Errorf("%v: the body was not closed", err)
				}
				r.held(0)
				r.breaker("closed")
				r.outcomes(map[string]float64{"invalid": 1})
				if _, _, ok := resilient.StatusCode(err); ok {
					r.Errorf("%v: a status for a handler", err)
				}
				if n := r.server.Stats().Requests; n != 0 {
					r.Errorf("%d requests were sent", n)
				}
				r.works()
			})
		})
	}
}
