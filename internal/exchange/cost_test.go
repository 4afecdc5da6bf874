package exchange_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	. "github.com/resilient-go/resilient/internal/exchange"
)

// reader is a body that costs nothing.
type reader struct{ left int }

func (r *reader) Close() error { return nil }
func (r *reader) Read(p []byte) (int, error) {
	if r.left--; r.left < 0 {
		return 0, io.EOF
	}
	return copy(p, "x"), nil
}

// A request costs one allocation, whatever the number of layers, up to what fits
// one exchange; a context of its own costs its channel, and what watches the
// caller's and what the transport hangs below it cost what package context does.
func TestAllocations(t *testing.T) {
	plain := func() *Layer {
		return &Layer{Begin: func(_ *Exchange, h *Hold) error { h.Token = h; return nil }, End: func(*Exchange, *Hold, Outcome) {}}
	}
	interrupts := plain()
	interrupts.Interrupts, interrupts.Uploads = true, true
	cancellable, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		layers []*Layer
		extra  float64
	}{
		"a layer":                               {context.Background(), []*Layer{plain()}, 1},
		"four layers":                           {context.Background(), []*Layer{plain(), plain(), plain(), plain()}, 1},
		"five layers":                           {context.Background(), []*Layer{plain(), plain(), plain(), plain(), plain()}, 2},
		"four, with a context":                  {context.Background(), []*Layer{plain(), plain(), plain(), interrupts}, 2},
		"four, below a cancellable one":         {cancellable, []*Layer{plain(), plain(), plain(), plain()}, 1 + 3},
		"four, with a context that has a child": {context.WithValue(context.Background(), key{}, true), []*Layer{plain(), plain(), plain(), interrupts}, 2 + 4},
		"four, with a context, and cancellable": {cancellable, []*Layer{plain(), plain(), plain(), interrupts}, 2 + 3},
	} {
		t.Run(name, func(t *testing.T) {
			resp, b := &http.Response{StatusCode: 200, ProtoMajor: 1}, &reader{}
			var r http.RoundTripper = trip(func(req *http.Request) (*http.Response, error) {
				if req.Context().Value(key{}) != nil { // as http.Transport does
					_, cancel := context.WithCancel(req.Context())
					defer cancel()
				}
				resp.Body, b.left = b, 3
				return resp, nil
			})
			for _, l := range c.layers {
				r = l.Wrap(r)
			}
			req := request(c.ctx)
			p := make([]byte, 1)
			got := testing.AllocsPerRun(100, func() {
				resp, err := r.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				for err == nil {
					_, err = resp.Body.Read(p)
				}
				resp.Body.Close()
			})
			if got > c.extra {
				t.Errorf("%v allocations, want at most %v", got, c.extra)
			}
		})
	}
}
