package exchange_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

// snapshot is what a RoundTripper may not change of a request.
func snapshot(req *http.Request) map[string]any {
	fields := map[string]any{"context": req.Context()}
	v := reflect.ValueOf(*req)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Type.Kind() != reflect.Func {
			fields[f.Name] = v.Field(i).Interface()
		}
	}
	for _, h := range []string{"Header", "Trailer"} {
		fields[h] = fields[h].(http.Header).Clone()
	}
	fields["URL"] = req.URL.String()
	return fields
}

// The caller's request is never changed, and is the response's, whatever carries it.
func TestRequestUnchanged(t *testing.T) {
	for _, layers := range [][]string{{"watch"}, {"uploads"}, {"bound"}, all} {
		both(t, strings.Join(layers, " "), testserver.Echo(), func(t *testing.T, s *system) {
			r := newRig(t, s.base, layers...)
			req := s.request(t.Context(), io.MultiReader(strings.NewReader("hello")))
			req.ContentLength = 5
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("hello")), nil }
			req.Header.Set("X", "y")
			before := snapshot(req)
			resp, err := r.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Request != req {
				t.Error("the response's request is not the caller's")
			}
			io.Copy(io.Discard, resp.Body)
			if after := snapshot(req); !reflect.DeepEqual(before, after) {
				t.Errorf("before %v\nafter %v", before, after)
			}
			r.ended(Outcome{})
		})
	}
}

// A request that a lower transport put into the response stays there.
func TestResponseRequest(t *testing.T) {
	for _, layers := range [][]string{{"watch"}, all} {
		other := request(t.Context())
		for _, want := range []*http.Request{other, nil} {
			r := newRig(t, trip(func(*http.Request) (*http.Response, error) { return reply(want, 200, http.NoBody), nil }), layers...)
			if resp, err := r.RoundTrip(request(t.Context())); err != nil || resp.Request != want {
				t.Errorf("%v, %v", resp.Request, err)
			}
		}
	}
}

// The server sees what it would see of the bare transport.
func TestServerSees(t *testing.T) {
	for name, c := range map[string]func(req *http.Request){
		"a GET":                 func(*http.Request) {},
		"NoBody":                func(req *http.Request) { req.Body = http.NoBody },
		"a body in memory":      func(req *http.Request) { body(req, bytes.NewReader([]byte("hello"))) },
		"a large one in memory": func(req *http.Request) { body(req, strings.NewReader(strings.Repeat("x", 100<<10))) },
		"a stream":              func(req *http.Request) { body(req, io.MultiReader(strings.NewReader("hello"))) },
		"a stream of known length": func(req *http.Request) {
			body(req, io.MultiReader(strings.NewReader("hello")))
			req.ContentLength = 5
		},
		"with a trailer": func(req *http.Request) {
			body(req, io.MultiReader(strings.NewReader("hello")))
			req.Trailer = http.Header{"T": {"v"}}
		},
		"an empty stream":   func(req *http.Request) { body(req, io.MultiReader()) },
		"Host and a header": func(req *http.Request) { req.Host = "other.test"; req.Header.Set("X", "y") },
		"Expect": func(req *http.Request) {
			body(req, strings.NewReader("hello"))
			req.Header.Set("Expect", "100-continue")
		},
	} {
		both(t, name, testserver.Echo(), func(t *testing.T, s *system) {
			r := newRig(t, s.base)
			var seen []string
			for _, r := range []http.RoundTripper{s.base, r} {
				req := s.request(t.Context())
				c(req)
				resp, err := r.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Error(err)
				}
				resp.Body.Close()
				seen = append(seen, string(b))
			}
			if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
				t.Error(diff)
			}
			r.ended(Outcome{})
		})
	}
}

// body gives req b as [http.NewRequest] does.
func body(req *http.Request, b io.Reader) {
	with, _ := http.NewRequest(http.MethodPost, "/", b)
	req.Method, req.Body, req.ContentLength, req.GetBody = with.Method, with.Body, with.ContentLength, with.GetBody
}

