package exchange_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

// How a request fares: refused by us, and by the bare transport over HTTP/1.1
// and HTTP/2, as an error; "400" and the like are a server's answer.
type fares struct{ ours, http1, http2 string }

const (
	sent    = ""
	refused = "refused"
	hangs   = "hangs"

	// The server answers PROTOCOL_ERROR, net/http takes that for a reason to try again on a new connection, without
	// a pause, for ever. In a bubble no time passes meanwhile, so that not even a deadline ends it.
	redials = "redials"
)

var requests = []struct {
	name   string
	change func(req *http.Request)
	want   fares
}{
	{"as it should be", func(*http.Request) {}, fares{}},
	{"no method", func(req *http.Request) { req.Method = "" }, fares{}},
	{"a method of its own", func(req *http.Request) { req.Method = "PURGE-it.all" }, fares{}},
	{"a method with a blank", func(req *http.Request) { req.Method = "GET IT" }, fares{refused, refused, refused}},
	{"a method with a colon", func(req *http.Request) { req.Method = "GET:" }, fares{refused, refused, refused}},
	{"no URL", func(req *http.Request) { req.URL = nil }, fares{refused, refused, refused}},
	{"no Header map", func(req *http.Request) { req.Header = nil }, fares{refused, refused, refused}},
	{"no scheme", url_(func(u *url.URL) { u.Scheme = "" }), fares{sent, refused, refused}}, // a transport may complete it: TestRelativeURL
	{"another scheme", url_(func(u *url.URL) { u.Scheme = "ftp" }), fares{sent, refused, refused}},
	{"another scheme, and no host", url_(func(u *url.URL) { u.Scheme, u.Host = "file", "" }), fares{sent, refused, refused}},
	{"another scheme, and a tab in a header", func(req *http.Request) { req.URL.Scheme = "x"; req.Header.Set("X", "\x01") }, fares{sent, refused, refused}},
	{"a scheme in capitals", url_(func(u *url.URL) { u.Scheme = "HTTP" }), fares{sent, refused, refused}},
	{"no host", url_(func(u *url.URL) { u.Host = "" }), fares{sent, refused, refused}},
	{"no scheme, and a header value with NUL", func(req *http.Request) { req.URL.Scheme = ""; req.Header.Set("X", "\x00") }, fares{refused, refused, refused}},
	{"a control character in Host", func(req *http.Request) { req.Host = "a\x01b" }, fares{refused, sent, refused}}, // HTTP/1 leaves it out
	{"DEL in Host", func(req *http.Request) { req.Host = "a\x7fb" }, fares{refused, sent, refused}},
	{"a control character in the query", url_(func(u *url.URL) { u.RawQuery = "a=\n" }), fares{refused, refused, redials}},
	{"DEL in the query", url_(func(u *url.URL) { u.RawQuery = "a=\x7f" }), fares{refused, refused, redials}},
	{"a tab in the query", url_(func(u *url.URL) { u.RawQuery = "a=\t" }), fares{refused, refused, redials}},
	{"a tab in Opaque", url_(func(u *url.URL) { u.Opaque = "/a\tb" }), fares{refused, refused, redials}},
	{"a blank in the query", url_(func(u *url.URL) { u.RawQuery = "a= " }), fares{sent, "400", sent}},
	{"a control character in Opaque", url_(func(u *url.URL) { u.Opaque = "/a\r\nb" }), fares{refused, refused, redials}},
	{"a control character in the path", url_(func(u *url.URL) { u.Path = "/a\nb" }), fares{}},
	{"a header without a name", header("", "v"), fares{refused, refused, refused}},
	{"a header name with a blank", header("X Y", "v"), fares{refused, refused, refused}},
	{"a header name that is not ASCII", header("Ä", "v"), fares{refused, refused, refused}},
	{"a header name with all that a token may have", header("a!#$%&'*+-.^_`|~0Z", "v"), fares{}},
	{"a header name with DEL", header("a\x7f", "v"), fares{refused, refused, refused}},
	{"a header value with a line break", header("X", "a\r\nb"), fares{refused, refused, refused}},
	{"a header value with NUL", header("X", "a\x00"), fares{refused, refused, refused}},
	{"a header value with DEL", header("X", "a\x7f"), fares{refused, refused, refused}},
	{"a later header value", func(req *http.Request) { req.Header["X"] = []string{"a", "b\n"} }, fares{refused, refused, refused}},
	{"a header value with a tab and more", header("X", "\ta ~\u00e4\xff"), fares{}},
	{"an empty header value", header("X", ""), fares{}},
	{"a trailer, with a body", trailer("T", "v", true), fares{}},
	{"a trailer, without a body", trailer("T", "v", false), fares{sent, sent, hangs}},
	{"a trailer name with a blank", trailer("T T", "v", true), fares{refused, refused, refused}},
	{"a trailer value with a line break", trailer("T", "a\nb", true), fares{refused, refused, refused}},
	{"a trailer named Content-Length", trailer("Content-Length", "5", true), fares{refused, refused, refused}},
	{"a trailer named Transfer-Encoding", trailer("Transfer-Encoding", "x", true), fares{refused, refused, refused}},
	{"a trailer named Trailer", trailer("Trailer", "x", true), fares{refused, refused, refused}},
	{"a header named Content-Length", header("Content-Length", "5"), fares{}},
	{"too long a body in memory", posted("abcde", 3), fares{refused, refused, refused}},
	{"too short a body in memory", posted("abcde", 7), fares{refused, refused, refused}},
	{"a body in memory longer than 1", posted("abcde", 1), fares{refused, refused, refused}},
	{"an empty body in memory, of another length", func(req *http.Request) {
		req.Method, req.Body, req.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader("")), 5
	}, fares{refused, refused, refused}},
	{"a body in memory of undeclared length", posted("abcde", 0), fares{}},
	{"a body in memory of unknown length", posted("abcde", -1), fares{}},
	{"a body in memory", posted("abcde", 5), fares{}},
	{"a declared length without a body", func(req *http.Request) { req.ContentLength = 5 }, fares{sent, refused, sent}},
	{"NoBody with a length", func(req *http.Request) { req.Body, req.ContentLength = http.NoBody, 5 }, fares{}},
}

