package transport_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// A system that stalls in its answer fails, though the caller's upload is open.
func TestStallBesideAnOpenUpload(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		r.server.Default(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			rc := http.NewResponseController(w)
			_ = rc.EnableFullDuplex()
			_, _ = io.WriteString(w, "abc")
			_ = rc.Flush()
			testserver.Sleep(req, time.Hour)
		}))
		got := r.verdict(func() {
			pr, pw := io.Pipe()
			_, err := read(r.all().RoundTrip(r.request(r.Context(), "POST", pr)))
			isTimeout(r.T, err, transport.PhaseRead, 5*sec)
			pw.Close()
		})
		if got != failure {
			r.Errorf("%s", got)
		}
	})
}

// A producer that fails, and a caller that cancels for that reason as an
// errgroup does, say nothing about the system.
func TestBadBodyThenCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testserver.Options{Memory: true}, oneProbe)
		base := fake(func(req *http.Request) (*http.Response, error) {
			_, err := io.Copy(io.Discard, req.Body)
			time.Sleep(2 * ms) // to break off
			return nil, err
		})
		got := r.verdict(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			body := readFunc(func([]byte) (int, error) {
				time.Sleep(4 * sec)
				time.AfterFunc(ms, cancel)
				return 0, errMine
			})
			_, _ = read(transport.Chain(base, r.breaker.Wrap, r.timeouts.Wrap).RoundTrip(r.request(ctx, "POST", body)))
		})
		if got != neutral {
			t.Error(got)
		}
	})
}

// An upload that moves is no silence, in however large pieces it is taken.
func TestSlowUploadInLargePieces(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		_ = get(r, r.all()) // the settings that say so have come
		r.server.Default(testserver.ReadSlowly(64<<10, sec, testserver.OK("ok")))
		_, err := read(r.all().RoundTrip(r.request(r.Context(), "POST", hidden(strings.Repeat("x", 8<<20))())))
		isTimeout(r.T, err, transport.PhaseTotal, 7*sec)
	})
}

// The total bounds an exchange whose upload has stalled in the caller's hands.
func TestStalledUploadIsBounded(t *testing.T) {
	inBoth(t, config.Config{}, func(r *rig) {
		pr, pw := io.Pipe()
		time.AfterFunc(time.Hour, func() { pw.Close() })
		d := took(func() { _, _ = read(r.all().RoundTrip(r.request(r.Context(), "POST", pr))) })
		if d > 7*sec {
			r.Errorf("after %v", d)
		}
	})
}

// What only HTTP/2 minds, and what net/http finds when it has a connection.
func TestInvalidForNetHTTP(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		for name, spoil := range map[string]func(*http.Request){
			"Connection":  func(req *http.Request) { req.Header["Connection"] = []string{"a", "b"} },
			"Upgrade":     func(req *http.Request) { req.Header["Upgrade"] = []string{"a", "b"} },
			"Trailer key": func(req *http.Request) { req.Trailer = http.Header{"Content-Length": nil} },
		} {
			if got := r.verdict(func() {
				req := r.request(r.Context(), "POST", hidden("x")())
				req.ContentLength = -1
				spoil(req)
				_, _ = read(r.all().RoundTrip(req))
			}); got == failure {
				r.Errorf("%s: %s", name, got)
			}
		}
	})
}

// That an upload is being taken is no sign of life: a hung system's kernel takes
// some of each. So a caller that gives up a long one counts, unless the transport
// was waiting for its body.
func TestCancelledUploadThatMoves(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		r.server.Default(testserver.ReadSlowly(64<<10, sec, testserver.OK("ok")))
		if got := r.verdict(func() {
			ctx, cancel := context.WithTimeout(r.Context(), 4*sec)
			defer cancel()
			_, _ = read(r.all().RoundTrip(r.request(ctx, "POST", hidden(strings.Repeat("x", 8<<20))())))
		}); got != failure {
			r.Error(got)
		}
	})
}
