package exchange_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	. "github.com/resilient-go/resilient/internal/exchange"
)

// Whatever the pieces, the caller gets the body up to the limit, and the error only if there is more.
func TestLimit(t *testing.T) {
	errLarge := errors.New("too large")
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 50).Draw(t, "limit")
		size := rapid.IntRange(0, 100).Draw(t, "size")
		piece := rapid.IntRange(1, 100).Draw(t, "piece")
		declared := rapid.Bool().Draw(t, "declared")
		over := int64(size) > limit

		rest := strings.NewReader(strings.Repeat("b", size))
		f := newFake(func(p []byte) (int, error) { return rest.Read(p[:min(len(p), piece)]) })
		ended, fault := 0, error(nil)
		l := &Layer{
			Begin: func(*Exchange, *Hold) error { return nil },
			Limit: func(*Hold) *Limit { return &Limit{Max: limit, Err: errLarge} },
			End:   func(_ *Exchange, _ *Hold, how Outcome) { ended++; fault = how.Fault },
		}
		base := trip(func(req *http.Request) (*http.Response, error) {
			resp := reply(req, http.StatusOK, f)
			if declared {
				resp.ContentLength = int64(size)
			}
			return resp, nil
		})
		resp, err := l.Wrap(base).RoundTrip(request(context.Background()))
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		p := make([]byte, rapid.IntRange(1, 70).Draw(t, "buffer"))
		for err == nil {
			var n int
			n, err = resp.Body.Read(p)
			got = append(got, p[:n]...)
		}
		want, wantErr := min(int64(size), limit), io.EOF
		if over {
			wantErr = errLarge
		}
		if over && declared {
			want = 0
		}
		if int64(len(got)) != want || err != wantErr || ended != 1 || (fault != nil) != over {
			t.Fatalf("%d bytes, %v; want %d, %v; ended %d times, %v", len(got), err, want, wantErr, ended, fault)
		}
		if read := int64(size - rest.Len()); over && read > want+1 {
			t.Fatalf("%d bytes read below", read)
		}
		if f.closes == 0 {
			t.Fatal("the body was not closed")
		}
	})
}
