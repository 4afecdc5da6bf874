package exchange_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	. "github.com/resilient-go/resilient/internal/exchange"
)

// What Read and Close return is what the inner body returns.
func TestBodyPassesThrough(t *testing.T) {
	bubble(t, "data with EOF", func(t *testing.T) {
		r := newRig(t, answer(newFake(func(p []byte) (int, error) { return copy(p, "abc"), io.EOF })))
		resp, _ := r.RoundTrip(request(t.Context()))
		p := make([]byte, 8)
		if n, err := resp.Body.Read(p); string(p[:n]) != "abc" || err != io.EOF {
			t.Errorf("%q, %v", p[:n], err)
		}
		r.ended(Outcome{})
		if r.heard != 2 || r.starts != 2 {
			t.Errorf("waited %d times, heard %d times", r.starts, r.heard)
		}
	})
	bubble(t, "neither data nor error", func(t *testing.T) {
		left := 2
		r := newRig(t, answer(newFake(func(p []byte) (int, error) {
			if left--; left >= 0 {
				return 0, nil
			}
			return 0, io.EOF
		})))
		resp, _ := r.RoundTrip(request(t.Context()))
		for range 2 {
			if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err != nil {
				t.Error(n, err)
			}
			r.held(4)
		}
		if _, err := resp.Body.Read(nil); err != io.EOF {
			t.Error(err)
		}
		r.ended(Outcome{})
		if r.starts != 4 || r.heard != 2 { // the headers and the end
			t.Errorf("waited %d times, heard %d times", r.starts, r.heard)
		}
	})
	bubble(t, "data with an error", func(t *testing.T) {
		r := newRig(t, answer(newFake(func(p []byte) (int, error) { return copy(p, "abc"), errBoom })))
		resp, _ := r.RoundTrip(request(t.Context()))
		if n, err := resp.Body.Read(make([]byte, 8)); n != 3 || err != errBoom {
			t.Error(n, err)
		}
		r.ended(Outcome{Fault: errBoom})
	})
	bubble(t, "errors of Close", func(t *testing.T) {
		b := text("abc")
		b.close = func() error { return errors.Join(errBoom) }
		r := newRig(t, answer(b))
		resp, _ := r.RoundTrip(request(t.Context()))
		for i := range 2 {
			if err := resp.Body.Close(); !errors.Is(err, errBoom) || b.count() != i+1 {
				t.Error(err, b.count())
			}
			r.ended(Outcome{})
		}
	})
	bubble(t, "Close comes before the ends", func(t *testing.T) {
		b := text("abc")
		r := newRig(t, answer(b))
		b.close = func() error {
			time.Sleep(time.Second)
			r.held(4)
			if err := r.last().Context().Err(); err != nil {
				t.Errorf("the context ended before Close: %v", err)
			}
			return nil
		}
		r.end = func(_ string, x *Exchange, _ Outcome) {
			if err := x.Context().Err(); err != nil {
				t.Errorf("the context ended before the exchange: %v", err)
			}
		}
		resp, _ := r.RoundTrip(request(t.Context()))
		resp.Body.Close()
		r.ended(Outcome{})
		if err := r.last().Context().Err(); err == nil {
			t.Error("the context did not end")
		}
		second := time.Second
		if diff := cmp.Diff([]time.Duration{second, second, second, second}, r.last().at); diff != "" {
			t.Error(diff)
		}
	})
}

// A body that has been read to its end is closed then and there, after the ends and before the exchange's context
// ends, which its Close may take for an error. The caller's own Close gets to hear what that one said.
func TestDrained(t *testing.T) {
	for name, n := range map[string]int{"by one": 1, "by two, one around the other": 2} {
		bubble(t, name, func(t *testing.T) {
			b := text("abc")
			inner := newRig(t, answer(b))
			r := inner
			if n == 2 {
				r = newRig(t, trip(inner.RoundTrip))
			}
			b.close = func() error {
				r.held(0)
				inner.held(0)
				if err := inner.last().Context().Err(); err != nil {
					t.Errorf("the context ended before: %v", err)
				}
				return errBoom
			}
			resp, _ := r.RoundTrip(request(t.Context()))
			if got, err := io.ReadAll(resp.Body); string(got) != "abc" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if inner.last().Context().Err() == nil {
				t.Error("the context did not end")
			}
			r.interrupt(Bound)
			starts, left := inner.starts, b.read
			b.read = func([]byte) (int, error) { t.Error("read on"); return 0, nil }
			if _, err := resp.Body.Read(make([]byte, 1)); err != io.EOF || inner.starts != starts {
				t.Errorf("a Read afterwards: %v, %d waits", err, inner.starts-starts)
			}
			for range 2 {
				if err := resp.Body.Close(); err != errBoom || b.count() != 1 {
					t.Errorf("%v, closed %d times", err, b.count())
				}
			}
			b.read = left
			if _, err := resp.Body.Read(make([]byte, 1)); err != io.EOF || inner.starts != starts+1 {
				t.Errorf("a Read after Close: %v, %d waits", err, inner.starts-starts)
			}
			r.ended(Outcome{})
		})
	}
	bubble(t, "closed before", func(t *testing.T) {
		b := text("")
		r := newRig(t, answer(b))
		resp, _ := r.RoundTrip(request(t.Context()))
		resp.Body.Close()
		if _, err := resp.Body.Read(nil); err != io.EOF || b.count() != 1 {
			t.Errorf("%v, closed %d times", err, b.count())
		}
	})
	bubble(t, "interrupted before", func(t *testing.T) {
		b := newFake(nil)
		b.read = func([]byte) (int, error) { <-b.closed; return 0, io.EOF }
		r := newRig(t, answer(b))
		r.total = time.Second
		resp, _ := r.RoundTrip(request(t.Context()))
		for range 2 {
			if _, err := resp.Body.Read(nil); err != errBound || b.count() != 1 {
				t.Errorf("%v, closed %d times", err, b.count())
			}
		}
	})
	bubble(t, "an error that only looks like the end", func(t *testing.T) {
		b := newFake(func([]byte) (int, error) { return 0, io.ErrUnexpectedEOF })
		r := newRig(t, answer(b))
		resp, _ := r.RoundTrip(request(t.Context()))
		resp.Body.Read(nil)
		r.ended(Outcome{Fault: io.ErrUnexpectedEOF})
		if b.count() != 0 {
			t.Error("closed")
		}
	})
	bubble(t, "Close panics", func(t *testing.T) {
		b := text("")
		b.close = func() error { panic(errBoom) }
		r := newRig(t, answer(b))
		resp, _ := r.RoundTrip(request(t.Context()))
		if e := panics(func() { resp.Body.Read(nil) }); e != errBoom {
			t.Error(e)
		}
		r.ended(Outcome{})
		if r.last().Context().Err() == nil {
			t.Error("the context did not end")
		}
	})
}
