package transport_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

func TestFailureStatus(t *testing.T) {
	cfg := oneProbe
	cfg.Breaker.FailureStatus = "429,500-502"
	inBoth(t, cfg, func(r *rig) {
		for code, want := range map[int]string{200: success, 428: success, 429: failure, 430: success, 499: success, 500: failure, 502: failure, 503: success} {
			r.server.Default(testserver.Status(code))
			if got := r.verdict(func() { _ = get(r, r.all()) }); got != want {
				r.Errorf("%d: %s, want %s", code, got, want)
			}
		}
	})
}

// A success that is slow counts as a failure where SlowCall is set, whatever
// else is said of it, and SlowCall is then how long a silence may be.
func TestSlowCall(t *testing.T) {
	cfg := oneProbe
	cfg.Breaker.SlowCall = time.Second
	inBoth(t, cfg, func(r *rig) {
		for name, row := range map[string]struct {
			server http.Handler
			do     deed
			want   string
		}{
			"fast":                {testserver.After(time.Second-1, testserver.OK("ok")), get, success},
			"slow":                {testserver.After(time.Second+1, testserver.OK("ok")), get, failure},
			"slow 404":            {testserver.After(2*time.Second, testserver.Status(404)), get, failure},
			"slow, no body":       {testserver.After(2*time.Second, testserver.Status(204)), get, failure},
			"slow, then gone":     {testserver.After(2*time.Second, testserver.OK("ok")), part(0, 0), failure},
			"slow body":           {testserver.Trickle(1, 2*time.Second, 2), get, success},
			"gone early":          {testserver.HangBeforeHeaders(), cancelAfter(time.Second-1, nil), neutral},
			"gone late":           {testserver.HangBeforeHeaders(), cancelAfter(time.Second, nil), failure},
			"gone late in a body": {testserver.StallInBody(1), cancelAfter(time.Second, nil), failure},
		} {
			r.server.Default(row.server)
			if got := r.verdict(func() { _ = row.do(r, r.all()) }); got != row.want {
				r.Errorf("%s: %s, want %s", name, got, row.want)
			}
			r.own.CloseIdleConnections()
		}
	})
}

// SlowCall counts from admission: the wait for a permit is not the system's.
func TestSlowCallAfterQueue(t *testing.T) {
	cfg := oneProbe
	cfg.Breaker.SlowCall = 50 * time.Millisecond
	inBoth(t, cfg, func(r *rig) {
		r.server.Default(testserver.After(40*time.Millisecond, testserver.OK("ok")))
		for range r.cfg.Bulkhead.MaxConcurrent {
			if !r.sem.TryAcquire() {
				r.Fatal("no permit")
			}
		}
		time.AfterFunc(90*time.Millisecond, func() {
			for range r.cfg.Bulkhead.MaxConcurrent {
				r.sem.Release()
			}
		})
		if d := took(func() { _ = get(r, r.all()) }); d != 130*time.Millisecond {
			r.Errorf("took %v", d)
		}
		r.state("closed")
	})
}

