package resilient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A body that can be had again arrives whole after a redirect, and each copy of it is closed.
func TestCase_C03(t *testing.T) {
	for _, size := range []int{0, 5, 100 << 10} { // below and above what the chain wraps
		inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
			r.server.On("/a", http.RedirectHandler("/b", http.StatusTemporaryRedirect))
			r.server.On("/b", testserver.Echo())
			var copies []*closeCounter
			data := strings.Repeat("x", size)
			again := func() (io.ReadCloser, error) {
				copies = append(copies, &closeCounter{Reader: strings.NewReader(data)})
				return copies[len(copies)-1], nil
			}
			body, _ := again()
			req := r.request(r.Context(), "POST", body)
			req.URL.Path, req.ContentLength, req.GetBody = "/a", int64(size), again
			if e := r.echo(req); e.Body != data || e.ContentLength != int64(size) && size > 0 {
				r.Errorf("%d bytes arrived, with ContentLength %d", len(e.Body), e.ContentLength)
			}
			synctest.Wait()
			for i, c := range copies {
				if c.closed.Load() == 0 {
					r.Errorf("copy %d of %d was not closed", i, len(copies))
				}
			}
		})
	}
}

// An HTTP/2 server that goes away before it looked at a request gets it again, whole, by another connection: one exchange.
func TestCase_C03_GoAway(t *testing.T) {
	unused := httptest.NewTLSServer(nil) // for its certificate
	unused.Close()
	for _, size := range []int{5, 100 << 10} { // below and above what the chain wraps
		synctest.Test(t, func(t *testing.T) {
			var server *testserver.Server
			var conns atomic.Int32
			dial := resilient.WithDialContext(func(ctx context.Context, network, addr string) (net.Conn, error) {
				if conns.Add(1) > 1 {
					return server.Dial(ctx, network, addr)
				}
				here, there := net.Pipe()
				go goAway(tls.Server(there, &tls.Config{Certificates: unused.TLS.Certificates, NextProtos: []string{"h2"}}))
				return here, nil
			})
			r := newRig(t, setting{cfg: permits(1), opts: []resilient.Option{dial, resilient.WithTLSConfig(&tls.Config{InsecureSkipVerify: true})},
				server: testserver.Options{Memory: true, Protocol: testserver.HTTP2, Handler: testserver.Echo()}})
			server = r.server
			data := strings.Repeat("x", size)
			if e := r.echo(r.request(r.Context(), "POST", strings.NewReader(data))); e.Body != data || e.Proto != "HTTP/2.0" {
				r.Errorf("%d bytes arrived, by %s", len(e.Body), e.Proto)
			}
			if conns.Load() < 2 {
				r.Error("no second connection")
			}
			r.outcomes(map[string]float64{"success": 1})
		})
	}
}

// goAway speaks as much HTTP/2 as it takes to say, once a request has come, that none was looked at.
func goAway(conn net.Conn) {
	defer conn.Close()
	if _, err := io.CopyN(io.Discard, conn, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	out := make(chan []byte, 2) // a pipe does not buffer: who writes must go on reading
	defer close(out)
	go func() {
		for frame := range out {
			conn.Write(frame)
		}
	}()
	out <- []byte{0, 0, 0, 4, 0, 0, 0, 0, 0} // SETTINGS, empty
	for header := make([]byte, 9); ; {
		if _, err := io.ReadFull(conn, header); err != nil {
			return
		}
		io.CopyN(io.Discard, conn, int64(header[0])<<16|int64(header[1])<<8|int64(header[2]))
		if header[3] == 1 { // HEADERS
			out <- []byte{0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // GOAWAY, last stream 0, no error
		}
	}
}

// What the server sees of a body is what it would see without us.
func TestCase_C04(t *testing.T) {
	inBoth(t, setting{cfg: permits(1), server: testserver.Options{Handler: testserver.Echo()}}, func(r *rig) {
		for _, c := range []struct {
			method string
			body   io.Reader
			length int64
		}{
			{"POST", strings.NewReader("hello"), 5},
			{"POST", nil, 0},
			{"POST", http.NoBody, 0},
			{"GET", http.NoBody, 0},
			{"GET", strings.NewReader("hello"), 5},
			{"DELETE", strings.NewReader(""), 0},
			{"PUT", strings.NewReader(strings.Repeat("x", 100<<10)), 100 << 10},
		} {
			e := r.echo(r.request(r.Context(), c.method, c.body))
			if e.ContentLength != c.length || len(e.TransferEncoding) != 0 || int64(len(e.Body)) != c.length {
				r.Errorf("%s of %d: %d, %v, %d bytes", c.method, c.length, e.ContentLength, e.TransferEncoding, len(e.Body))
			}
			if said := e.Header.Get("Content-Length"); c.method == "GET" && c.length == 0 && said != "" {
				r.Errorf("a GET says Content-Length: %s", said)
			}
		}
		var seen io.ReadCloser
		rt := r.over(func(req *http.Request) (*http.Response, error) {
			seen = req.Body
			return answer(req, 204, http.NoBody), nil
		})
		for _, body := range []io.ReadCloser{nil, http.NoBody} {
			req := r.request(r.Context(), "POST", nil)
			req.Body = body
			if rt.RoundTrip(req); seen != body {
				r.Errorf("%T became %T", body, seen)
			}
		}
	})
}

// io.Copy of every kind of body ends, with its bytes counted and its permit back, whichever way it copies.
func TestCase_C07(t *testing.T) {
	stream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 16 {
			w.Write(make([]byte, 64<<10))
			w.(http.Flusher).Flush()
		}
	})
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		for _, c := range []struct {
			method  string
			handler http.Handler
			want    int64
		}{
			{"HEAD", testserver.OK("hello"), 0}, {"GET", testserver.OK(""), 0}, {"GET", testserver.OK("hello"), 5},
			{"GET", testserver.Status(204), 0}, {"GET", stream, 1 << 20}, {"GET", testserver.Gzip("hello"), 5},
		} {
			for _, to := range []io.Writer{io.Discard, struct{ io.Writer }{io.Discard}} { // by ReadFrom, and by Read
				r.server.Default(c.handler)
				resp, err := r.RoundTrip(r.request(r.Context(), c.method, nil))
				if err != nil {
					r.Fatal(err)
				}
				if n, err := io.Copy(to, resp.Body); n != c.want || err != nil {
					r.Errorf("%d bytes, want %d, %v", n, c.want, err)
				}
				r.held(0)
			}
		}
	})
}

