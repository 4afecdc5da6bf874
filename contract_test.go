package resilient_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

type closeCounter struct {
	io.Reader
	closed atomic.Int32
}

func (c *closeCounter) Close() error { c.closed.Add(1); return nil }

func (r *rig) echo(req *http.Request) (e testserver.Echoed) {
	r.Helper()
	resp, err := r.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
		r.Fatal(err)
	}
	return e
}

// Bodies arrive as they would without the client: with their length, or chunked.
func TestRequestBodies(t *testing.T) {
	big := strings.Repeat("x", 100_000)
	inBoth(t, setting{server: testserver.Options{Handler: testserver.Echo()}}, func(r *rig) {
		http2 := r.State().Config.Protocol == "http2"
		for _, c := range []struct {
			name   string
			body   io.Reader
			length int64
			want   string
		}{
			{"none", nil, 0, ""},
			{"NoBody", http.NoBody, 0, ""},
			{"in memory", strings.NewReader("hello"), 5, "hello"},
			{"large in memory", strings.NewReader(big), 100_000, big},
			{"stream", io.MultiReader(strings.NewReader("hello")), -1, "hello"},
		} {
			req := r.request(r.Context(), "POST", c.body)
			before := *req
			e := r.echo(req)
			if e.Body != c.want || e.ContentLength != c.length {
				r.Errorf("%s: %d bytes, ContentLength %d", c.name, len(e.Body), e.ContentLength)
			}
			if chunked := len(e.TransferEncoding) > 0; !http2 && chunked != (c.length < 0) {
				r.Errorf("%s: chunked %v", c.name, chunked)
			}
			if d := cmp.Diff(&before, req, cmpopts.IgnoreUnexported(http.Request{}), cmpopts.IgnoreFields(http.Request{}, "Body", "GetBody")); d != "" || req.Body != before.Body {
				r.Errorf("%s: the request was changed: %s", c.name, d)
			}
		}
		if e := r.echo(r.request(r.Context(), "GET", nil)); e.Header.Get("Accept-Encoding") != "gzip" {
			r.Errorf("net/http's own headers: %v", e.Header)
		}
	})
}

func TestRedirects(t *testing.T) {
	inBoth(t, setting{cfg: resilient.Config{MaxConnsPerHost: 1}}, func(r *rig) {
		r.server.On("/a", http.RedirectHandler("/b", http.StatusTemporaryRedirect))
		r.server.On("/b", http.RedirectHandler("/c", http.StatusPermanentRedirect))
		r.server.On("/c", testserver.Echo())
		for _, body := range []io.Reader{strings.NewReader("hello"), strings.NewReader(strings.Repeat("x", 100_000))} {
			req := r.request(r.Context(), "POST", body)
			req.URL.Path = "/a"
			if e := r.echo(req); int64(len(e.Body)) != req.ContentLength {
				r.Errorf("%d bytes arrived", len(e.Body))
			}
		}
		c := r.HTTPClient()
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return errBoom }
		if _, err := c.Get(r.server.URL() + "/a"); !errors.Is(err, errBoom) {
			r.Error(err)
		}
		r.held(0)
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		resp, err := c.Get(r.server.URL() + "/a")
		if err != nil || resp.StatusCode != http.StatusTemporaryRedirect {
			r.Fatal(resp, err)
		}
		resp.Body.Close()
		r.held(0)
		r.outcomes(map[string]float64{"success": 8})
	})
}