// Trailers, decompression, early hints, hooks and values come and go as without us.
func TestPassesThrough(t *testing.T) {
	get := func(t *testing.T, r *rig, req *http.Request) (*http.Response, string) {
		t.Helper()
		resp, err := r.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		r.ended(Outcome{})
		return resp, string(b)
	}
	both(t, "trailers", testserver.Trailers("abc", "T", "v"), func(t *testing.T, s *system) {
		resp, b := get(t, newRig(t, s.base), s.request(t.Context()))
		if b != "abc" || resp.Trailer.Get("T") != "v" {
			t.Errorf("%q, %v", b, resp.Trailer)
		}
	})
	both(t, "gzip", testserver.Gzip("hello"), func(t *testing.T, s *system) {
		resp, b := get(t, newRig(t, s.base), s.request(t.Context()))
		if b != "hello" || !resp.Uncompressed || resp.ContentLength != -1 || resp.Header.Get("Content-Encoding") != "" {
			t.Errorf("%q, %v, %d, %v", b, resp.Uncompressed, resp.ContentLength, resp.Header)
		}
	})
	both(t, "hints and hooks", testserver.Informational(testserver.OK("ok"), 103), func(t *testing.T, s *system) {
		var got []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GetConn: func(string) { got = append(got, "conn") },
			Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
				got = append(got, fmt.Sprint(code))
				return nil
			},
		})
		get(t, newRig(t, s.base), s.request(ctx))
		if !slices.Equal(got, []string{"conn", "103"}) {
			t.Error(got)
		}
	})
	bubble(t, "values and deadlines", func(t *testing.T) {
		type key struct{}
		now := time.Now()
		for name, c := range map[string]struct{ caller, bound, want time.Duration }{
			"none":      {0, 0, 0},
			"callers":   {time.Minute, 0, time.Minute},
			"ours":      {0, time.Minute, time.Minute},
			"ours is 1": {time.Hour, time.Minute, time.Minute},
			"ours is 2": {time.Minute, time.Hour, time.Minute},
		} {
			ctx := context.WithValue(t.Context(), key{}, "v")
			if c.caller > 0 {
				with, cancel := context.WithDeadline(ctx, now.Add(c.caller))
				defer cancel()
				ctx = with
			}
			r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
				if v := req.Context().Value(key{}); v != "v" {
					t.Errorf("%s: value %v", name, v)
				}
				d, ok := req.Context().Deadline()
				if ok != (c.want > 0) || ok && !d.Equal(now.Add(c.want)) {
					t.Errorf("%s: deadline %v, %v", name, d.Sub(now), ok)
				}
				return reply(req, 200, nil), nil
			}))
			r.total = c.bound
			r.begin = func(_ string, x *Exchange) error {
				if x.Caller() != ctx || x.Request.Context() != ctx {
					t.Errorf("%s: not the caller's context", name)
				}
				return nil
			}
			r.RoundTrip(request(ctx))
			r.ended(Outcome{})
		}
	})
	bubble(t, "the earlier of two bounds", func(t *testing.T) {
		now := time.Now()
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			if d, _ := req.Context().Deadline(); !d.Equal(now.Add(time.Second)) {
				t.Error(d.Sub(now))
			}
			return reply(req, 200, nil), nil
		}))
		r.begin = func(layer string, x *Exchange) error {
			x.SetDeadline(time.Duration(map[string]int{"watch": 3, "permit": 1, "slot": 2, "bound": 4}[layer]) * time.Second)
			return nil
		}
		r.RoundTrip(request(t.Context()))
	})
}

type closer struct {
	trip
	closed *int
}

func (c closer) CloseIdleConnections() { *c.closed++ }

func TestCloseIdleConnections(t *testing.T) {
	closed := 0
	r := newRig(t, closer{answer(http.NoBody), &closed}, "watch", "permit", "slot", "bound", "permit2")
	client := http.Client{Transport: r.RoundTripper}
	client.CloseIdleConnections()
	if closed != 1 {
		t.Errorf("closed %d times", closed)
	}
	(&http.Client{Transport: newRig(t, answer(http.NoBody)).RoundTripper}).CloseIdleConnections()
}

// The body is closed on each refusal, which is what its caller sees.
func TestRefused(t *testing.T) {
	for _, layer := range all {
		for _, hop := range []bool{false, true} {
			bubble(t, fmt.Sprint(layer, ", later hop ", hop), func(t *testing.T) {
				body := text("abc")
				r := newRig(t, answer(text("")))
				r.begin = func(l string, _ *Exchange) error {
					time.Sleep(time.Second)
					return map[string]error{layer: errBoom}[l]
				}
				req := request(t.Context(), body)
				if hop {
					req.Response = reply(nil, 307, http.NoBody)
				}
				resp, err := r.RoundTrip(req)
				if resp != nil || !errors.Is(err, errBoom) || errors.Is(err, ErrMaybeSent) != hop || isTimeout(err) {
					t.Errorf("%v, %v", resp, err)
				}
				if body.count() != 1 || r.starts != 0 {
					t.Errorf("body closed %d times, %d waits", body.count(), r.starts)
				}
				if layer != "watch" {
					i := slices.Index(all, layer)
					r.ended(Outcome{Fault: err})
					x := r.last()
					if len(x.begun) != i || x.Sent || x.Admitted != time.Duration(i+1)*time.Second {
						t.Errorf("begun %v, sent %v, admitted after %v", x.begun, x.Sent, x.Admitted)
					}
				}
			})
		}
	}
}

func TestMaybeSent(t *testing.T) {
	err := MaybeSent(context.DeadlineExceeded)
	if !errors.Is(err, ErrMaybeSent) || !errors.Is(err, context.DeadlineExceeded) || !isTimeout(err) || MaybeSent(err) != err {
		t.Error(err)
	}
	if want := "context deadline exceeded (something of it may have been sent before)"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// Times count from the start.
func TestTimes(t *testing.T) {
	both(t, "", testserver.After(2*time.Second, testserver.OK("")), func(t *testing.T, s *system) {
		r := newRig(t, s.base)
		start := time.Now()
		r.begin = func(string, *Exchange) error { time.Sleep(time.Second); return nil }
		r.answered = func(_ string, x *Exchange, resp *http.Response) {
			if x.Status != 200 || resp.StatusCode != 200 || x.Answered != 6*time.Second {
				t.Errorf("status %d, answered after %v", x.Status, x.Answered)
			}
		}
		if _, err := r.RoundTrip(s.request(t.Context())); err != nil {
			t.Fatal(err)
		}
		x := r.last()
		got := []time.Duration{x.Start.Sub(start), x.Admitted, x.Answered, x.Elapsed()}
		if want := []time.Duration{0, 4 * time.Second, 6 * time.Second, 6 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}
