package transport_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/semaphore"
	"github.com/resilient-go/resilient/transport"
)

const year = 365 * 24 * time.Hour

var retryAfterCases = []struct {
	text, date string
	want       time.Duration
}{
	{"", "", 0}, {"0", "", 0}, {"1", "", sec}, {" 120 ", "", 2 * time.Minute}, {"007", "", 7 * sec},
	{"-1", "", 0}, {"+1", "", 0}, {"1.5", "", 0}, {"1s", "", 0}, {"0x10", "", 0}, {"1_0", "", 0}, {"1e3", "", 0}, {"soon", "", 0}, {"1, 2", "", 0}, {"١", "", 0},
	{"31536000", "", year}, {"31536001", "", year}, {"9223372036854775807", "", year}, {"9223372036", "", year},
	{"18446744073709551615", "", year}, {"18446744073709551616", "", year}, {strings.Repeat("9", 1000), "", year},

	// The clock of the test is at noon, that of the system where its Date says.
	{"Thu, 01 Jan 2026 12:00:05 GMT", "", 5 * sec},
	{"Thursday, 01-Jan-26 12:00:05 GMT", "", 5 * sec},
	{"Thu Jan  1 12:00:05 2026", "", 5 * sec},
	{"Thu, 01 Jan 2026 12:00:00 GMT", "", 0},
	{"Thu, 01 Jan 2026 11:59:59 GMT", "", 0},
	{"Thu, 01 Jan 1970 00:00:00 GMT", "", 0},
	{"Fri, 31 Dec 9999 23:59:59 GMT", "", year},
	{"Mon, 01 Jan 0001 00:00:00 GMT", "", 0},
	{"Thu, 01 Jan 2026 12:00:05 UTC", "", 0},
	{"Thu, 32 Jan 2026 12:00:05 GMT", "", 0},
	{"Thu, 01 Jan 2026 15:00:05 GMT", "Thu, 01 Jan 2026 15:00:00 GMT", 5 * sec},
	{"Thu, 01 Jan 2026 09:00:05 GMT", "Thu, 01 Jan 2026 09:00:00 GMT", 5 * sec},
	{"Thu, 01 Jan 2026 12:00:05 GMT", "yesterday", 5 * sec},
	{"5", "Thu, 01 Jan 1970 00:00:00 GMT", 5 * sec},
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	for _, c := range retryAfterCases {
		h := http.Header{"Retry-After": {c.text}}
		if c.date != "" {
			h.Set("Date", c.date)
		}
		if got := transport.RetryAfter(h, noon); got != c.want {
			t.Errorf("%q seen from %q: %v, want %v", c.text, c.date, got, c.want)
		}
	}
	if got := transport.RetryAfter(nil, noon); got != 0 {
		t.Error(got)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, c := range retryAfterCases {
		f.Add(c.text, c.date)
	}
	f.Fuzz(func(t *testing.T, text, date string) {
		if d := transport.RetryAfter(http.Header{"Retry-After": {text}, "Date": {date}}, noon); d < 0 || d > year {
			t.Errorf("%v", d)
		}
	})
}

// A Retry-After pauses the client for everybody, whoever heard it, to its end and
// a random part of a tenth more; then all is as before.
func TestGate(t *testing.T) {
	for name, row := range map[string]struct {
		server http.Handler
		gate   bool
		pause  time.Duration // without the random part
	}{
		"503":            {testserver.Status(503, "Retry-After", "2"), true, 2 * sec},
		"429":            {testserver.Status(429, "Retry-After", "2"), true, 2 * sec},
		"a date":         {testserver.Status(503, "Retry-After", "Sat, 01 Jan 2000 00:00:02 GMT"), true, 2 * sec},
		"no body":        {empty(503, "Retry-After", "2"), true, 2 * sec},
		"off":            {testserver.Status(503, "Retry-After", "2"), false, 0},
		"capped":         {testserver.Status(503, "Retry-After", "86400"), true, 30 * sec},
		"none":           {testserver.Status(503), true, 0},
		"nothing":        {testserver.Status(503, "Retry-After", "0"), true, 0},
		"past":           {testserver.Status(503, "Retry-After", "-7"), true, 0},
		"another status": {testserver.Status(500, "Retry-After", "2"), true, 0},
		"a success":      {testserver.Status(202, "Retry-After", "2"), true, 0},
		"a redirect":     {testserver.Status(301, "Retry-After", "2"), true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, calm, func(r *rig) {
				p := attempts(1) // a gate needs no retries
				p.Gate = row.gate
				retry := newRetry(p)
				told := eventsOf(retry)
				rt := retry.Wrap(r.all())
				r.server.Next(row.server)
				if _, err := read(rt.RoundTrip(r.request(r.Context(), "POST", strings.NewReader("pay")))); err != nil {
					r.Fatal(err) // its own answer is the caller's
				}
				shut := row.pause + row.pause/10
				for at := time.Duration(0); at < shut; at += shut / 4 {
					bodies := &bodies{}
					_, err := read(rt.RoundTrip(bodies.request(r, r.Context())))
					paused, ok := errors.AsType[*transport.PausedError](err)
					if !ok || paused.RetryAfter != shut-at || paused.System != "sber" || !errors.Is(err, semaphore.ErrUnavailable) || !transport.NotSent(err) {
						r.Fatalf("after %v: %v", at, err)
					}
					bodies.check(r, 1)
					time.Sleep(shut / 4)
				}
				before := r.base.calls.Load()
				if _, err := r.get(r.Context(), rt); err != nil || before != 1 || r.base.calls.Load() != 2 {
					r.Errorf("%d exchanges, %v", r.base.calls.Load(), err)
				}
				if n := strings.Count(told.String(), "1 paused 0s"); (n == 4) != (shut > 0) {
					r.Error(told)
				}
			})
		})
	}
}

