package resilient_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// An interceptor below the bulkhead that calls the same client waits for a permit of its own, and never for long.
func TestCase_P13(t *testing.T) {
	nested := func(r *rig) error {
		var err error
		if d := took(func() { _, err = r.get(r.Context()) }); d != 100*time.Millisecond {
			r.Errorf("the nested call took %v", d)
		}
		return err
	}
	t.Run("before sending", func(t *testing.T) {
		inBoth(t, setting{cfg: trips(1, permits(1))}, func(r *rig) {
			rt := r.over(func(*http.Request) (*http.Response, error) { return nil, nested(r) })
			_, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
			r.is(err, resilient.ErrBulkheadFull)
			r.held(0)
			r.breaker("closed") // a refusal is nobody's failure
			r.works()
		})
	})
	t.Run("after a 401", func(t *testing.T) {
		inBoth(t, setting{cfg: permits(1), server: testserver.Options{Handler: testserver.Status(401)}}, func(r *rig) {
			bare := r.server.Transport()
			rt := r.over(func(req *http.Request) (*http.Response, error) {
				resp, err := bare.RoundTrip(req)
				if err != nil {
					return nil, err
				}
				resp.Body.Close()
				return nil, nested(r)
			})
			_, err := rt.RoundTrip(r.request(r.Context(), "POST", strings.NewReader("payment")))
			r.is(err, resilient.ErrBulkheadFull)
			r.held(0)
			if n := r.server.Stats().Requests; n != 1 || resilient.NotSent(err) {
				r.Errorf("NotSent is %v, and %d requests were sent", resilient.NotSent(err), n)
			}
		})
	})
	t.Run("in the upload", func(t *testing.T) {
		inBoth(t, setting{cfg: trips(1, permits(1))}, func(r *rig) {
			body := hooked{read: func([]byte) (int, error) { return 0, nested(r) }}
			_, err := r.Do(r.request(r.Context(), "POST", body))
			r.is(err, resilient.ErrBulkheadFull)
			r.held(0)
			r.breaker("closed")
			if resilient.NotSent(err) {
				r.Error("headers were sent")
			}
		})
	})
}

// A loop that forgets the body of its first attempt starves itself, but not for long.
func TestCase_P14(t *testing.T) {
	empty := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	for _, c := range []struct {
		name    string
		handler http.Handler
		after   func(resp *http.Response)
		full    bool
	}{
		{"forgotten", testserver.Status(503), func(*http.Response) {}, true},
		{"closed", testserver.Status(503), func(resp *http.Response) { resp.Body.Close() }, false},
		{"drained", testserver.Status(503), func(resp *http.Response) { io.Copy(io.Discard, resp.Body) }, false},
		{"without a body", empty, func(*http.Response) {}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBoth(t, setting{cfg: permits(1)}, func(r *rig) {
				r.server.Next(c.handler)
				c.after(r.send(r.Context(), "/"))
				var err error
				d := took(func() { _, err = r.get(r.Context()) })
				if full := errors.Is(err, resilient.ErrBulkheadFull); full != c.full || full != (d == 100*time.Millisecond) || (d != 0) != c.full {
					r.Errorf("the second attempt, after %v: %v", d, err)
				}
				time.Sleep(7 * time.Second) // then the total frees it
				r.held(0)
			})
		})
	}
}