// A classifier judges what the system answered and nothing else.
func TestClassifier(t *testing.T) {
	type call struct {
		status int
		err    bool
	}
	for name, row := range map[string]struct {
		server  http.Handler
		do      deed
		says    transport.Verdict
		saysErr transport.Verdict
		want    string
		calls   []call
	}{
		"200 is failure":        {testserver.OK("ok"), get, transport.Failure, transport.Failure, failure, []call{{200, false}}},
		"500 is success":        {testserver.Status(500), get, transport.Success, transport.Failure, success, []call{{500, false}}},
		"409 is neutral":        {testserver.Status(409), get, transport.Neutral, transport.Failure, neutral, []call{{409, false}}},
		"out of range":          {testserver.OK("ok"), get, transport.Verdict(7), transport.Failure, failure, []call{{200, false}}},
		"error is neutral":      {testserver.Abort(), get, transport.Success, transport.Neutral, neutral, []call{{0, true}}},
		"error is success":      {testserver.Abort(), get, transport.Success, transport.Success, success, []call{{0, true}}},
		"error is failure":      {testserver.Abort(), get, transport.Success, transport.Failure, failure, []call{{0, true}}},
		"body error is neutral": {testserver.CutInBody(1, 9), get, transport.Success, transport.Neutral, neutral, []call{{200, false}, {0, true}}},
		"body error is failure": {testserver.CutInBody(1, 9), get, transport.Success, transport.Failure, failure, []call{{200, false}, {0, true}}},
		"failed headers win":    {testserver.CutInBody(1, 9), get, transport.Failure, transport.Success, failure, []call{{200, false}}},
		"timeout":               {testserver.HangBeforeHeaders(), get, transport.Success, transport.Success, failure, nil},
		"timeout in the body":   {testserver.StallInBody(1), get, transport.Success, transport.Success, failure, []call{{200, false}}},
		"cancelled":             {testserver.HangBeforeHeaders(), cancelAfter(time.Second, nil), transport.Failure, transport.Failure, neutral, nil},
		"abandoned":             {testserver.OK("ok"), forget, transport.Success, transport.Failure, neutral, []call{{200, false}}},
		"invalid":               {testserver.OK("ok"), invalid, transport.Failure, transport.Failure, neutral, nil},
		"own upload":            {testserver.OK("ok"), post(9, hidden("x")), transport.Failure, transport.Failure, neutral, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, oneProbe, func(r *rig) {
				r.server.Default(row.server)
				var calls []call
				got := r.verdict(func() {
					r.breaker.Classify(func(resp *http.Response, err error) transport.Verdict {
						if resp != nil {
							calls = append(calls, call{resp.StatusCode, err != nil})
							return row.says
						}
						calls = append(calls, call{0, err != nil})
						return row.saysErr
					})
					_ = row.do(r, r.all())
					r.breaker.Classify(nil)
				})
				if got != row.want {
					r.Errorf("%s, want %s", got, row.want)
				}
				if len(calls) != len(row.calls) {
					r.Fatalf("asked %v, want %v", calls, row.calls)
				}
				for i, c := range calls {
					if c != row.calls[i] {
						r.Errorf("asked %v, want %v", calls, row.calls)
					}
				}
			})
		})
	}
}

// A panic of a classifier is the caller's to see, says nothing about the system, and takes nothing with it.
func TestClassifierPanics(t *testing.T) {
	for name, row := range map[string]struct {
		server http.Handler
		inErr  bool
	}{
		"headers": {testserver.OK("ok"), false},
		"no body": {testserver.Status(204), false},
		"error":   {testserver.Abort(), true},
		"body":    {testserver.CutInBody(1, 9), true},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, oneProbe, func(r *rig) {
				r.server.Default(row.server)
				var saw any
				got := r.verdict(func() {
					r.breaker.Classify(func(resp *http.Response, _ error) transport.Verdict {
						if row.inErr == (resp == nil) {
							panic("boom")
						}
						return transport.Success
					})
					swallow(func() {
						defer func() { saw = recover() }()
						_ = get(r, r.all())
					})
					r.breaker.Classify(nil)
				})
				if saw != "boom" || got != neutral {
					r.Errorf("panic %v, %s", saw, got)
				}
				r.held(0)
				if n := r.server.Stats().Concurrent; n != 0 {
					r.Errorf("%d requests still at the server", n)
				}
			})
		})
	}
}

// The 5xx that is a failure comes to the caller untouched, and none of the
// breaker's own errors or types shows.
func TestFailureIsUntouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		resp, err := r.breaker.Wrap(answer(503)).RoundTrip(r.request(t.Context(), "GET", nil))
		if s, err := read(resp, err); s != "ok" || err != nil || resp.StatusCode != 503 {
			t.Error(s, err)
		}
		r.state("open")
		_, err = r.breaker.Wrap(answer(200)).RoundTrip(r.request(t.Context(), "GET", nil))
		noGobreaker(t, err)
		time.Sleep(r.cfg.Breaker.OpenFor + 1)
		pr, pw := io.Pipe()
		go func() {
			_, _ = read(r.breaker.Wrap(fake(func(req *http.Request) (*http.Response, error) { return response(req, 200, pr), nil })).
				RoundTrip(r.request(context.Background(), "GET", nil)))
		}()
		synctest.Wait()
		_, err = r.breaker.Wrap(answer(200)).RoundTrip(r.request(t.Context(), "GET", nil)) // the probe is taken
		noGobreaker(t, err)
		if open, ok := errors.AsType[*transport.OpenError](err); !ok || open.RetryAfter != 0 {
			t.Error(err)
		}
		noGobreaker(t, r.breaker.Peek())
		pw.Close()
	})
}

// noGobreaker walks the whole tree of err.
func noGobreaker(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if text := err.Error(); strings.Contains(text, "circuit breaker is open") || strings.Contains(text, "too many requests") || strings.Contains(text, "gobreaker") {
		t.Errorf("gobreaker shows in %q", text)
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		noGobreaker(t, e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			noGobreaker(t, err)
		}
	}
}
