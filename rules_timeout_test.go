package resilient_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
)

// TO-1: connect < read < total, and each of them ends what it is for.
func TestRule_TO1(t *testing.T) {
	refused(t, resilient.Config{ConnectTimeout: 5 * time.Second}, "ConnectTimeout") // the default ReadTimeout
	refused(t, resilient.Config{ReadTimeout: 7 * time.Second}, "ReadTimeout")       // the default TotalTimeout
	refused(t, resilient.Config{ConnectTimeout: 9 * time.Second, ReadTimeout: 8 * time.Second, TotalTimeout: 7 * time.Second}, "ConnectTimeout ReadTimeout")
	for phase, row := range map[string]struct {
		server http.Handler
		opts   []resilient.Option
		after  time.Duration
	}{
		"connect": {opts: []resilient.Option{resilient.WithDialContext(testserver.BlackHole)}, after: time.Second},
		"read":    {server: testserver.HangBeforeHeaders(), after: 5 * time.Second},
		"total":   {server: testserver.Trickle(1, time.Second, -1), after: 7 * time.Second},
	} {
		t.Run(phase, func(t *testing.T) {
			inOne(t, setting{server: testserver.Options{Handler: row.server}, opts: row.opts}, func(r *rig) {
				if d := took(func() {
					_, err := r.get(r.Context())
					r.timeout(err, phase)
				}); d != row.after {
					r.Errorf("after %v, want %v", d, row.after)
				}
			})
		})
	}
}

// TO-X1, TO-X2, TO-X3: they are always on, and none is longer than makes sense: a silence of 60 s at most.
func TestRule_TOX1_TOX2_TOX3(t *testing.T) {
	full, err := resilient.Config{}.Complete()
	if err != nil || full.ConnectTimeout <= 0 || full.ReadTimeout <= 0 || full.TotalTimeout <= 0 {
		t.Errorf("the zero Config has no bounds: %+v, %v", full, err)
	}
	for _, none := range []time.Duration{resilient.Unbounded, -time.Second, 1<<63 - 1} {
		refused(t, resilient.Config{ConnectTimeout: none}, "ConnectTimeout")
		refused(t, resilient.Config{ReadTimeout: none}, "ReadTimeout")
		refused(t, resilient.Config{TotalTimeout: none}, "TotalTimeout")
	}
	refused(t, resilient.Config{ReadTimeout: 60*time.Second + 1, TotalTimeout: 2 * time.Minute}, "ReadTimeout")
	for _, variable := range []string{"CONNECT_TIMEOUT", "READ_TIMEOUT", "TOTAL_TIMEOUT"} {
		t.Setenv(config.EnvPrefix("sber")+variable, "0s")
		if _, err := resilient.FromEnv("sber"); err == nil {
			t.Errorf("%s=0s is taken", variable)
		}
		t.Setenv(config.EnvPrefix("sber")+variable, "")
	}
	// Code may lift them for one request. The connect bound stays.
	dial := testserver.BlackHole
	through := resilient.WithDialContext(func(ctx context.Context, network, addr string) (net.Conn, error) { return dial(ctx, network, addr) })
	inOne(t, setting{server: testserver.Options{Handler: testserver.Trickle(1, time.Minute, 10)}, opts: []resilient.Option{through}}, func(r *rig) {
		lifted := resilient.WithBounds(r.Context(), resilient.Bounds{Total: resilient.Unbounded, Read: resilient.Unbounded})
		_, err := r.get(lifted)
		r.timeout(err, "connect")
		dial = r.server.Dial
		if body, err := r.get(lifted); len(body) != 10 || err != nil {
			r.Errorf("a stream: %q, %v", body, err)
		}
		_, err = r.get(r.Context())
		r.timeout(err, "read")
	})
}

// TO-3: what remains of the caller's time is respected, less a margin in which the caller can still answer.
func TestRule_TO3(t *testing.T) {
	inBoth(t, setting{server: testserver.Options{Handler: testserver.Trickle(1, 200*time.Millisecond, -1)}}, func(r *rig) {
		for _, row := range []struct{ remains, want time.Duration }{
			{2 * time.Second, 1900 * time.Millisecond}, // less 100 ms
			{500 * time.Millisecond, 450 * time.Millisecond},
			{time.Minute, 7 * time.Second}, // the total is less
		} {
			ctx, cancel := context.WithTimeout(r.Context(), row.remains)
			if d := took(func() {
				_, err := r.get(ctx)
				if row.want == 7*time.Second {
					r.timeout(err, "total")
				} else {
					r.timeout(err, "deadline")
				}
			}); d != row.want {
				r.Errorf("with %v left: after %v, want %v", row.remains, d, row.want)
			}
			cancel()
		}
		r.outcomes(map[string]float64{"cancelled": 2, "timeout": 1})
		// Execute does so for all that its func does.
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if d := took(func() {
			resilient.Execute(ctx, r.Client, func(ctx context.Context) (int64, error) {
				resp, err := r.Do(r.request(ctx, "GET", nil))
				if err != nil {
					return 0, err
				}
				defer resp.Body.Close()
				return io.Copy(io.Discard, resp.Body)
			})
		}); d != 1900*time.Millisecond {
			r.Errorf("Execute with 2 s left: after %v", d)
		}
	})
}
