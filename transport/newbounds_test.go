package transport_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// New bounds are for exchanges that begin from then on; those under way keep theirs.
func TestTimeoutsReconfigure(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		r.server.Default(testserver.HangBeforeHeaders())
		rt := r.timeouts.Wrap(r.base)
		old := make(chan error, 1)
		go func() { _, err := r.get(r.Context(), rt); old <- err }()
		time.Sleep(sec)
		cfg := r.cfg
		cfg.ConnectTimeout, cfg.ReadTimeout, cfg.TotalTimeout = 100*ms, sec, 2*sec
		r.timeouts.Reconfigure(cfg)
		if d := took(func() { _, err := r.get(r.Context(), rt); isTimeout(r, err, transport.PhaseRead, sec) }); d != sec {
			r.Errorf("after %v", d)
		}
		r.server.Default(testserver.Trickle(1, 500*ms, -1))
		if d := took(func() { _, err := r.get(r.Context(), rt); isTimeout(r, err, transport.PhaseTotal, 2*sec) }); d != 2*sec {
			r.Errorf("after %v", d)
		}
		if d := took(func() { isTimeout(r, <-old, transport.PhaseRead, 5*sec) }); d != sec {
			r.Errorf("the old one ended %v later", d)
		}
	})
}

// Once HTTP/2 was allowed a request whose body can be had again may have been sent before a dial fails, for good.
func TestTimeoutsReconfigureProtocol(t *testing.T) {
	cfg := complete(t, config.Config{})
	with := cfg
	with.Protocol = config.HTTP2
	timeouts := transport.NewTimeouts("sber", cfg)
	base := transport.Base(cfg)
	base.DialContext = (&transport.Dialer{Timeout: cfg.ConnectTimeout, Dial: refuse}).DialContext
	rt := timeouts.Wrap(base)
	for i, step := range []struct {
		cfg  config.Config
		want bool
	}{{cfg, true}, {with, false}, {cfg, false}} {
		timeouts.Reconfigure(step.cfg)
		_, err := rt.RoundTrip(newRequest(t, t.Context(), "POST", "http://sber.test/", strings.NewReader("x")))
		if got := transport.NotSent(err); got != step.want {
			t.Errorf("%d: %v: NotSent is %v", i, err, got)
		}
	}
}

// Over a base that is not ours nothing is known of its connecting: no dial proves anything, and no limit is ours.
func TestForeignTimeouts(t *testing.T) {
	cfg := complete(t, config.Config{ConnectTimeout: 300 * ms, ReadTimeout: 2 * sec, TotalTimeout: 3 * sec})
	timeouts := transport.NewForeignTimeouts("sber", cfg)
	synctest.Test(t, func(t *testing.T) {
		rt := timeouts.Wrap(fake(hang))
		send := func() error {
			_, err := rt.RoundTrip(newRequest(t, t.Context(), "POST", "http://sber.test/", http.NoBody))
			return err
		}
		if d := took(func() { isTimeout(t, send(), transport.PhaseRead, 2*sec) }); d != 2*sec {
			t.Errorf("after %v", d)
		}
		other := cfg
		other.ReadTimeout, other.TotalTimeout = sec, 2*sec
		timeouts.Reconfigure(other)
		if d := took(func() { isTimeout(t, send(), transport.PhaseRead, sec) }); d != sec {
			t.Errorf("after %v", d)
		}
	})
	for _, own := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server, err := testserver.Start(testserver.Options{Protocol: testserver.HTTPS, Memory: true, AcceptDelay: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			base := transport.Base(cfg)
			base.DialContext, base.TLSClientConfig = server.Dial, server.TLS()
			defer base.CloseIdleConnections()
			wrap, limit := transport.NewForeignTimeouts("sber", cfg).Wrap, time.Duration(0)
			if own {
				wrap, limit = transport.NewTimeouts("sber", cfg).Wrap, cfg.ConnectTimeout
			}
			_, err = wrap(base).RoundTrip(newRequest(t, t.Context(), "POST", server.URL(), nil))
			isTimeout(t, err, transport.PhaseTLS, limit)
			if transport.NotSent(err) != own {
				t.Errorf("own %v: NotSent is %v", own, !own)
			}
			base.DialContext = refuse
			_, err = wrap(base).RoundTrip(newRequest(t, t.Context(), "POST", server.URL(), nil))
			if transport.NotSent(err) {
				t.Errorf("own %v: %v: a dial that is not ours proves nothing", own, err)
			}
		})
	}
}
