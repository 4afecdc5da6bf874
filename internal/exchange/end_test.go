package exchange_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

// readAll reads b to its end, one byte at a time, and returns what and when that was.
func readAll(b io.Reader) (string, error) {
	var all strings.Builder
	p := make([]byte, 1)
	for {
		n, err := b.Read(p)
		all.Write(p[:n])
		if err != nil {
			return all.String(), err
		}
	}
}

// The ways that a body ends, of a real server's answers.
func TestBodyEnds(t *testing.T) {
	one := make([]byte, 1)
	for name, c := range map[string]struct {
		answer  http.Handler
		use     func(t *testing.T, r *rig, b io.ReadCloser)
		want    Outcome
		after   [2]string // what a Read says afterwards, by protocol
		heard   [2]int    // how often, the round trip included; 0 if that is chance
		reusing bool      // the connection of HTTP/1.1
	}{
		"read to its end, without Close": {
			answer: testserver.OK("abc"),
			use: func(t *testing.T, r *rig, b io.ReadCloser) {
				if s, err := readAll(b); s != "abc" || err != io.EOF {
					t.Errorf("%q, %v", s, err)
				}
			},
			after: [2]string{"EOF", "EOF"}, heard: [2]int{4, 5}, reusing: true,
		},
		"read to its end, then closed twice": {
			answer: testserver.OK("abc"),
			use: func(t *testing.T, r *rig, b io.ReadCloser) {
				io.Copy(io.Discard, b)
				r.ended(Outcome{})
				if err := errors.Join(b.Close(), b.Close()); err != nil {
					t.Error(err)
				}
			},
			after: [2]string{"http: read on closed response body", "http2: response body closed"}, reusing: true,
		},
		"closed unread": {
			answer: testserver.StallInBody(3),
			use:    func(t *testing.T, r *rig, b io.ReadCloser) { b.Close() },
			after:  [2]string{"http: read on closed response body", "http2: response body closed"}, heard: [2]int{1, 1},
		},
		"closed early, twice": {
			answer: testserver.StallInBody(3),
			use: func(t *testing.T, r *rig, b io.ReadCloser) {
				b.Read(one)
				r.held(4)
				if err := b.Close(); err != nil {
					t.Error(err)
				}
				r.ended(Outcome{})
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			},
			after: [2]string{"http: read on closed response body", "http2: response body closed"}, heard: [2]int{2, 2},
		},
		"closed under a Read": {
			answer: testserver.StallInBody(0),
			use: func(t *testing.T, r *rig, b io.ReadCloser) {
				time.AfterFunc(time.Second, func() { b.Close() })
				start := time.Now()
				_, err := b.Read(one)
				if took := time.Since(start); err == nil || took != time.Second {
					t.Errorf("%v after %v", err, took)
				}
				synctest.Wait() // either may have ended it, and the other be earlier
			},
			after: [2]string{"http: read on closed response body", "http2: response body closed"}, heard: [2]int{1, 1},
		},
		"cut": {
			answer: testserver.CutInBody(3, 10),
			use: func(t *testing.T, r *rig, b io.ReadCloser) {
				if s, err := readAll(b); s != "bbb" || err == io.EOF {
					t.Errorf("%q, %v", s, err)
				}
			},
			want:  Outcome{Fault: errAny},
			after: [2]string{"unexpected EOF", "stream error"}, heard: [2]int{4, 4},
		},
		"cut, of unknown length": {
			answer: testserver.CutInBody(3, 0),
			use: func(t *testing.T, r *rig, b io.ReadCloser) {
				if _, err := io.ReadAll(b); err == nil {
					t.Error("read to its end")
				}
			},
			want:  Outcome{Fault: errAny},
			after: [2]string{"unexpected EOF", "stream error"},
		},
	} {
		both(t, name, c.answer, func(t *testing.T, s *system) {
			r := newRig(t, s.base)
			resp, err := r.RoundTrip(s.request(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			r.held(4)
			c.use(t, r, resp.Body)
			r.ended(c.want)
			p := s.protocol / testserver.HTTP2
			if want := c.heard[p]; want > 0 && r.heard != want {
				t.Errorf("heard %d times, want %d", r.heard, want)
			}
			if n, err := resp.Body.Read(one); n != 0 || err == nil || !strings.Contains(err.Error(), c.after[p]) {
				t.Errorf("a Read afterwards: %d, %v", n, err)
			}
			if x := r.last(); x.Status != 200 || !x.Sent || !slices.Equal(x.answered, reverse) || x.failed != nil {
				t.Errorf("status %d, sent %v, answered %v, failed %v", x.Status, x.Sent, x.answered, x.failed)
			}
			again, err := r.RoundTrip(s.request(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			again.Body.Close()
			r.settled()
			if conns := s.Stats().Conns; c.reusing && conns != 1 {
				t.Errorf("%d connections", conns)
			}
		})
	}
}

// Responses without a body end with RoundTrip, and are left as the transport made them.
func TestNoBody(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		answer http.Handler
		status int
		length int64
	}{
		"HEAD":                {http.MethodHead, testserver.OK("hello"), 200, 5},
		"204":                 {http.MethodGet, testserver.Status(204), 204, 0},
		"304":                 {http.MethodGet, testserver.Status(304), 304, 0},
		"empty":               {http.MethodGet, testserver.OK(""), 200, 0},
		"HEAD, nothing known": {http.MethodHead, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), 200, -1},
	} {
		both(t, name, c.answer, func(t *testing.T, s *system) {
			var bare io.ReadCloser
			r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
				resp, err := s.base.RoundTrip(req)
				bare = resp.Body
				return resp, err
			}))
			for range 3 {
				req := s.request(t.Context())
				req.Method = c.method
				resp, err := r.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				r.ended(Outcome{})
				if resp.Body != bare || resp.StatusCode != c.status || resp.ContentLength != c.length {
					t.Errorf("%T, %d, ContentLength %d", resp.Body, resp.StatusCode, resp.ContentLength)
				}
				if b, err := io.ReadAll(resp.Body); len(b) > 0 || err != nil {
					t.Errorf("%q, %v", b, err)
				}
			}
			if conns := s.Stats().Conns; conns != 1 {
				t.Errorf("%d connections", conns)
			}
		})
	}
}

