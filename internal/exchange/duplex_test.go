package exchange_test

import (
	"io"
	"net/http"
	"testing"

	. "github.com/resilient-go/resilient/internal/exchange"
)

// An upload may go on although the answer is complete. The exchange is over, but
// its context, on which the transport sends, ends only with the upload.
func TestUploadGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		upload io.ReadCloser
		answer io.ReadCloser
		use    func(t *testing.T, r *rig, b io.ReadCloser)
		goesOn bool
	}{
		"read to its end":  {text("abc"), text("abc"), func(_ *testing.T, _ *rig, b io.ReadCloser) { io.Copy(io.Discard, b) }, true},
		"without a body":   {text("abc"), http.NoBody, func(*testing.T, *rig, io.ReadCloser) {}, true},
		"closed":           {text("abc"), text("abc"), func(_ *testing.T, _ *rig, b io.ReadCloser) { b.Close() }, false},
		"read and closed":  {text("abc"), text("abc"), func(_ *testing.T, _ *rig, b io.ReadCloser) { io.Copy(io.Discard, b); b.Close() }, false},
		"interrupted":      {text("abc"), text("abc"), func(_ *testing.T, r *rig, _ io.ReadCloser) { r.interrupt(Bound) }, false},
		"nothing to go on": {nil, text("abc"), func(_ *testing.T, _ *rig, b io.ReadCloser) { io.Copy(io.Discard, b) }, false},
		"cut": {text("abc"), newFake(func([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }),
			func(_ *testing.T, _ *rig, b io.ReadCloser) { b.Read(nil) }, false},
	} {
		bubble(t, name, func(t *testing.T) {
			var upload io.ReadCloser
			r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
				upload = req.Body
				return reply(req, 200, c.answer), nil
			}))
			req := request(t.Context())
			if c.upload != nil {
				req.Body, req.ContentLength = c.upload, -1
			}
			resp, _ := r.RoundTrip(req)
			c.use(t, r, resp.Body)
			r.settled()
			ctx := r.last().Context()
			if isDone(ctx) == c.goesOn {
				t.Errorf("the context has ended: %v", isDone(ctx))
			}
			if upload != nil {
				upload.Close()
			}
			if !isDone(ctx) {
				t.Error("the context has not ended")
			}
		})
	}
	bubble(t, "closed before the answer was", func(t *testing.T) {
		b := text("abc")
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			req.Body.Close()
			return reply(req, 200, b), nil
		}))
		resp, _ := r.RoundTrip(request(t.Context(), text("abc")))
		if isDone(r.last().Context()) {
			t.Error("the context ended with the upload")
		}
		io.Copy(io.Discard, resp.Body)
		if !isDone(r.last().Context()) {
			t.Error("the context did not end")
		}
	})
	bubble(t, "sent a second time", func(t *testing.T) {
		var again io.ReadCloser
		r := newRig(t, trip(func(req *http.Request) (*http.Response, error) {
			req.Body.Close()
			again, _ = req.GetBody()
			return reply(req, 200, nil), nil
		}))
		req := request(t.Context(), text("abc"))
		req.GetBody = func() (io.ReadCloser, error) { return text("abc"), nil }
		r.RoundTrip(req)
		r.ended(Outcome{})
		if isDone(r.last().Context()) {
			t.Error("the context has ended")
		}
		again.Close()
		if !isDone(r.last().Context()) {
			t.Error("the context has not ended")
		}
	})
}
