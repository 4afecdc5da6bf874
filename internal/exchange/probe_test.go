package exchange_test

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"bytes"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

func TestProbeInvalid(t *testing.T) {
	cases := map[string]func(*http.Request){
		"no URL":           func(r *http.Request) { r.URL = nil },
		"nil header":       func(r *http.Request) { r.Header = nil },
		"method":           func(r *http.Request) { r.Method = "BAD M" },
		"no scheme":        func(r *http.Request) { r.URL.Scheme = "" },
		"ftp":              func(r *http.Request) { r.URL.Scheme = "ftp" },
		"no host":          func(r *http.Request) { r.URL.Host = "" },
		"no host, Host":    func(r *http.Request) { r.URL.Host = ""; r.Host = "h" },
		"opaque":           func(r *http.Request) { r.URL.Opaque = "//x/y z" },
		"query newline":    func(r *http.Request) { r.URL.RawQuery = "a=\nb" },
		"query space":      func(r *http.Request) { r.URL.RawQuery = "a= b" },
		"path newline":     func(r *http.Request) { r.URL.Path = "/a\nb" },
		"Host bad":         func(r *http.Request) { r.Host = "a b" },
		"Host newline":     func(r *http.Request) { r.Host = "a\nb" },
		"URL host bad":     func(r *http.Request) { r.URL.Host = "a b"; r.Host = "" },
		"URL port bad":     func(r *http.Request) { r.URL.Host = "a:b"; r.Host = "" },
		"CL without body":  func(r *http.Request) { r.ContentLength = 5 },
		"CL with NoBody":   func(r *http.Request) { r.Body = http.NoBody; r.ContentLength = 5 },
		"CL short":         func(r *http.Request) { r.Method = "POST"; r.Body = io.NopCloser(strings.NewReader("abc")); r.ContentLength = 5 },
		"CL short bytes":   func(r *http.Request) { r.Method = "POST"; r.Body = io.NopCloser(bytes.NewReader([]byte("abc"))); r.ContentLength = 5 },
		"CL long":          func(r *http.Request) { r.Method = "POST"; r.Body = io.NopCloser(strings.NewReader("abcdef")); r.ContentLength = 5 },
		"CL -1 mem":        func(r *http.Request) { r.Method = "POST"; r.Body = io.NopCloser(strings.NewReader("abcdef")); r.ContentLength = -1 },
		"CL negative nil":  func(r *http.Request) { r.Method = "POST"; r.ContentLength = -1 },
		"header name":      func(r *http.Request) { r.Header["a b"] = []string{"x"} },
		"header empty":     func(r *http.Request) { r.Header[""] = []string{"x"} },
		"header value":     func(r *http.Request) { r.Header["A"] = []string{"x\n"} },
		"header del":       func(r *http.Request) { r.Header["A"] = []string{"x\x7f"} },
		"header tab":       func(r *http.Request) { r.Header["A"] = []string{"x\ty"} },
		"header utf8":      func(r *http.Request) { r.Header["A"] = []string{"é\xff"} },
		"header nil vals":  func(r *http.Request) { r.Header["A B"] = nil },
		"header lower TE":  func(r *http.Request) { r.Header["Transfer-Encoding"] = []string{"foo"} },
		"header CL":        func(r *http.Request) { r.Header["Content-Length"] = []string{"foo"} },
		"header Conn":      func(r *http.Request) { r.Header["Connection"] = []string{"foo", "bar"} },
		"header Upgrade":      func(r *http.Request) { r.Header["Upgrade"] = []string{"foo"} },
		"TransferEncoding": func(r *http.Request) { r.TransferEncoding = []string{"gzip"} },
		"trailer name":     func(r *http.Request) { r.Method = "POST"; r.Body = io.NopCloser(io.MultiReader(strings.NewReader("abcdef"))); r.Trailer = http.Header{"a b": {"x"}} },
		"trailer value":    func(r *http.Request) { r.Method = "POST"; r.Body = io.NopCloser(io.MultiReader(strings.NewReader("abcdef"))); r.Trailer = http.Header{"A": {"x\n"}} },
		"trailer key":      func(r *http.Request) { r.Method = "POST"; r.Body = io.NopCloser(io.MultiReader(strings.NewReader("abcdef"))); r.Trailer = http.Header{"Content-Length": {"x"}} },
		"userinfo":         func(r *http.Request) { r.URL.User = url.UserPassword("a\n", "b") },
		"empty method":     func(r *http.Request) { r.Method = "" },
		"RequestURI":       func(r *http.Request) { r.RequestURI = "/x" },
		"CONNECT":          func(r *http.Request) { r.Method = "CONNECT" },
		"Proto":          func(r *http.Request) { r.Proto, r.ProtoMajor = "x", 7 },
	}
	for name, f := range cases {
		for _, p := range protocols {
			bubble(t, name+"/"+p.String(), func(t *testing.T) {
				s := serve(t, p, testserver.OK("ok"))
				do := func(rt http.RoundTripper) (err error) {
					req := s.request(t.Context())
					f(req)
					defer func() { if e := recover(); e != nil { err = errors.New("PANIC"); t.Log(e) } }()
					resp, err := rt.RoundTrip(req)
					if err == nil {
						resp.Body.Close()
					}
					return err
				}
				bare := do(s.base)
				n := s.Stats().Conns
				ours := do(newRig(t, s.base))
				_, inv := errors.AsType[*InvalidError](ours)
				mark := ""
				if (bare != nil) != inv {
					mark = "<<<<"
				}
				t.Logf("RES %-18s %-6s conns=%d bare=%v | ours=%v %s", name, p, n, bare, ours, mark)
			})
		}
	}
}