// A body that HTTP/2 says is empty may still lack its end, with or without trailers.
func TestEmptyBodyStillToEnd(t *testing.T) {
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		trailer string
	}{
		"ContentLength 0": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "0")
			w.(http.Flusher).Flush()
			time.Sleep(time.Second)
		}},
		"204": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			w.(http.Flusher).Flush()
			time.Sleep(time.Second)
		}},
		"trailers": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "T")
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusOK)
			time.Sleep(time.Second)
			w.Header().Set("T", "v")
		}, trailer: "v"},
	} {
		both(t, name, c.answer, func(t *testing.T, s *system) {
			r := newRig(t, s.base)
			resp, err := r.RoundTrip(s.request(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			if s.protocol == testserver.HTTP2 {
				r.held(4)
			} else {
				r.ended(Outcome{})
			}
			if b, err := io.ReadAll(resp.Body); len(b) > 0 || err != nil {
				t.Errorf("%q, %v", b, err)
			}
			r.ended(Outcome{})
			if got := resp.Trailer.Get("T"); s.protocol == testserver.HTTP2 && got != c.trailer {
				t.Errorf("trailer %q", got)
			}
		})
	}
}

// What a fake says of its body decides as little as what it is: only HTTP/2
// answers without a body may still have to end.
func TestNoBodyOfFake(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		status int
		major  int
		body   io.ReadCloser
		over   bool
	}{
		"nil":            {"GET", 200, 1, nil, true},
		"NoBody":         {"GET", 200, 1, http.NoBody, true},
		"nil, HTTP/2":    {"GET", 200, 2, nil, true},
		"NoBody, HTTP/2": {"GET", 200, 2, http.NoBody, true},
		"HEAD":           {"HEAD", 200, 1, text(""), true},
		"204":            {"GET", 204, 1, text(""), true},
		"304":            {"GET", 304, 1, text(""), true},
		"HEAD, HTTP/2":   {"HEAD", 200, 2, text(""), false},
		"204, HTTP/2":    {"GET", 204, 2, text(""), false},
		"304, HTTP/2":    {"GET", 304, 2, text(""), false},
		"205":            {"GET", 205, 1, text(""), false},
		"303":            {"GET", 303, 1, text(""), false},
		"GET":            {"GET", 200, 1, text(""), false},
	} {
		bubble(t, name, func(t *testing.T) {
			r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
				resp := reply(req, c.status, c.body)
				resp.ProtoMajor = c.major
				return resp, nil
			}))
			req := request(t.Context())
			req.Method = c.method
			resp, err := r.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if c.over {
				r.ended(Outcome{})
				if resp.Body != c.body {
					t.Errorf("body %T", resp.Body)
				}
				return
			}
			r.held(4)
			resp.Body.Close()
			r.ended(Outcome{})
		})
	}
}

// An answer that declares a body and ends without is cut short over either protocol.
func TestMissingBody(t *testing.T) {
	for _, length := range []string{"1", "5"} {
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", length) })
		both(t, "declared "+length, h, func(t *testing.T, s *system) {
			r := newRig(t, s.base)
			resp, err := r.RoundTrip(s.request(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(resp.Body); err != io.ErrUnexpectedEOF {
				t.Error(err)
			}
			resp.Body.Close()
			r.ended(Outcome{Fault: io.ErrUnexpectedEOF})
		})
	}
}
