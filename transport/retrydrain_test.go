package transport_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/internal/testserver"
)

// A body that ends soon is read to its end, which saves the connection; others
// are closed. Either way no permit is held when the pause begins.
func TestRetryDrains(t *testing.T) {
	for name, row := range map[string]struct {
		server http.Handler
		conns  int // over HTTP/1.1
	}{
		"small":             {testserver.Status(503), 1},
		"empty":             {empty(503), 1},
		"as much as may be": {sized(503, 4096, true), 1},
		"chunked":           {sized(503, 4096, false), 1},
		"too large":         {sized(503, 4097, true), 2},
		"too large, chunks": {sized(503, 100000, false), 2},
		"endless":           {dripping(503, time.Hour), 2},
		"cut":               {cut(503), 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, calm, func(r *rig) {
				r.server.Next(row.server)
				time.AfterFunc(51*ms, func() { r.held(0) })
				var err error
				d := took(func() { _, err = r.get(r.Context(), r.retry(attempts(2))) })
				if err != nil || d != 100*ms {
					r.Errorf("after %v: %v", d, err)
				}
				if n := r.server.Stats().Conns; r.server.TLS() == nil && n != row.conns || r.server.TLS() != nil && n != 1 {
					r.Errorf("%d connections", n)
				}
			})
		})
	}
}

// sized answers code and n bytes, declared or not.
func sized(code, n int, declared bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if declared {
			w.Header().Set("Content-Length", strconv.Itoa(n))
		}
		w.WriteHeader(code)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, strings.Repeat("x", n))
	})
}

// cut answers code and breaks off in the body.
func cut(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "abc")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
}

// A body whose Close panics while a pause is on does no harm to the process.
func TestRetryOfABodyThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRetry(attempts(2)).Wrap(fake(func(req *http.Request) (*http.Response, error) {
			return response(req, 503, &shutPanics{answerBody{left: 9, pace: sec, shut: make(chan struct{})}}), nil
		}))
		defer func() {
			if p := recover(); p != "close" {
				t.Errorf("panic %v", p)
			}
		}()
		_, _ = rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil))
		t.Error("no panic")
	})
}

type shutPanics struct{ answerBody }

func (b *shutPanics) Close() error { _ = b.answerBody.Close(); panic("close") }
