package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

// arrangements returns every order of every selection of names.
func arrangements(names []string) [][]string {
	var all [][]string
	var grow func(sofar []string)
	grow = func(sofar []string) {
		for _, n := range names {
			if !strings.Contains(strings.Join(sofar, " "), n) {
				next := append(slices.Clip(sofar), n)
				all = append(all, next)
				grow(next)
			}
		}
	}
	grow(nil)
	return all
}

// foreigners are RoundTrippers of somebody else's that stand between layers.
var foreigners = map[string]transport.Layer{
	"pass": func(next http.RoundTripper) http.RoundTripper { return fake(next.RoundTrip) },
	"clone": func(next http.RoundTripper) http.RoundTripper {
		type key struct{}
		return fake(func(req *http.Request) (*http.Response, error) {
			ctx, cancel := context.WithCancelCause(context.WithValue(req.Context(), key{}, 1))
			context.AfterFunc(req.Context(), func() { cancel(errors.New("foreign")) })
			resp, err := next.RoundTrip(req.Clone(ctx))
			if resp != nil {
				resp.Request = req
			}
			return resp, err
		})
	},
	"rebody": func(next http.RoundTripper) http.RoundTripper {
		return fake(func(req *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			if resp != nil && resp.Body != http.NoBody {
				resp.Body = struct{ io.ReadCloser }{resp.Body}
			}
			return resp, err
		})
	},
}

// chains calls f with every chain of our layers, alone and together, in right
// and wrong orders, fused and with a foreign layer at each place.
func chains(f func(name string, layers []string)) {
	for _, order := range arrangements([]string{"bulkhead", "breaker", "timeout"}) {
		f(strings.Join(order, " "), order)
		for name := range foreigners {
			for place := range len(order) + 1 {
				with := append(append(order[:place:place], name), order[place:]...)
				f(strings.Join(with, " "), with)
			}
		}
	}
}

func (r *rig) chain(base http.RoundTripper, names []string) http.RoundTripper {
	layers := make([]transport.Layer, len(names))
	for i, n := range names {
		switch n {
		case "bulkhead":
			layers[i] = transport.Bulkhead(r.sem, 0, r.breaker.Peek)
		case "breaker":
			layers[i] = r.breaker.Wrap
		case "timeout":
			layers[i] = r.timeouts.Wrap
		default:
			layers[i] = foreigners[n]
		}
	}
	return transport.Chain(base, layers...)
}

