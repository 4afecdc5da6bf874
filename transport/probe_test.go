package transport_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// bounded is get with other bounds; the body is left open until the client's own total is long over.
func bounded(b transport.Bounds, d deed) deed {
	return func(r *rig, rt http.RoundTripper) error {
		return d(r, fake(func(req *http.Request) (*http.Response, error) {
			return rt.RoundTrip(req.WithContext(transport.WithBounds(req.Context(), b)))
		}))
	}
}

// hold takes the response and keeps its body unread for d.
func hold(d time.Duration) deed {
	return func(r *rig, rt http.RoundTripper) error {
		resp, err := rt.RoundTrip(r.request(r.Context(), "GET", nil))
		if err == nil {
			time.AfterFunc(d, func() { resp.Body.Close() })
		}
		return err
	}
}

// Whatever becomes of a probe, its slot is free again within TotalTimeout, and
// a half-open breaker of one probe decides.
func TestNoProbeWedges(t *testing.T) {
	const u = transport.Unbounded
	lifted, long := transport.Bounds{Total: u, Read: u}, transport.Bounds{Total: time.Hour, Read: time.Hour}
	for name, row := range map[string]struct {
		server http.Handler
		do     deed
		want   string // once the probe has had its time
		only   int
	}{
		"hung":                       {testserver.HangBeforeHeaders(), get, failure, 0},
		"stalled":                    {testserver.StallInBody(1), get, failure, 0},
		"abandoned":                  {testserver.OK("ok"), hold(time.Minute), neutral, 0},
		"lifted, hung":               {testserver.HangBeforeHeaders(), bounded(lifted, cancelAfter(time.Minute, nil)), neutral, 0},
		"lifted, answered":           {testserver.StallInBody(1), bounded(lifted, hold(time.Minute)), success, 0},
		"lifted, failed":             {testserver.Status(500), bounded(lifted, hold(time.Minute)), failure, 0},
		"lifted, down":               {testserver.Abort(), bounded(lifted, get), failure, 0},
		"lifted, late":               {testserver.After(8*time.Second, testserver.OK("ok")), bounded(lifted, get), neutral, 0},
		"lifted, late and failed":    {testserver.After(8*time.Second, testserver.Status(500)), bounded(lifted, get), neutral, 0},
		"lifted, in time":            {testserver.After(7*time.Second-1, testserver.OK("ok")), bounded(lifted, get), success, 0},
		"lifted, cut later":          {testserver.CutInBody(1, 9), bounded(lifted, get), success, 0},
		"lifted, gone":               {testserver.HangBeforeHeaders(), bounded(lifted, cancelAfter(sec, nil)), neutral, 0},
		"read lifted, hung":          {testserver.HangBeforeHeaders(), bounded(transport.Bounds{Read: u}, get), failure, 0},
		"long, hung":                 {testserver.HangBeforeHeaders(), bounded(long, cancelAfter(time.Minute, nil)), neutral, 0},
		"long, answered":             {testserver.StallInBody(1), bounded(long, hold(time.Minute)), success, 0},
		"long total, silent":         {testserver.HangBeforeHeaders(), bounded(transport.Bounds{Total: time.Hour}, get), failure, 0},
		"short total":                {testserver.HangBeforeHeaders(), bounded(transport.Bounds{Total: time.Second}, get), failure, 0},
		"upgraded":                   {testserver.Upgrade(), upgradeAndHold, success, 1},
		"lifted, upgraded":           {testserver.Upgrade(), bounded(lifted, upgradeAndHold), success, 1},
		"lifted, invalid":            {testserver.OK("ok"), bounded(lifted, invalid), neutral, 0},
		"lifted, own upload, failed": {testserver.OK("ok"), bounded(lifted, post(9, hidden("x"))), neutral, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, oneProbe, func(r *rig) {
				if row.only == 1 && r.own.Protocols.HTTP2() {
					return
				}
				r.server.Default(row.server)
				r.halfOpen()
				go row.do(r, r.all())
				time.Sleep(7*time.Second + 1)
				want := map[string]string{success: "closed", failure: "open", neutral: "half_open"}[row.want]
				r.state(want)
				if row.want == failure {
					time.Sleep(r.cfg.Breaker.OpenFor)
				}
				r.server.Default(testserver.OK("ok"))
				if err := r.probe(); err != nil {
					r.Errorf("wedged: %v", err)
				}
				r.state("closed")
				time.Sleep(time.Hour)
				r.state("closed") // what the probe said later, if anything, is nobody's verdict
			})
		})
	}
}

func upgradeAndHold(r *rig, rt http.RoundTripper) error {
	req := r.request(r.Context(), "GET", nil)
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
	resp, err := rt.RoundTrip(req)
	if err == nil {
		time.AfterFunc(time.Minute, func() { resp.Body.Close() })
	}
	return err
}

// The same for bases that end otherwise than with an error, below a lifted total.
func TestNoStreamProbeWedges(t *testing.T) {
	for name, act := range acts {
		t.Run(name, func(t *testing.T) {
			inBoth(t, oneProbe, func(r *rig) {
				ctx := transport.WithBounds(r.Context(), transport.Bounds{Total: transport.Unbounded})
				r.halfOpen()
				if err := act.call(r.breaker.Wrap(act.base), r.request(ctx, "GET", nil)); err != nil {
					r.Error(err)
				}
				r.free(name)
			})
		})
	}
}

// A stream reports once: its end, long after its headers, counts for nothing.
func TestStreamReportsOnce(t *testing.T) {
	cfg := oneProbe
	cfg.Breaker.MinRequests, cfg.Breaker.ConsecutiveFailures = 1000, 2
	inBoth(t, cfg, func(r *rig) {
		ctx := transport.WithBounds(context.Background(), transport.Bounds{Total: transport.Unbounded, Read: transport.Unbounded})
		for range 5 { // a success each, although it is cut
			r.server.Next(testserver.CutInBody(1, 9))
			if _, err := r.get(ctx, r.all()); err == nil {
				r.Error("not cut")
			}
		}
		r.state("closed")
		r.server.Next(testserver.Status(500))
		_, _ = r.get(ctx, r.all())
		r.state("closed") // one failure, not two
		r.server.Next(testserver.Status(500))
		_, _ = r.get(ctx, r.all())
		r.state("open")
	})
}

// A long upload is no stream for the breaker: only a longer total makes one.
func TestBoundsOfTheOwnLengthReportAtTheEnd(t *testing.T) {
	inBoth(t, oneProbe, func(r *rig) {
		r.server.Default(testserver.CutInBody(1, 9))
		for _, b := range []transport.Bounds{{}, {Total: 7 * time.Second}, {Total: time.Second}, {Read: transport.Unbounded}} {
			got := r.verdict(func() {
				resp, err := r.all().RoundTrip(r.request(transport.WithBounds(r.Context(), b), "POST", strings.NewReader("x")))
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
				}
			})
			if got != failure {
				r.Errorf("%+v: %s", b, got)
			}
		}
	})
}

// A breaker without the bounds that would end its probes.
func TestBreakerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(t, oneFailure)
		_ = j.do("f")
		time.Sleep(30*time.Second + 1)
		if _, err := j.Wrap(answer(200)).RoundTrip(newRequest(t, context.Background(), "GET", "http://sber.test/", nil)); err != nil {
			t.Fatal(err) // and forgets the body
		}
		time.Sleep(time.Hour)
		if err := j.do("s"); err != nil {
			t.Error(err)
		}
	})
}
