package resilient_test

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
)

// bodyOf answers with n bytes, whose length it declares or not, and with a status.
func bodyOf(n int, declared bool, status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if declared {
			w.Header().Set("Content-Length", strconv.Itoa(n))
		}
		w.WriteHeader(status)
		left := n
		for ; left > 100; left -= 100 {
			io.WriteString(w, strings.Repeat("b", 100))
			_ = http.NewResponseController(w).Flush()
		}
		io.WriteString(w, strings.Repeat("b", left))
	})
}

// most is cfg with a bound on the body.
func most(n int64, cfg resilient.Config) resilient.Config {
	cfg.MaxResponseBytes = n
	return cfg
}

// tooLarge checks an error, and that nothing of its exchange is left.
func (r *rig) tooLarge(err error, limit int64) {
	r.Helper()
	r.tells(err, told{is: []error{resilient.ErrTooLarge}, status: 502})
	if e, ok := errors.AsType[*resilient.TooLargeError](err); !ok || e.System != "sber" || e.Limit != limit || !strings.Contains(err.Error(), "raise MaxResponseBytes") {
		r.Errorf("%#v", err)
	}
	r.held(0)
}

// A body of exactly the bound is read as ever. One above it ends with the error, at the bound, or at once where its
// length was declared; then all is given back although nobody closes it, and over HTTP/1 its connection is closed.
func TestTooLarge(t *testing.T) {
	for _, declared := range []bool{false, true} {
		inBoth(t, setting{cfg: most(1000, trips(2, permits(1)))}, func(r *rig) {
			for range 2 {
				r.server.Next(bodyOf(1000, declared, 200))
				if body, err := r.get(r.Context()); err != nil || len(body) != 1000 {
					r.Errorf("%d bytes, %v", len(body), err)
				}
			}
			conns := r.server.Stats().Conns
			for range 3 {
				r.server.Next(bodyOf(100_000, declared, 200))
				resp := r.send(r.Context(), "/")
				body, err := io.ReadAll(resp.Body)
				if want := map[bool]int{false: 1000}[declared]; resp.StatusCode != 200 || len(body) != want {
					r.Errorf("%d bytes, want %d", len(body), want)
				}
				r.tooLarge(err, 1000)
				if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, resilient.ErrTooLarge) {
					r.Errorf("read again: %d, %v", n, err)
				}
				r.works()
				if err := resp.Body.Close(); err != nil {
					r.Error(err)
				}
			}
			r.outcomes(map[string]float64{"success": 5, "transport_error": 3})
			r.breaker("closed")
			if n := r.server.Stats().Conns - conns; n != map[string]int{"http1": 3, "http2": 0}[string(r.State().Config.Protocol)] {
				r.Errorf("%d connections more", n)
			}
		})
	}
}

// The breaker judges such an exchange by its status, so that a system which sends too much is no system that is down,
// and no probe decides nothing for ever. A classifier is not asked about it.
func TestTooLargeVerdict(t *testing.T) {
	asked := 0
	classify := resilient.WithClassifier(func(resp *http.Response, _ error) resilient.Verdict {
		asked++
		if resp != nil && resp.StatusCode < 500 {
			return resilient.Success
		}
		return resilient.Failure
	})
	for name, opts := range map[string][]resilient.Option{"": nil, "classifier": {classify}} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, setting{cfg: most(10, trips(2, permits(1))), opts: opts}, func(r *rig) {
				r.halfOpen()
				r.server.Default(bodyOf(1000, false, 200))
				asked = 0
				_, err := r.get(r.Context())
				r.tooLarge(err, 10)
				r.breaker("closed")
				if name != "" && asked != 1 {
					r.Errorf("asked %d times", asked)
				}
				r.server.Default(bodyOf(1000, false, 500))
				for range 2 {
					_, err := r.get(r.Context())
					r.tooLarge(err, 10)
				}
				r.breaker("open")
			})
		})
	}
}