// acts are the ways of an exchange: what the base does, and what the caller
// does, which returns what is wrong with what it saw.
var acts = map[string]struct {
	base fake
	call func(rt http.RoundTripper, req *http.Request) error
}{
	"read": {answer(200), wantBody(200)},
	"5xx":  {answer(503), wantBody(503)},
	"eof without close": {answer(200), func(rt http.RoundTripper, req *http.Request) error {
		resp, err := rt.RoundTrip(req)
		if err != nil {
			return err
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "ok" || err != nil {
			return fmt.Errorf("%q, %v", b, err)
		}
		return nil
	}},
	"close twice": {answer(404), func(rt http.RoundTripper, req *http.Request) error {
		resp, err := rt.RoundTrip(req)
		if err != nil || resp.StatusCode != 404 || resp.Body.Close() != nil || resp.Body.Close() != nil {
			return fmt.Errorf("%v, %v", resp, err)
		}
		return nil
	}},
	"no body": {func(req *http.Request) (*http.Response, error) {
		return response(req, 204, http.NoBody), nil
	}, func(rt http.RoundTripper, req *http.Request) error {
		if resp, err := rt.RoundTrip(req); err != nil || resp.StatusCode != 204 || resp.Body == nil {
			return fmt.Errorf("%v, %v", resp, err)
		}
		return nil
	}},
	"error": {func(*http.Request) (*http.Response, error) { return nil, errDown }, wantError(errDown)},
	"error in the body": {func(req *http.Request) (*http.Response, error) {
		return response(req, 200, iotest.ErrReader(io.ErrUnexpectedEOF)), nil
	}, wantError(io.ErrUnexpectedEOF)},
	"nothing": {func(*http.Request) (*http.Response, error) { return nil, nil }, func(rt http.RoundTripper, req *http.Request) error {
		if resp, err := rt.RoundTrip(req); resp != nil || err == nil {
			return fmt.Errorf("%v, %v", resp, err)
		}
		return nil
	}},
	"response and error": {func(req *http.Request) (*http.Response, error) {
		return response(req, 200, strings.NewReader("ok")), errDown
	}, wantError(errDown)},
	"panic": {func(*http.Request) (*http.Response, error) { panic("boom") }, func(rt http.RoundTripper, req *http.Request) (err error) {
		defer func() {
			if p := recover(); p != "boom" {
				err = fmt.Errorf("panic %v", p)
			}
		}()
		_, _ = rt.RoundTrip(req)
		return errors.New("no panic")
	}},
	"goexit": {func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }, func(rt http.RoundTripper, req *http.Request) error {
		done := make(chan error)
		go func() {
			err := error(nil)
			defer func() { done <- err }()
			_, _ = rt.RoundTrip(req)
			err = errors.New("returned")
		}()
		return <-done
	}},
	"cancelled": {hang, func(rt http.RoundTripper, req *http.Request) error {
		ctx, cancel := context.WithCancel(req.Context())
		time.AfterFunc(time.Second, cancel)
		return wantError(context.Canceled)(rt, req.WithContext(ctx))
	}},
	"cancelled in the body": {func(req *http.Request) (*http.Response, error) {
		pr, pw := io.Pipe()
		context.AfterFunc(req.Context(), func() { pw.CloseWithError(req.Context().Err()) })
		return response(req, 200, pr), nil
	}, func(rt http.RoundTripper, req *http.Request) error {
		ctx, cancel := context.WithCancel(req.Context())
		time.AfterFunc(time.Second, cancel)
		return wantError(context.Canceled)(rt, req.WithContext(ctx))
	}},
	"forgotten": {answer(200), func(rt http.RoundTripper, req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		_, err := rt.RoundTrip(req.WithContext(ctx))
		time.Sleep(time.Second + 1)
		return err
	}},
	"invalid": {answer(200), func(rt http.RoundTripper, req *http.Request) error {
		body := &closedBody{Reader: strings.NewReader("x")}
		req.Body, req.Method = body, "BAD METHOD"
		if _, err := rt.RoundTrip(req); err == nil || body.closed == 0 {
			return fmt.Errorf("%v, closed %d times", err, body.closed)
		}
		return nil
	}},
}

func wantError(want error) func(http.RoundTripper, *http.Request) error {
	return func(rt http.RoundTripper, req *http.Request) error {
		if _, err := read(rt.RoundTrip(req)); !errors.Is(err, want) {
			return fmt.Errorf("got %v, want %v", err, want)
		}
		return nil
	}
}

func wantBody(code int) func(http.RoundTripper, *http.Request) error {
	return func(rt http.RoundTripper, req *http.Request) error {
		resp, err := rt.RoundTrip(req)
		if s, err := read(resp, err); s != "ok" || err != nil || resp.StatusCode != code {
			return fmt.Errorf("%q, %v", s, err)
		}
		return nil
	}
}

// A closedBody is a request body that counts how often it was closed.
type closedBody struct {
	io.Reader
	closed int
}

func (b *closedBody) Close() error { b.closed++; return nil }

// Whatever the chain and whatever happens: the result is the bare base's, and
// permit, probe slot and timer are given back.
func TestEveryChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		chains(func(name string, layers []string) {
			for act, a := range acts {
				r.halfOpen()
				if err := a.call(r.chain(a.base, layers), r.request(t.Context(), "GET", nil)); err != nil {
					t.Errorf("%s: %s: %v", name, act, err)
				}
				r.free(name + ": " + act)
			}
		})
	})
}

