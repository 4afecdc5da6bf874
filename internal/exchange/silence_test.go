package exchange_test

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	. "github.com/resilient-go/resilient/internal/exchange"
	"github.com/resilient-go/resilient/internal/testserver"
)

const nobodyWaits = time.Duration(-1)

// Silence counts while the caller waits for the system, in RoundTrip and in each
// Read, and begins anew with each piece of the request's body that is taken.
func TestSilence(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var r *rig
		silent := func(when string, want time.Duration) {
			t.Helper()
			if got := r.last().Silence(); got != want {
				t.Errorf("%s: silent for %v, want %v", when, got, want)
			}
		}
		const second = time.Second
		pieces := newFake(nil)
		pieces.read = func(p []byte) (int, error) {
			silent("as a piece is asked for", 0)
			time.Sleep(3 * second)
			silent("while it is waited for", 3*second)
			return len(p), nil
		}
		reads := 0
		answer := newFake(func(p []byte) (int, error) {
			silent("as a Read begins", 0)
			time.Sleep(2 * second)
			silent("in a Read", 2*second)
			if reads++; reads == 3 {
				return 0, io.EOF
			}
			return copy(p, "x"), nil
		})
		var sent io.ReadCloser
		r = newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			sent = req.Body
			silent("at the start of the round trip", 0)
			time.Sleep(second)
			silent("in the round trip", second)
			for range 2 {
				sent.Read(make([]byte, 1))
				silent("as a piece is taken", 0)
				time.Sleep(second)
				silent("after it", second)
			}
			return reply(req, 200, answer), nil
		}))
		r.begin = func(layer string, _ *Exchange) error {
			if layer != "watch" {
				silent("in Begin", nobodyWaits)
			}
			return nil
		}
		r.answered = func(string, *Exchange, *http.Response) { silent("as the answer comes", nobodyWaits) }
		r.end = func(string, *Exchange, Outcome) { silent("in End", nobodyWaits) }
		resp, err := r.RoundTrip(request(t.Context(), pieces))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			time.Sleep(second)
			silent("between Reads", nobodyWaits)
			resp.Body.Read(make([]byte, 1))
			silent("after a Read", nobodyWaits)
		}
		pieces.read = func([]byte) (int, error) { return 0, nil }
		answer.read = func([]byte) (int, error) {
			time.Sleep(second)
			sent.Read(nil)
			silent("after a piece that is late", second)
			answer.read = nil
			return 0, io.EOF
		}
		sent.Read(nil)
		silent("after a piece between Reads", nobodyWaits)
		resp.Body.Read(make([]byte, 1))
		silent("after the end", nobodyWaits)
		resp.Body.Read(make([]byte, 1))
		r.ended(Outcome{})
	})
	bubble(t, "in an End during a Read", func(t *testing.T) {
		b := text("")
		r := newRig(t, answer(b))
		b.read = func([]byte) (int, error) {
			time.Sleep(time.Second)
			b.read = func([]byte) (int, error) { return 0, io.EOF }
			go r.last().Interrupt(Bound, errBound, errBound)
			time.Sleep(time.Second)
			return 0, nil
		}
		r.end = func(_ string, x *Exchange, _ Outcome) {
			if got := x.Silence(); got != nobodyWaits {
				t.Error(got)
			}
			if r.waiting != 1 {
				t.Error("a Read that ends the exchange waits until it has")
			}
		}
		resp, _ := r.RoundTrip(request(t.Context()))
		resp.Body.Read(nil)
		r.ended(Outcome{Fault: errBound, By: Bound})
	})
}

// A system that takes an upload slowly is not silent; one that takes nothing is.
// (Over HTTP/2 the last MiB of it fits what a server takes unread.)
func TestSilenceOfUpload(t *testing.T) {
	const size = 4 << 20
	stream := func() io.Reader {
		return io.LimitReader(newFake(func(p []byte) (int, error) { return len(p), nil }), size)
	}
	both(t, "slow", testserver.ReadSlowly(64<<10, time.Second, testserver.OK("")), func(t *testing.T, s *system) {
		r := newRig(t, s.base)
		longest := time.Duration(0)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-ticker.C:
					longest = max(longest, r.last().Silence())
				}
			}
		})
		start := time.Now()
		resp, err := r.RoundTrip(s.request(t.Context(), stream()))
		close(stop)
		wg.Wait()
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if took := time.Since(start); took < time.Minute {
			t.Errorf("it took only %v", took)
		}
		if longest > 20*time.Second {
			t.Errorf("silent for up to %v", longest)
		}
	})
	both(t, "stuck", testserver.HangUnread(), func(t *testing.T, s *system) {
		r := newRig(t, s.base)
		time.AfterFunc(time.Minute, func() {
			if got := r.last().Silence(); got != time.Minute {
				t.Errorf("silent for %v", got)
			}
			r.interrupt(Bound)
		})
		if _, err := r.RoundTrip(s.request(t.Context(), stream())); err != errBound {
			t.Error(err)
		}
		r.ended(Outcome{Fault: errBound, By: Bound})
	})
}