// Close reaches the transport, which may use the connection again, and drains nothing that does not end.
func TestCase_C09(t *testing.T) {
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		r.server.On("/endless", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}))
		for range 20 {
			r.works()
		}
		if n := r.server.Stats().Conns; n != 1 {
			r.Errorf("%d connections", n)
		}
		for _, path := range []string{"/endless", "/silent"} {
			r.server.On("/silent", testserver.StallInBody(10))
			body := r.send(r.Context(), path).Body
			io.ReadFull(body, make([]byte, 1))
			if d := took(func() { body.Close() }); d != 0 {
				r.Errorf("Close of %s took %v", path, d)
			}
			r.held(0)
			r.works()
		}
	})
}

// Read and Close say what the inner body says.
func TestCase_C10(t *testing.T) {
	inOne(t, setting{cfg: permits(1)}, func(r *rig) {
		for _, end := range []error{io.EOF, errBoom, nil} {
			rt := r.over(func(req *http.Request) (*http.Response, error) {
				return answer(req, 200, hooked{
					read:    func(p []byte) (int, error) { return copy(p, "abc"), end },
					closing: func() error { return fmt.Errorf("closing: %w", errBoom) },
				}), nil
			})
			resp, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
			if err != nil {
				r.Fatal(err)
			}
			if n, err := resp.Body.Read(make([]byte, 9)); n != 3 || err != end {
				r.Errorf("%d, %v", n, err)
			}
			for range 2 {
				if err := resp.Body.Close(); err == nil || err.Error() != "closing: boom" {
					r.Errorf("Close: %v", err)
				}
			}
		}
	})
	inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
		bare := r.server.Transport()
		for _, early := range []bool{true, false} {
			var said [2]string
			for i, rt := range []http.RoundTripper{bare, r.Client} {
				resp, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
				if err != nil {
					r.Fatal(err)
				}
				if !early {
					io.ReadAll(resp.Body)
				}
				closed := resp.Body.Close()
				_, err = resp.Body.Read(make([]byte, 1))
				said[i] = fmt.Sprint(closed, err, resp.Body.Close())
			}
			if said[0] != said[1] {
				r.Errorf("%s, over a bare transport %s", said[1], said[0])
			}
		}
	})
}

// Nothing of ours needs http.DefaultTransport or http.DefaultClient to be what they are.
func TestCase_C11(t *testing.T) {
	transport, client := http.DefaultTransport, http.DefaultClient
	defer func() { http.DefaultTransport, http.DefaultClient = transport, client }()
	var wrapper roundTripper = func(*http.Request) (*http.Response, error) { t.Error("used"); return nil, errBoom }
	for _, replaced := range []http.RoundTripper{&wrapper, nil} {
		http.DefaultTransport, http.DefaultClient = replaced, nil
		inBoth(t, setting{}, func(r *rig) {
			r.works()
			r.CloseIdleConnections()
			if _, err := r.Wrap(&http.Transport{}); err != nil {
				r.Error(err)
			}
		})
	}
}

// A server that answers while the body is still on its way: nobody touches the body once the caller has it back.
func TestCase_C12(t *testing.T) {
	inBoth(t, setting{cfg: trips(1<<20, permits(4)), server: testserver.Options{Handler: testserver.EarlyAnswer(502)}}, func(r *rig) {
		var late atomic.Int32
		repeat(100, func() {
			buffer := make([]byte, 1<<20)
			var closed atomic.Bool
			body := hooked{read: func(p []byte) (int, error) {
				if closed.Load() {
					late.Add(1)
					return 0, errBoom
				}
				return copy(p, buffer), nil
			}, closing: func() error { closed.Store(true); return nil }}
			resp, err := r.Do(r.request(r.Context(), "POST", body))
			if err != nil {
				if !errors.Is(err, resilient.ErrUnavailable) {
					r.Log(err) // the transport may see its upload fail before it sees the answer
				}
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
		time.Sleep(10 * time.Second)
		r.held(0)
		if n := late.Load(); n > 20 { // a Read that had begun, at the same moment, may still come through
			r.Errorf("%d of 100 bodies were read after they had been closed, when they are the caller's again", n)
		}
	})
}