// free checks that no permit is out and no probe's slot is taken.
func (r *rig) free(where string) {
	r.Helper()
	synctest.Wait()
	if n := r.sem.State().Active; n != 0 {
		r.Errorf("%s: %d permits out", where, n)
	}
	if r.breaker.State().State == "open" {
		time.Sleep(r.cfg.Breaker.OpenFor + 1)
	}
	if err := r.probe(); err != nil {
		r.Errorf("%s: wedged: %v", where, err)
	}
}

// Over a real base, with every protocol's own bodies.
func TestEveryChainOverNetHTTP(t *testing.T) {
	cfg := oneProbe
	cfg.Breaker.OpenFor = time.Millisecond // so that connections stay
	inBoth(t, cfg, func(r *rig) {
		for name, h := range map[string]http.Handler{
			"ok": testserver.OK("ok"), "empty": testserver.OK(""), "204": testserver.Status(204), "304": testserver.Status(304),
			"trailers": testserver.Trailers("ok", "A", "b"), "gzip": testserver.Gzip("ok"), "500": testserver.Status(500),
			"cut": testserver.CutInBody(1, 2), "abort": testserver.Abort(), "1xx": testserver.Informational(testserver.OK("ok"), 103),
		} {
			r.server.Default(h)
			for _, method := range []string{"GET", "HEAD"} {
				want, wantErr := r.tell(r.own, method)
				chains(func(chain string, layers []string) {
					if len(layers) < 3 || strings.Contains(chain, "pass") || strings.Contains(chain, "clone") {
						return
					}
					where := fmt.Sprintf("%s: %s %s", chain, method, name)
					r.halfOpen()
					got, err := r.tell(r.chain(r.base, layers), method)
					if got != want || (err == nil) != (wantErr == nil) {
						r.Errorf("%s: %s, %v; bare %s, %v", where, got, err, want, wantErr)
					}
					r.free(where)
				})
			}
		}
	})
}

// tell tells all that a caller sees of a response.
func (r *rig) tell(rt http.RoundTripper, method string) (string, error) {
	r.Helper()
	req := r.request(r.Context(), method, nil)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "", err
	}
	own := resp.Request == req
	noBody := resp.Body == http.NoBody
	body, err := read(resp, nil)
	resp.Header.Del("Date")
	return fmt.Sprintf("%d %v %q %v %d %v %v %v", resp.StatusCode, resp.Header, body, resp.Trailer, resp.ContentLength, resp.Uncompressed, noBody, own), err
}

// http.Client.CloseIdleConnections reaches the base through every layer.
func TestCloseIdleConnections(t *testing.T) {
	closed := 0
	base := closer{answer(200), &closed}
	b := transport.NewBreaker("sber", complete(t, config.Config{}))
	sem := semaphore.New("sber", semaphore.Limits{MaxConcurrent: 1})
	for i, rt := range []http.RoundTripper{
		b.Wrap(base),
		transport.Bulkhead(sem, 0, nil)(base),
		transport.Timeout("sber", transport.Bounds{})(base),
		transport.Chain(base, transport.Bulkhead(sem, 0, nil), b.Wrap, transport.Timeout("sber", transport.Bounds{})),
		transport.Chain(base, b.Wrap, b.Wrap, b.Wrap, b.Wrap, b.Wrap, b.Wrap),
	} {
		(&http.Client{Transport: rt}).CloseIdleConnections()
		if closed != i+1 {
			t.Errorf("%d: did not reach the base", i)
		}
	}
	transport.Chain(answer(200), b.Wrap).(interface{ CloseIdleConnections() }).CloseIdleConnections() // no base to close
	if rt, ok := transport.Chain(base).(closer); !ok || rt.n != base.n {
		t.Error("a chain of nothing is not its base")
	}
}

type closer struct {
	http.RoundTripper
	n *int
}

func (c closer) CloseIdleConnections() { *c.n++ }