// No permit goes back while work goes on, whatever ended the call.
func TestCase_P16(t *testing.T) {
	const stubborn = 300 * time.Millisecond
	cfg := bounds(10*time.Millisecond, 30*time.Millisecond, 50*time.Millisecond, permits(1))
	for _, c := range []struct {
		name string
		in   string // what does not heed its context
		end  func(r *rig, cancel func())
	}{
		{"a round trip, the timeout", "RoundTrip", func(*rig, func()) {}},
		{"a round trip, the caller", "RoundTrip", func(_ *rig, cancel func()) { cancel() }},
		{"a round trip, the owner", "RoundTrip", func(r *rig, _ func()) { r.Close() }},
		{"a Read, the timeout", "Read", func(*rig, func()) {}},
		{"a Read, the caller", "Read", func(_ *rig, cancel func()) { cancel() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inOne(t, setting{cfg: cfg}, func(r *rig) {
				var inside, peak atomic.Int32
				work := func(place string) {
					if c.in == place {
						peak.Store(max(peak.Load(), inside.Add(1)))
						time.Sleep(stubborn)
						inside.Add(-1)
					}
				}
				rt := r.over(func(req *http.Request) (*http.Response, error) {
					work("RoundTrip")
					return answer(req, 200, hooked{read: func([]byte) (int, error) { work("Read"); return 0, io.EOF }}), nil
				})
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				call := func() {
					if resp, err := rt.RoundTrip(r.request(ctx, "GET", nil)); err == nil {
						io.Copy(io.Discard, resp.Body)
					}
				}
				go call()
				time.Sleep(10 * time.Millisecond)
				c.end(r, cancel)
				time.Sleep(50 * time.Millisecond)
				r.held(1)
				ctx = r.Context()
				for range 10 {
					go call()
					time.Sleep(50 * time.Millisecond)
				}
				time.Sleep(10 * stubborn)
				if n := peak.Load(); n != 1 {
					r.Errorf("%d at once", n)
				}
			})
		})
	}
}

// A base that breaks the contract of http.RoundTripper: a response and an error, or neither.
func TestCase_P17_P18(t *testing.T) {
	for _, code := range []int{200, 500, 101, 204} {
		inOne(t, setting{cfg: permits(1)}, func(r *rig) {
			var body closeCounter
			rt := r.over(func(req *http.Request) (*http.Response, error) { return answer(req, code, &body), errBoom })
			resp, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
			if resp != nil || err != errBoom {
				r.Errorf("%d: %v, %v", code, resp, err)
			}
			if n := body.closed.Load(); n != 1 {
				r.Errorf("%d: body closed %d times", code, n)
			}
			r.held(0)
			r.outcomes(map[string]float64{"transport_error": 1})
			r.works()
		})
	}
	t.Run("neither, or half a response", func(t *testing.T) {
		inOne(t, setting{cfg: permits(1)}, func(r *rig) {
			for name, resp := range map[string]*http.Response{
				"neither": nil, "no body": {StatusCode: 200}, "no body, but a length": {StatusCode: 200, ContentLength: 5}, "empty": {},
			} {
				rt := r.over(func(*http.Request) (*http.Response, error) { return resp, nil })
				if got, err := rt.RoundTrip(r.request(r.Context(), "GET", nil)); (got == nil) == (err == nil) { // which http.Client would mend
					r.Errorf("%s: RoundTrip returned %v, %v", name, got, err)
				}
				r.held(0)
				got, err := (&http.Client{Transport: rt}).Do(r.request(r.Context(), "GET", nil))
				if (name == "neither" || resp.ContentLength > 0) && err == nil {
					r.Errorf("%s: %v", name, got)
				}
				r.held(0)
				r.works()
			}
		})
	})
}

// A body that fails half-way and is dropped costs no permit; the error is the transport's.
func TestCase_P19(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, strings.Repeat("hello", 100))
	z.Close()
	broken := packed.Bytes()[:packed.Len()-12]
	for name, handler := range map[string]http.Handler{
		"with a length": testserver.CutInBody(10, 100),
		"chunked":       testserver.CutInBody(10, 0),
		"half gzip": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(broken)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{cfg: trips(1, permits(1)), server: testserver.Options{Handler: handler}}, func(r *rig) {
				bare, err := (&http.Client{Transport: r.server.Transport()}).Do(r.request(r.Context(), "GET", nil))
				if err != nil {
					r.Fatal(err)
				}
				_, want := io.ReadAll(bare.Body)
				_, err = io.ReadAll(r.send(r.Context(), "/").Body)
				if err == nil || err.Error() != want.Error() || errors.Is(err, io.ErrUnexpectedEOF) != errors.Is(want, io.ErrUnexpectedEOF) {
					r.Errorf("%v, over a bare transport %v", err, want)
				}
				r.held(0)
				r.outcomes(map[string]float64{"transport_error": 1})
				r.breaker("open")
			})
		})
	}
}