func TestResponse(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.server.On("/trailers", testserver.Trailers("body", "X-Sum", "42"))
		r.server.On("/gzip", testserver.Gzip("hello"))
		r.server.On("/hints", testserver.Informational(testserver.OK("ok"), 103, 103))
		do := func(ctx context.Context, method, path string) (*http.Response, string) {
			req := r.request(ctx, method, nil)
			req.URL.Path = path
			resp, err := r.Do(req)
			if err != nil {
				r.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.Request != req {
				r.Errorf("%s: not the caller's request", path)
			}
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				r.Error(err)
			}
			return resp, string(b)
		}
		if resp, body := do(r.Context(), "GET", "/trailers"); body != "body" || resp.Trailer.Get("X-Sum") != "42" {
			r.Errorf("%q, trailers %v", body, resp.Trailer)
		}
		if resp, body := do(r.Context(), "GET", "/gzip"); body != "hello" || !resp.Uncompressed || resp.ContentLength != -1 {
			r.Errorf("%q, %+v", body, resp)
		}
		hints, conns := 0, 0
		ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(int, textproto.MIMEHeader) error { hints++; return nil },
			GotConn:        func(httptrace.GotConnInfo) { conns++ },
		})
		if _, body := do(ctx, "GET", "/hints"); body != "ok" || hints != 2 || conns != 1 {
			r.Errorf("%q, %d hints, %d connections", body, hints, conns)
		}
		req := r.request(r.Context(), "HEAD", nil)
		resp, err := r.RoundTrip(req)
		if err != nil || resp.ContentLength != 2 {
			r.Errorf("%v, %v", resp, err)
		}
		r.held(0) // a HEAD's body needs no closing
		r.server.Default(testserver.Status(204))
		if _, err := r.RoundTrip(req); err != nil {
			r.Error(err)
		}
		r.held(0)
	})
}

// One connection serves requests whose bodies are read to the end, closed or not.
func TestConnectionReuse(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		for range 20 {
			resp, err := r.Do(r.request(r.Context(), "GET", nil))
			if err != nil {
				r.Fatal(err)
			}
			io.ReadAll(resp.Body)
			synctest.Wait()
		}
		if n := r.server.Stats().Conns; n != 1 {
			r.Errorf("%d connections", n)
		}
		if n := r.metrics()["connections_opened_total"]; n != 1 {
			r.Errorf("counted %v connections", n)
		}
		r.CloseIdleConnections()
		synctest.Wait()
		if n := r.server.Stats().OpenConns; n != 0 {
			r.Errorf("%d connections open", n)
		}
	})
}

func TestUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setting{server: testserver.Options{Memory: true, Handler: testserver.Upgrade()}})
		ctx, cancel := context.WithCancel(r.Context())
		req := r.request(ctx, "GET", nil)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := r.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Minute) // neither the caller's context nor the total ends it
		r.held(1)
		rw := resp.Body.(io.ReadWriteCloser)
		fmt.Fprintf(rw, "hello\n")
		if line, err := bufio.NewReader(rw).ReadString('\n'); line != "hello\n" || err != nil {
			t.Errorf("%q, %v", line, err)
		}
		if age := r.State().Oldest; age != time.Minute {
			t.Errorf("the oldest is %v old", age)
		}
		rw.Close()
		r.held(0)
		r.outcomes(map[string]float64{"upgraded": 1})
		if resp, err = r.Do(r.request(r.Context(), "GET", nil)); err == nil {
			if _, ok := resp.Body.(io.Writer); ok {
				t.Error("an ordinary body is a Writer")
			}
			resp.Body.Close()
		}
	})
}

// Section 5's base, as far as a user can see it: no http.DefaultTransport, no timeout in the http.Client.
func TestHTTPClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setting{server: testserver.Options{Memory: true}})
		a, b := r.HTTPClient(), r.HTTPClient()
		if a == b || a.Timeout != 0 || a.Transport != r.Client {
			t.Errorf("%+v, %+v", a, b)
		}
	})
}

func TestExpectContinue(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.server.Default(testserver.EarlyAnswer(http.StatusExpectationFailed))
		req := r.request(r.Context(), "PUT", io.MultiReader(strings.NewReader("body")))
		req.Header.Set("Expect", "100-continue")
		resp, err := r.Do(req)
		if err != nil || resp.StatusCode != http.StatusExpectationFailed {
			r.Fatal(resp, err)
		}
		resp.Body.Close()
		r.server.Default(testserver.Echo())
		req = r.request(r.Context(), "PUT", io.MultiReader(strings.NewReader("body")))
		req.Header.Set("Expect", "100-continue")
		if e := r.echo(req); e.Body != "body" {
			r.Errorf("%q", e.Body)
		}
		r.outcomes(map[string]float64{"success": 2})
	})
}