// What is compressed counts as the caller reads it: a small answer may be a large one.
func TestTooLargeCompressed(t *testing.T) {
	inBoth(t, setting{cfg: most(1<<20, permits(1)), server: testserver.Options{Handler: testserver.Gzip(strings.Repeat("0", 10<<20))}}, func(r *rig) {
		body, err := r.get(r.Context())
		if len(body) != 1<<20 {
			r.Errorf("%d bytes", len(body))
		}
		r.tooLarge(err, 1<<20)
	})
}

// A request has the bound of its client, or of its own; a stream has none unless it asks for one. Off is no bound.
func TestTooLargeBounds(t *testing.T) {
	streams := resilient.WithStreams(func(req *http.Request) bool { return req.URL.Path == "/stream" })
	inBoth(t, setting{cfg: most(10, permits(1)), opts: []resilient.Option{streams}}, func(r *rig) {
		r.server.Default(bodyOf(1000, false, 200))
		for _, row := range []struct {
			bounds resilient.Bounds
			path   string
			limit  int64
		}{
			{resilient.Bounds{}, "/", 10},
			{resilient.Bounds{Total: time.Minute, Read: resilient.Unbounded}, "/", 10},
			{resilient.Bounds{MaxBytes: 20}, "/", 20},
			{resilient.Bounds{MaxBytes: 5}, "/", 5},
			{resilient.Bounds{MaxBytes: 1000}, "/", 0},
			{resilient.Bounds{MaxBytes: resilient.Unbounded}, "/", 0},
			{resilient.Bounds{Total: resilient.Unbounded}, "/", 0},
			{resilient.Bounds{Total: resilient.Unbounded, MaxBytes: 20}, "/", 20},
			{resilient.Bounds{}, "/stream", 0},
		} {
			resp := r.send(resilient.WithBounds(r.Context(), row.bounds), row.path)
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch {
			case row.limit != 0 && int64(len(body)) == row.limit:
				r.tooLarge(err, row.limit)
			case row.limit != 0 || err != nil || len(body) != 1000:
				r.Errorf("%+v: %d bytes, %v", row, len(body), err)
			}
		}
		r.change(func(cfg *resilient.Config) { cfg.MaxResponseBytes = 0 })
		if body, err := r.get(r.Context()); err != nil || len(body) != 1000 {
			r.Errorf("off: %d bytes, %v", len(body), err)
		}
		r.change(func(cfg *resilient.Config) { cfg.MaxResponseBytes = 30 })
		_, err := r.get(r.Context())
		r.tooLarge(err, 30)
	})
}

// What says how long a body would be, and has none, is not too large; an upgraded connection is no body.
func TestNotTooLarge(t *testing.T) {
	inBoth(t, setting{cfg: most(1, permits(1)), server: testserver.Options{Handler: bodyOf(1000, true, 200)}}, func(r *rig) {
		req := r.request(r.Context(), "HEAD", nil)
		resp, err := r.RoundTrip(req)
		if err != nil || resp.ContentLength != 1000 {
			r.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			r.Error(err)
		}
		resp.Body.Close()
	})
	inOne(t, setting{cfg: most(1, permits(1)), server: testserver.Options{Handler: testserver.Upgrade()}}, func(r *rig) {
		resp, err := r.RoundTrip(r.upgrade(r.Context()))
		if err != nil {
			r.Fatal(err)
		}
		defer resp.Body.Close()
		io.WriteString(resp.Body.(io.Writer), "hello")
		if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
			r.Error(err)
		}
	})
}

// The answer has come, so it is not asked for again; an execution hands the error on.
func TestTooLargeElsewhere(t *testing.T) {
	cfg := most(10, permits(1))
	cfg.Retry.MaxAttempts = 3
	inBoth(t, setting{cfg: cfg, server: testserver.Options{Handler: bodyOf(1000, true, 200)}}, func(r *rig) {
		_, err := r.get(r.Context())
		r.tooLarge(err, 10)
		if n := r.server.Stats().Requests; n != 1 {
			r.Errorf("%d requests", n)
		}
		_, err = resilient.Execute(r.Context(), r.Client, r.get)
		r.tooLarge(err, 10)
		if m := r.metrics(); m["executions_total error"] != 1 {
			r.Error(m["executions_total error"])
		}
	})
}
