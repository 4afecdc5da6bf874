package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

// Adjacent layers share an exchange, up to four of them; the next one begins a second around it.
func TestFuse(t *testing.T) {
	for n := 1; n <= 9; n++ {
		both(t, fmt.Sprint(n, " layers"), testserver.OK("abc"), func(t *testing.T, s *system) {
			var names []string
			for i := range n {
				names = append(names, all[i%4]+fmt.Sprint(i))
			}
			r := newRig(t, s.base, names...)
			resp, err := r.RoundTrip(s.request(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			var begun []string
			for _, of := range r.runs {
				begun = append(begun, of.begun...)
			}
			if want := (n + 3) / 4; len(r.runs) != want || !slices.Equal(begun, names) {
				t.Errorf("%d exchanges, want %d, which began %v", len(r.runs), want, begun)
			}
			if b, err := io.ReadAll(resp.Body); string(b) != "abc" || err != nil {
				t.Errorf("%q, %v", b, err)
			}
			r.settled()
		})
	}
	bubble(t, "the inner layers are used alone too", func(t *testing.T) {
		inner := newRig(t, answer(http.NoBody), "permit1", "slot")
		one, two := newRig(t, inner.RoundTripper, "watch"), newRig(t, inner.RoundTripper, "permit2")
		for _, r := range []http.RoundTripper{one, inner, two, one} {
			if _, err := r.RoundTrip(request(t.Context())); err != nil {
				t.Error(err)
			}
		}
		var got [][]string
		for _, r := range []*rig{one, inner, two} {
			for _, of := range r.runs {
				got = append(got, of.begun)
			}
			r.settled()
		}
		if want := "[[watch] [watch] [permit1 slot] [permit1 slot] [permit1 slot] [permit1 slot] [permit2]]"; fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
	})
}

// wrapper hides what a body is.
type wrapper struct{ io.ReadCloser }

// What a RoundTripper of somebody else's may do between layers. The inner ones have a total of three seconds.
var foreigners = map[string]struct {
	around func(next http.RoundTripper) trip
	wraps  bool // the body, so that an outer exchange does not end with the inner one
	inner  int  // exchanges
}{
	"passes on":          {func(next http.RoundTripper) trip { return next.RoundTrip }, false, 1},
	"passes on, limited": {func(next http.RoundTripper) trip { return next.RoundTrip }, false, 1},
	"wraps the body": {func(next http.RoundTripper) trip {
		return func(req *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			if err == nil {
				resp.Body = wrapper{resp.Body}
			}
			return resp, err
		}
	}, true, 1},
	"replaces the context": {func(next http.RoundTripper) trip {
		return func(req *http.Request) (*http.Response, error) {
			return next.RoundTrip(req.WithContext(context.WithoutCancel(req.Context())))
		}
	}, false, 1},
	"clones the request": {func(next http.RoundTripper) trip {
		return func(req *http.Request) (*http.Response, error) { return next.RoundTrip(req.Clone(req.Context())) }
	}, false, 1},
	"retries with one request": {func(next http.RoundTripper) trip {
		return func(req *http.Request) (*http.Response, error) {
			for range 2 {
				if resp, err := next.RoundTrip(req); err == nil {
					resp.Body.Close()
				}
			}
			return next.RoundTrip(req)
		}
	}, false, 3},
	"hedges with one request": {func(next http.RoundTripper) trip {
		return func(req *http.Request) (*http.Response, error) {
			type result struct {
				resp *http.Response
				err  error
			}
			results := make(chan result, 2)
			for range 2 {
				go func() {
					resp, err := next.RoundTrip(req)
					results <- result{resp, err}
				}()
			}
			first, second := <-results, <-results
			if second.err == nil {
				second.resp.Body.Close()
			}
			return first.resp, first.err
		}
	}, false, 2},
}

func TestForeignBetween(t *testing.T) {
	for name, c := range foreigners {
		between := func(t *testing.T, s *system) (outer, inner *rig) {
			inner = newRig(t, s.base, "slot", "bound")
			inner.total = 3 * time.Second
			outer = newRig(t, c.around(inner), "watch", "permit")
			if strings.HasSuffix(name, "limited") { // the inner body is found behind the limit's
				outer = newRig(t, c.around(inner), "watch", "limit")
			}
			return outer, inner
		}
		both(t, name+"/read", testserver.OK("abc"), func(t *testing.T, s *system) {
			outer, inner := between(t, s)
			resp, err := outer.RoundTrip(s.request(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			outer.held(2)
			inner.held(2)
			if b, err := io.ReadAll(resp.Body); string(b) != "abc" || err != nil {
				t.Errorf("%q, %v", b, err)
			}
			outer.ended(Outcome{})
			inner.ended(Outcome{})
			if len(outer.runs) != 1 || len(inner.runs) != c.inner {
				t.Errorf("%d exchanges outside, %d inside", len(outer.runs), len(inner.runs))
			}
		})
		both(t, name+"/forgotten", testserver.StallInBody(3), func(t *testing.T, s *system) {
			outer, inner := between(t, s)
			resp, err := outer.RoundTrip(s.request(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
			want := Outcome{Fault: errBound, By: Bound, Idle: math.MaxInt64}
			inner.settled()
			if c.wraps {
				outer.held(2)
				want = Outcome{Fault: errBound}
			} else {
				outer.ended(want)
			}
			if _, err := io.ReadAll(resp.Body); err != errBound {
				t.Error(err)
			}
			outer.ended(want)
		})
		both(t, name+"/cancelled", testserver.StallInBody(3), func(t *testing.T, s *system) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			outer, inner := between(t, s)
			resp, err := outer.RoundTrip(s.request(ctx))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(resp.Body); err != context.DeadlineExceeded {
				t.Error(err)
			}
			if took := outer.last().at[0]; took != time.Second {
				t.Error(took)
			}
			synctest.Wait()
			outer.ended(Outcome{Fault: context.DeadlineExceeded, By: Caller})
			inner.settled()
		})
	}
}

// A call of the same chain from within is an exchange of its own.
func TestNestedCall(t *testing.T) {
	both(t, "", testserver.OK("abc"), func(t *testing.T, s *system) {
		inner := newRig(t, s.base, "slot", "bound")
		var outer *rig
		outer = newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			if req.Header.Get("Authorization") == "" {
				token := req.Clone(req.Context())
				token.Header.Set("Authorization", "none")
				resp, err := outer.RoundTrip(token)
				if err != nil {
					return nil, err
				}
				outer.held(4)
				io.Copy(io.Discard, resp.Body)
				outer.held(2)
			}
			return inner.RoundTrip(req)
		}), "watch", "permit")
		resp, err := outer.RoundTrip(s.request(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(resp.Body.Close(), resp.Body.Close()); err != nil {
			t.Error(err)
		}
		outer.settled()
		inner.settled()
		if len(outer.runs) != 2 || len(inner.runs) != 2 {
			t.Errorf("%d exchanges outside, %d inside", len(outer.runs), len(inner.runs))
		}
	})
}

// What the inner exchange came to by the time that the outer one adopts it.
func TestAdopt(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(inner *rig, resp *http.Response)
		want      Outcome
		reads     error // what a Read says
	}{
		"read to its end": {func(_ *rig, resp *http.Response) { io.Copy(io.Discard, resp.Body) }, Outcome{}, io.EOF},
		"closed":          {func(_ *rig, resp *http.Response) { resp.Body.Close() }, Outcome{}, io.EOF},
		"interrupted": {func(inner *rig, _ *http.Response) { inner.interrupt(Bound) },
			Outcome{Fault: errBound, By: Bound, Idle: math.MaxInt64}, errBound},
		"panicked": {func(_ *rig, resp *http.Response) { panics(func() { resp.Body.Read(make([]byte, toPanic)) }) },
			Outcome{Fault: errAny, Panicked: true}, io.EOF},
	} {
		bubble(t, name, func(t *testing.T) {
			b := newFake(func(p []byte) (int, error) {
				if len(p) == toPanic {
					panic(errBoom)
				}
				return 0, io.EOF
			})
			inner := newRig(t, answer(b))
			outer := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
				resp, err := inner.RoundTrip(req)
				c.meanwhile(inner, resp)
				return resp, err
			}))
			resp, err := outer.RoundTrip(request(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			outer.ended(c.want)
			inner.ended(c.want)
			if _, err := resp.Body.Read(nil); err != c.reads {
				t.Error(err)
			}
			outer.ended(c.want)
		})
	}
}

// Who ends two exchanges, and that the outer one says what the inner one does.
func TestEndsOfTwo(t *testing.T) {
	two := func(t *testing.T, b io.ReadCloser) (outer, inner *rig, body io.ReadCloser) {
		inner = newRig(t, answer(b))
		outer = newRig(t, trip(inner.RoundTrip))
		resp, err := outer.RoundTrip(request(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		return outer, inner, resp.Body
	}
	for name, c := range map[string]struct {
		act          func(outer, inner *rig, b io.ReadCloser)
		outer, inner Outcome
	}{
		"Close": {act: func(_, _ *rig, b io.ReadCloser) { b.Close() }},
		"EOF":   {act: func(_, _ *rig, b io.ReadCloser) { b.Read(nil) }},
		"the inner is interrupted": {func(_, inner *rig, _ io.ReadCloser) { inner.interrupt(Owner) },
			Outcome{Fault: errOwner, By: Owner, Idle: math.MaxInt64}, Outcome{Fault: errOwner, By: Owner, Idle: math.MaxInt64}},
	} {
		bubble(t, name, func(t *testing.T) {
			outer, inner, body := two(t, text(""))
			inner.end = func(string, *Exchange, Outcome) { outer.held(4) }
			outer.end = func(string, *Exchange, Outcome) { inner.held(0) }
			c.act(outer, inner, body)
			outer.ended(c.outer)
			inner.ended(c.inner)
		})
	}
	bubble(t, "the outer is interrupted", func(t *testing.T) {
		outer, inner, _ := two(t, text(""))
		outer.interrupt(Owner)
		outer.ended(Outcome{Fault: errOwner, By: Owner, Idle: math.MaxInt64})
		synctest.Wait()
		inner.settled()
	})
	bubble(t, "closed, which takes longer than the inner's bound", func(t *testing.T) {
		b := text("")
		b.close = func() error { time.Sleep(2 * time.Second); return nil }
		outer, inner, body := two(t, b)
		time.AfterFunc(time.Second, func() { inner.interrupt(Bound) })
		body.Close()
		outer.ended(Outcome{})
		inner.ended(Outcome{})
		time.Sleep(time.Minute)
	})
	bubble(t, "the outer is interrupted in a Read", func(t *testing.T) { // and does not end before that has returned
		b := newFake(nil)
		b.read = func([]byte) (int, error) { <-b.closed; time.Sleep(time.Second); return 0, errBoom }
		outer, inner, body := two(t, b)
		time.AfterFunc(time.Second, func() { outer.interrupt(Bound) })
		time.AfterFunc(1500*time.Millisecond, func() { outer.held(4); inner.held(4) })
		if _, err := body.Read(make([]byte, 1)); err != errBound {
			t.Error(err)
		}
		outer.ended(Outcome{Fault: errBound, By: Bound})
		inner.settled()
	})
	bubble(t, "an upgrade", func(t *testing.T) {
		inner := newRig(t, upgradeTo(conn{text("")}))
		outer := newRig(t, trip(inner.RoundTrip))
		resp, _ := outer.RoundTrip(request(t.Context()))
		outer.handshake()
		inner.handshake()
		resp.Body.(io.Writer).Write(nil)
		outer.interrupt(Owner)
		outer.ended(Outcome{Fault: errOwner, By: Owner, Upgraded: true, Idle: math.MaxInt64})
		inner.ended(Outcome{Fault: errOwner, By: Owner, Upgraded: true, Idle: math.MaxInt64})
	})
}