func url_(change func(*url.URL)) func(*http.Request) {
	return func(req *http.Request) { change(req.URL) }
}

func header(name, value string) func(*http.Request) {
	return func(req *http.Request) { req.Header[name] = []string{value} }
}

func trailer(name, value string, withBody bool) func(*http.Request) {
	return func(req *http.Request) {
		if withBody {
			body(req, io.MultiReader(strings.NewReader("abc")))
		}
		req.Trailer = http.Header{name: {value}}
	}
}

func posted(s string, length int64) func(*http.Request) {
	return func(req *http.Request) {
		body(req, strings.NewReader(s))
		req.ContentLength = length
	}
}

// What is refused before anything is taken for it is what no transport sends.
func TestCheck(t *testing.T) {
	for _, c := range requests {
		got := fares{}
		var says [2]string // we, and the bare transport over HTTP/1.1
		for _, scheme := range []string{"http", "https"} {
			bubble(t, c.name+"/ours/"+scheme, func(t *testing.T) {
				sent, b := false, text("")
				r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
					sent = true
					return reply(req, 200, nil), nil
				}))
				req := request(t.Context())
				req.URL.Scheme = scheme
				c.change(req)
				if req.Body == nil && c.want.ours == refused {
					req.Body = b
				}
				_, err := r.RoundTrip(req)
				if (c.want.ours == refused) == sent {
					t.Errorf("sent: %v", sent)
				}
				if sent {
					return
				}
				got.ours, says[0] = refused, err.Error()
				if _, ok := errors.AsType[*InvalidError](err); !ok {
					t.Errorf("%T %v", err, err)
				}
				if b.count() == 0 && req.Body == b {
					t.Error("body not closed")
				}
				r.ended(Outcome{Fault: err})
				if x := r.last(); len(x.begun) != 1 || x.Sent {
					t.Errorf("begun %v, sent %v", x.begun, x.Sent)
				}
			})
		}
		for p, fared := range map[testserver.Protocol]*string{testserver.HTTP1: &got.http1, testserver.HTTP2: &got.http2} {
			bubble(t, c.name+"/"+p.String(), func(t *testing.T) {
				s := serve(t, p, nil)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				dial, dials := s.base.DialContext, atomic.Int32{}
				s.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if dials.Add(1) > 5 {
						return nil, errBoom
					}
					return dial(ctx, network, addr)
				}
				req := s.request(ctx)
				c.change(req)
				resp, err := s.base.RoundTrip(req)
				switch {
				case errors.Is(err, errBoom):
					*fared = redials
				case err == context.DeadlineExceeded:
					*fared = hangs
				case err != nil:
					*fared = refused
					t.Log(err)
					if p == testserver.HTTP1 {
						says[1] = err.Error()
					}
				case resp.StatusCode != http.StatusOK:
					*fared = resp.Status[:3]
				}
				if err == nil {
					resp.Body.Close()
				}
			})
		}
		if got != c.want {
			t.Errorf("%s: %+q, want %+q", c.name, got, c.want)
		}
		_, words, _ := strings.Cut(says[1], "http: ") // after "http: " or "net/http: ": programs look for them
		words, _, _ = strings.Cut(words, ` "`)        // without what may be a secret
		if got.ours == refused && !strings.Contains(says[0], words) {
			t.Errorf("%s: %q, which lacks net/http's %q", c.name, says[0], words)
		}
	}
}

// A relative URL is refused over net/http's transport, also if a layer brings it, and is for any other to complete.
func TestRelativeURL(t *testing.T) {
	for name, words := range map[string]string{"http:///path": "no Host in request URL", "//host/path": `unsupported protocol scheme ""`, "": `unsupported protocol scheme ""`} {
		reached := false
		replay := trip(func(req *http.Request) (*http.Response, error) {
			reached = true
			return reply(req, 200, nil), nil
		})
		begin := func(*Exchange, *Hold) error { return nil }
		end := func(*Exchange, *Hold, Outcome) {}
		layer := &Layer{Begin: begin, End: end}
		brings := &Layer{Begin: begin, End: end, Base: func(*Exchange, *Hold) http.RoundTripper { return replay }}
		for _, c := range []struct {
			over string
			rt   http.RoundTripper
			sent bool
		}{
			{"net/http's", layer.Wrap(&http.Transport{}), false},
			{"a layer's", brings.Wrap(replay), false},
			{"a layer's, further in", layer.Wrap(brings.Wrap(replay)), false},
			{"another", layer.Wrap(replay), true},
		} {
			reached = false
			req := request(t.Context())
			var err error
			if req.URL, err = url.Parse(name); err != nil {
				t.Fatal(err)
			}
			_, err = c.rt.RoundTrip(req)
			_, invalid := errors.AsType[*InvalidError](err)
			if reached != c.sent || invalid == c.sent || invalid && !strings.Contains(err.Error(), words) {
				t.Errorf("%q over %s: sent %v, %v", name, c.over, reached, err)
			}
		}
	}
}
