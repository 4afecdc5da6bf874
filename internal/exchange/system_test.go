package exchange_test

import (
	"context"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/resilient-go/resilient/internal/testserver"
)

// bubble runs f in fake time, as a subtest if it has a name.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	if name == "" {
		synctest.Test(t, f)
		return
	}
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// both runs f in fake time over HTTP/1.1 and over HTTP/2.
func both(t *testing.T, name string, h http.Handler, f func(t *testing.T, s *system)) {
	t.Helper()
	for _, p := range []testserver.Protocol{testserver.HTTP1, testserver.HTTP2} {
		bubble(t, path.Join(name, p.String()), func(t *testing.T) { f(t, serve(t, p, h)) })
	}
}

// A system is a real server and a transport to it.
type system struct {
	*testserver.Server
	base     *http.Transport
	protocol testserver.Protocol
}

func serve(t *testing.T, p testserver.Protocol, h http.Handler) *system {
	t.Helper()
	s, err := testserver.Start(testserver.Options{Memory: true, Protocol: p, Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	sys := &system{Server: s, base: s.Transport(), protocol: p}
	t.Cleanup(func() {
		sys.base.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return sys
}

func (s *system) request(ctx context.Context, body ...io.Reader) *http.Request {
	req := request(ctx, body...)
	u := *req.URL
	u.Scheme, u.Host, _ = strings.Cut(s.URL(), "://")
	req.URL = &u
	req.Host = u.Host
	return req
}
