package testserver_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	. "github.com/resilient-go/resilient/internal/testserver"
)

// proxied starts a proxy in front of b's server and points the client at it.
func proxied(b *bench) *Server {
	p := start(b.T, Options{Memory: b.memory})
	dial := b.Server.Dial
	if !b.memory {
		dial = nil
	}
	p.Default(Tunnel(dial))
	at, err := url.Parse(p.URL())
	if err != nil {
		b.Fatal(err)
	}
	tr := b.Transport()
	tr.Proxy = http.ProxyURL(at)
	tr.DialContext = p.Dial
	b.client.Transport = tr
	return p
}

func TestTunnel(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		p := proxied(b)
		for range 2 {
			b.wantOK(b.do(background, nil), "ok")
		}
		connects := 1
		if b.protocol == HTTP1 {
			connects = 0 // forwarded without
		}
		if st := p.Stats(); st.ByPath["CONNECT"] != connects || st.Conns != 1 {
			b.Errorf("proxy's stats %+v", st)
		}
		b.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(background, 30*time.Second)
		defer cancel()
		if err := p.Await(ctx, func(st Stats) bool { return st.Concurrent == 0 && st.OpenConns == 0 }); err != nil {
			b.Errorf("%v: %+v", err, p.Stats())
		}
		b.await(func(st Stats) bool { return st.OpenConns == 0 })

		// Either end may break a tunnel.
		if b.do(background, nil); b.protocol != HTTP1 {
			p.Close()
			b.await(func(st Stats) bool { return st.OpenConns == 0 })
		}
	})
}

func TestSickProxy(t *testing.T) {
	t.Parallel()
	eachOf(t, Options{}, []Protocol{HTTPS}, func(b *bench) {
		p := proxied(b)
		for _, h := range []http.Handler{HangBeforeHeaders(), HangInHeaders()} {
			p.Default(h)
			// A dial outlives its request, so Close is what ends it.
			if a := b.do(impatient(b.T), nil); !errors.Is(a.err, context.DeadlineExceeded) {
				b.Errorf("got %+v", a)
			}
		}
		p.Default(Status(407))
		b.wantIn(b.do(background, nil).err, "Proxy Authentication Required")
		p.Default(Tunnel(BlackHole))
		if a := b.do(impatient(b.T), nil); !errors.Is(a.err, context.DeadlineExceeded) {
			b.Errorf("got %+v", a)
		}
		if st := b.Stats(); st.Requests != 0 || st.Conns != 0 {
			b.Errorf("reached the server: %+v", st)
		}
	})
}
