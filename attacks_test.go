package resilient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// What an adversary who did not know the code has broken once.

// A caller's upload that fails after the headers is still the caller's.
func TestUploadFailsAfterTheAnswer(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		r.server.Default(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			rc := http.NewResponseController(w)
			_ = rc.EnableFullDuplex()
			w.WriteHeader(200)
			_ = rc.Flush()
			_, _ = io.Copy(io.Discard, q.Body)
		}))
		for range 20 {
			pr, pw := io.Pipe()
			resp, err := r.Do(r.request(r.Context(), "POST", pr))
			if err != nil {
				r.Fatal(err)
			}
			pw.CloseWithError(errBoom)
			if _, err := io.ReadAll(resp.Body); err == nil {
				r.Error("no error")
			}
			resp.Body.Close()
		}
		r.breaker("closed")
		r.outcomes(map[string]float64{"invalid": 20})
	})
}

// An answer that is complete does not cut the upload that the server still reads.
func TestEarlyAnswerLetsTheUploadGoOn(t *testing.T) {
	inBoth(t, setting{}, func(r *rig) {
		if r.State().Config.Protocol == resilient.HTTP1 {
			return // there net/http itself breaks off
		}
		got := make(chan int64, 1)
		r.server.Default(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Length", "2")
			_, _ = io.WriteString(w, "ok")
			_ = http.NewResponseController(w).Flush()
			n, _ := io.Copy(io.Discard, q.Body)
			got <- n
		}))
		pr, pw := io.Pipe()
		resp, err := r.Do(r.request(r.Context(), "POST", pr))
		if err != nil {
			r.Fatal(err)
		}
		b := make([]byte, 2)
		_, _ = io.ReadFull(resp.Body, b)
		_, _ = pw.Write(make([]byte, 10_000))
		pw.Close()
		if n := <-got; n != 10_000 {
			r.Errorf("%d bytes arrived", n)
		}
		resp.Body.Close()
	})
}

// The error of another client, as a cancel's cause, is not ours to write to.
func TestCauseIsAnotherClientsError(t *testing.T) {
	inBoth(t, setting{server: testserver.Options{Handler: testserver.HangBeforeHeaders()}}, func(r *rig) {
		other, err := resilient.NewRegistry().NewClient("insurer", resilient.Config{}, resilient.WithDialContext(
			func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: errBoom}
			}))
		if err != nil {
			r.Fatal(err)
		}
		defer other.Close()
		_, failed := other.Do(r.request(r.Context(), "GET", nil))
		ctx, cancel := context.WithCancelCause(r.Context())
		time.AfterFunc(time.Second, func() { cancel(failed) })
		_, _ = r.Do(r.request(ctx, "POST", strings.NewReader("pay")))
		if resilient.NotSent(failed) {
			r.Error("the GET of another client became one that was not sent")
		}
	})
}

// The permit goes back when the inner body is closed, not before, though its Read has returned.
func TestPermitWaitsForTheInnerClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var base roundTripper = func(q *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, ProtoMajor: 1, Body: &slowClose{q.Context(), release}, Request: q}, nil
		}
		c, err := resilient.NewRegistry().NewClient("sber", resilient.Config{}, resilient.WithBase(&base))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://sber.test/", nil)
		resp, err := c.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		go resp.Body.Read(make([]byte, 1))
		synctest.Wait()
		cancel()
		synctest.Wait()
		if n := c.State().Bulkhead.Active; n != 1 {
			t.Errorf("%d permits out while the body is being closed", n)
		}
		close(release)
		synctest.Wait()
		if n := c.State().Bulkhead.Active; n != 0 {
			t.Errorf("%d permits out", n)
		}
		c.Close()
	})
}

type slowClose struct {
	ctx     context.Context
	release chan struct{}
}

func (s *slowClose) Read([]byte) (int, error) { <-s.ctx.Done(); return 1, nil }
func (s *slowClose) Close() error             { <-s.release; return nil }

// Who looks does not wait for a hook.
func TestHookDoesNotHoldUpAScrape(t *testing.T) {
	hold := make(chan struct{})
	opts := []resilient.Option{resilient.OnStateChange(func(tr resilient.Transition) {
		if tr.To == "half_open" {
			<-hold
		}
	})}
	synctest.Test(t, func(t *testing.T) {
		hold = make(chan struct{})
		r := newRig(t, setting{server: testserver.Options{Memory: true, Handler: testserver.Status(500)}, opts: opts})
		for range 20 {
			r.get(r.Context())
		}
		time.Sleep(31 * time.Second)
		if d := took(func() { r.metrics() }); d != 0 {
			t.Errorf("the scrape took %v", d)
		}
		close(hold)
		synctest.Wait()
	})
}

// A closed client takes no base, and a base that panics when it is closed does not keep the name.
func TestCloseWithABadBase(t *testing.T) {
	reg := resilient.NewRegistry()
	c, err := reg.NewClient("sber", resilient.Config{}, resilient.WithBase(&panicsWhenIdle{}))
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		c.Close()
	}()
	if _, err := c.Wrap(&http.Transport{}); !errors.Is(err, resilient.ErrClosed) {
		t.Error(err)
	}
	if c, err = reg.NewClient("sber", resilient.Config{}); err != nil {
		t.Fatal(err)
	}
	c.Close()
}

type panicsWhenIdle struct{ http.Transport }

func (*panicsWhenIdle) CloseIdleConnections() { panic("boom") }

// A CONNECT of the caller's own is no proxy's dial.
func TestConnectOfTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setting{server: testserver.Options{Memory: true}})
		r.server.On("CONNECT", testserver.After(2*time.Second, testserver.OK("ok")))
		req := r.request(r.Context(), "CONNECT", io.MultiReader(strings.NewReader("")))
		req.URL.Opaque = ""
		_, err := r.RoundTrip(req)
		if n := r.server.Stats().Requests; n != 1 || resilient.NotSent(err) {
			t.Errorf("the server saw %d, NotSent(%v) is %v", n, err, resilient.NotSent(err))
		}
		time.Sleep(10 * time.Second)
	})
}

// Goexit in a hook, a classifier or a base takes nothing with it.
func TestGoexitEverywhere(t *testing.T) {
	inBoth(t, setting{opts: []resilient.Option{
		resilient.OnStateChange(func(resilient.Transition) { runtime.Goexit() }),
		resilient.WithClassifier(func(*http.Response, error) resilient.Verdict { runtime.Goexit(); return 0 }),
	}}, func(r *rig) {
		for range 20 {
			go r.get(r.Context())
		}
		synctest.Wait()
		time.Sleep(time.Second)
		r.held(0)
		r.breaker("closed")
	})
}
