package resilient_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// A spy is a layer that notes what goes through it, and knows nothing of connections.
type spy struct {
	mu   sync.Mutex
	seen []string
	over []bool // whether what it was put around is a *http.Transport
}

func (s *spy) layer(name string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, own := next.(*http.Transport)
		s.over = append(s.over, own)
		return roundTripFunc(func(req *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			s.mu.Lock()
			defer s.mu.Unlock()
			word := "ok"
			switch {
			case errors.Is(err, resilient.ErrUnavailable):
				word = "refused"
			case err != nil:
				word = "failed"
			case resp.StatusCode != 200:
				word = resp.Status[:3]
			}
			s.seen = append(s.seen, name+" "+string(rune('0'+resilient.Attempt(req.Context())))+" "+word)
			return resp, err
		})
	}
}

func (s *spy) saw(r *rig, want ...string) {
	r.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.seen, want) {
		r.Errorf("the layers saw %q, want %q", s.seen, want)
	}
	s.seen = nil
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Outside of the client a call is seen once, refused or not; inside, each attempt that is sent.
func TestLayersOfTheUsers(t *testing.T) {
	s := new(spy)
	inBoth(t, setting{
		cfg: resilient.Config{Retry: resilient.RetryConfig{MaxAttempts: 2}},
		opts: []resilient.Option{
			resilient.WithOuter(s.layer("out")), resilient.WithOuter(s.layer("second")),
			resilient.WithInner(s.layer("in")), resilient.WithInner(s.layer("deeper")),
		},
	}, func(r *rig) {
		s.seen = nil
		r.server.Next(testserver.Status(503), testserver.OK("ok"))
		if _, err := r.get(r.Context()); err != nil {
			r.Error(err)
		}
		s.saw(r, "deeper 1 503", "in 1 503", "deeper 2 ok", "in 2 ok", "second 1 ok", "out 1 ok")
		r.ForceOpen(0)
		if _, err := r.get(r.Context()); !errors.Is(err, resilient.ErrCircuitOpen) {
			r.Error(err)
		}
		s.saw(r, "second 1 refused", "out 1 refused")
		r.Automatic()

		r.swap() // the new pool has them too
		r.works()
		s.saw(r, "deeper 1 ok", "in 1 ok", "second 1 ok", "out 1 ok")
		r.conns(1)
		r.CloseIdleConnections() // though the layers do not forward it
		r.conns(0)

		base := r.server.Transport()
		rt, err := r.Wrap(base)
		if err != nil {
			r.Fatal(err)
		}
		resp, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
		if err != nil {
			r.Fatal(err)
		}
		io.ReadAll(resp.Body)
		resp.Body.Close()
		s.saw(r, "deeper 1 ok", "in 1 ok", "second 1 ok", "out 1 ok")
		r.conns(1)
		(&http.Client{Transport: rt}).CloseIdleConnections()
		r.conns(0)
	})
}

// A layer may change how the client's own transport dials, but gets no hold of another's.
func TestInnerLayersBase(t *testing.T) {
	s := new(spy)
	r := newRig(t, setting{opts: []resilient.Option{resilient.WithInner(s.layer("in"))}})
	if _, err := r.Wrap(r.server.Transport()); err != nil {
		t.Fatal(err)
	}
	c, err := r.reg.NewClient("based", resilient.Config{}, resilient.WithBase(r.server.Transport()), resilient.WithInner(s.layer("in")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if want := []bool{true, false, false}; !slices.Equal(s.over, want) {
		t.Errorf("over *http.Transport: %v, want %v", s.over, want)
	}
}

// What NotSent proves of a failed dial, it proves through a layer too.
func TestNotSentThroughInnerLayer(t *testing.T) {
	s := new(spy)
	r := newRig(t, setting{opts: []resilient.Option{resilient.WithInner(s.layer("in"))}})
	r.server.Close()
	_, err := r.Do(r.request(t.Context(), "POST", strings.NewReader("pay")))
	if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" || !resilient.NotSent(err) {
		t.Errorf("NotSent %v: %v", resilient.NotSent(err), err)
	}
	s.saw(r, "in 1 failed")
}

// All who ask for transitions are told, in order, whatever the others do.
func TestSeveralHooks(t *testing.T) {
	var told []string
	hook := func(name string) resilient.Option {
		return resilient.OnStateChange(func(tr resilient.Transition) {
			told = append(told, name+" "+tr.To)
			if name == "bad" {
				panic("boom")
			}
		})
	}
	r := newRig(t, setting{opts: []resilient.Option{hook("first"), hook("bad"), hook("last")}})
	r.ForceOpen(time.Hour)
	if want := []string{"first forced_open", "bad forced_open", "last forced_open"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestNilLayers(t *testing.T) {
	_, err := resilient.NewRegistry().NewClient("sber", resilient.Config{}, resilient.WithOuter(nil), resilient.WithInner(nil))
	for _, name := range []string{"WithOuter", "WithInner"} {
		if err == nil || !strings.Contains(err.Error(), name+": nil") {
			t.Errorf("%s(nil): %v", name, err)
		}
	}
}