// The longest pause counts, and a caller that has gone hears that.
func TestGateOverlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := attempts(1)
		p.Gate = true
		retry := newRetry(p)
		after := func(s string) http.RoundTripper {
			return retry.Wrap(fake(func(req *http.Request) (*http.Response, error) {
				resp := response(req, 429, strings.NewReader("slow down"))
				resp.Header.Set("Retry-After", s)
				time.Sleep(sec)
				return resp, nil
			}))
		}
		do := func(rt http.RoundTripper) error {
			_, err := read(rt.RoundTrip(newRequest(t, t.Context(), "GET", "http://sber.test/", nil)))
			return err
		}
		go do(after("10"))
		go do(after("3"))
		go do(after("20"))
		go do(after("1"))
		time.Sleep(sec)
		synctest.Wait()
		if paused, ok := errors.AsType[*transport.PausedError](do(after("1"))); !ok || paused.RetryAfter != 22*sec {
			t.Errorf("%v", paused)
		}
		time.Sleep(22 * sec)
		if err := do(after("1")); err != nil {
			t.Error(err)
		}
	})
}

// A retry waits until the gate is open again, and is refused if it is shut anew.
func TestGateAndRetry(t *testing.T) {
	inBoth(t, calm, func(r *rig) {
		p := attempts(3)
		p.Gate = true
		retry := newRetry(p)
		told := eventsOf(retry)
		rt := retry.Wrap(r.all())
		r.server.Next(testserver.Status(503, "Retry-After", "2"))
		var err error
		if d := took(func() { _, err = r.get(r.Context(), rt) }); err != nil || d != 2300*ms || told.String() != "2 success 2.3s" {
			r.Errorf("after %v: %v, %v", d, err, told)
		}
		r.server.Next(testserver.After(sec, testserver.Status(503)), testserver.After(sec+50*ms, testserver.Status(503, "Retry-After", "9")))
		go r.get(r.Context(), rt)
		time.Sleep(1)
		go r.get(r.Context(), rt)
		time.Sleep(3 * sec)
		if !strings.HasSuffix(told.String(), "2 refused 100ms") {
			r.Error(told)
		}
	})
}
