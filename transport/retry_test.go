package transport_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resilient-go/resilient/config"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// calm is a breaker that never opens.
var calm = config.Config{Breaker: config.Breaker{MinRequests: 1e6, ConsecutiveFailures: config.Off}}

func statuses(list string) config.Statuses {
	s, err := config.ParseStatuses(list)
	if err != nil {
		panic(err)
	}
	return s
}

// attempts is a policy of up to n attempts with pauses of 100, 200, 400 ms and so on, and no budget.
func attempts(n int) transport.RetryPolicy {
	return transport.RetryPolicy{
		MaxAttempts: n, Statuses: statuses("502-504"), BaseDelay: 100 * ms, MaxDelay: sec, MaxElapsed: 5 * sec, MaxRetryAfter: 30 * sec,
	}
}

// newRetry returns a Retry that always waits the longest.
func newRetry(p transport.RetryPolicy) *transport.Retry {
	r := transport.NewRetry("sber", p)
	r.SetJitter(func(most time.Duration) time.Duration { return most })
	return r
}

// retry is r's whole chain within a Retry of policy p.
func (r *rig) retry(p transport.RetryPolicy) http.RoundTripper { return newRetry(p).Wrap(r.all()) }

// events notes what a Retry tells.
type events struct {
	mu   sync.Mutex
	list []string
}

func eventsOf(r *transport.Retry) *events {
	e := &events{}
	r.OnEvent(func(ev transport.RetryEvent) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.list = append(e.list, fmt.Sprintf("%d %s %v", ev.Attempt, ev.Outcome, ev.Wait))
	})
	return e
}

func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.list, ", ")
}

// Which requests are repeated, after what.
func TestRetryWhat(t *testing.T) {
	put := attempts(2)
	put.PutDelete = true
	more := attempts(2)
	more.Statuses = statuses("408,425,429,500-599")
	everything := attempts(2)
	everything.Statuses = statuses("100-599")
	type row struct {
		name, method, key, body string // body: none, text, stream
		fail                    string // a status, or abort, dial
		policy                  transport.RetryPolicy
		http1, http2            bool // repeated
	}
	rows := []row{
		{"POST", "POST", "", "text", "503", put, false, false},
		{"POST", "POST", "", "text", "abort", put, false, false},
		{"POST, no connection", "POST", "", "text", "dial", attempts(2), true, false}, // over HTTP/2 net/http may have repeated it
		{"POST of nothing, no connection", "POST", "", "none", "dial", attempts(2), true, false},
		{"POST of a stream, no connection", "POST", "", "stream", "dial", attempts(2), false, false},
		{"POST with a key", "POST", "Idempotency-Key", "text", "503", attempts(2), true, true},
		{"POST with a key, broken off", "POST", "X-Idempotency-Key", "text", "abort", attempts(2), true, true},
		{"POST of a stream with a key", "POST", "Idempotency-Key", "stream", "503", attempts(2), false, false},
		{"PATCH with a key", "PATCH", "Idempotency-Key", "text", "502", attempts(2), true, true},
		{"PUT", "PUT", "", "text", "503", attempts(2), false, false},
		{"PUT by choice", "PUT", "", "text", "503", put, true, true},
		{"DELETE", "DELETE", "", "none", "abort", attempts(2), false, false},
		{"DELETE by choice", "DELETE", "", "none", "abort", put, true, true},
		{"PATCH", "PATCH", "", "text", "503", put, false, false},
		{"unknown method", "BREW", "", "none", "503", put, false, false},
		{"get", "get", "", "none", "503", put, false, false}, // methods are case-sensitive
		{"GET with a stream", "GET", "", "stream", "503", attempts(2), false, false},
		{"GET with a body", "GET", "", "text", "503", attempts(2), true, true},
		{"GET, abort", "GET", "", "none", "abort", attempts(2), true, true},
		{"GET, no connection", "GET", "", "none", "dial", attempts(2), true, true},
		{"off", "GET", "", "none", "503", attempts(1), false, false},
		{"zero", "GET", "", "none", "503", transport.RetryPolicy{}, false, false},
	}
	for _, method := range []string{"", "GET", "HEAD", "OPTIONS", "TRACE"} {
		rows = append(rows, row{"method " + method, method, "", "none", "503", attempts(2), true, true})
	}
	for status, byChoice := range map[string]bool{
		"200": false, "204": false, "301": false, "304": false, "400": false, "401": false, "404": false, "409": false,
		"408": true, "425": true, "429": true, "500": true, "501": true,
	} {
		rows = append(rows, row{"status " + status, "GET", "", "none", status, attempts(2), false, false},
			row{"chosen " + status, "GET", "", "none", status, more, byChoice, byChoice})
	}
	for _, status := range []string{"200", "204", "301", "307", "399"} {
		rows = append(rows, row{"everything, " + status, "GET", "", "none", status, everything, false, false})
	}
	for _, status := range []string{"502", "503", "504"} {
		rows = append(rows, row{"status " + status, "GET", "", "none", status, attempts(2), true, true})
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			inBoth(t, calm, func(r *rig) {
				n, dials := 1, 0
				if r.server.TLS() == nil && row.http1 || r.server.TLS() != nil && row.http2 {
					n = 2
				}
				var code int
				switch fmt.Sscan(row.fail, &code); row.fail {
				case "abort":
					r.server.Next(testserver.Abort())
				case "dial":
					r.dial(func(ctx context.Context, network, addr string) (c net.Conn, err error) {
						if dials++; dials == 1 {
							return refuse(ctx, network, addr)
						}
						return r.server.Dial(ctx, network, addr)
					})
				default:
					r.server.Next(testserver.Status(code))
				}
				body := map[string]func() io.Reader{
					"none": func() io.Reader { return nil }, "text": func() io.Reader { return strings.NewReader("pay") }, "stream": hidden("pay"),
				}[row.body]()
				req := r.request(r.Context(), "GET", body)
				req.Method = row.method
				if row.key != "" {
					req.Header.Set(row.key, "1")
				}
				resp, err := r.retry(row.policy).RoundTrip(req)
				if err == nil {
					_, err = read(resp, nil)
				}
				got := r.server.Stats().Requests
				if row.fail == "dial" {
					got = dials
				}
				if got != n {
					r.Errorf("%d attempts, want %d: %v", got, n, err)
				}
				if n == 2 && (err != nil || resp.StatusCode != 200) {
					r.Errorf("%v, %v", resp, err)
				}
				if s := r.server.Stats(); row.body == "text" && s.Bodies != s.Requests {
					r.Errorf("%d bodies of %d requests", s.Bodies, s.Requests)
				}
			})
		})
	}
}

// What a caller sees of a call that needed three attempts is what it would see
// of one, and its request is unchanged.
func TestRetryIsUnseen(t *testing.T) {
	inBoth(t, calm, func(r *rig) {
		want, wantErr := r.tell(r.all(), "GET")
		for _, header := range []string{"", "X-Deadline-Ms"} {
			p := attempts(3)
			p.DeadlineHeader = header
			r.server.Next(testserver.Status(503, "Set-Cookie", "a=b"), testserver.Abort())
			if got, err := r.tell(r.retry(p), "GET"); got != want || err != wantErr {
				r.Errorf("%s, %v; want %s, %v", got, err, want, wantErr)
			}
		}
		r.server.Default(testserver.Echo())
		r.server.Next(testserver.Status(502), testserver.Status(503))
		ctx, cancel := context.WithTimeout(r.Context(), 10*sec)
		defer cancel()
		req := r.request(ctx, "POST", strings.NewReader("pay"))
		req.Header.Set("Idempotency-Key", "7")
		before, body := *req, req.Body
		p := attempts(3)
		p.DeadlineHeader = "X-Deadline-Ms"
		resp, err := r.retry(p).RoundTrip(req)
		if err != nil || resp.Request != req && r.server.TLS() == nil { // over HTTP/2 net/http leaves a copy of its own there
			r.Fatal(resp, err)
		}
		if s, err := read(resp, nil); err != nil || !strings.Contains(s, `"Body":"pay"`) || !strings.Contains(s, `"Idempotency-Key":["7"]`) {
			r.Errorf("%s, %v", s, err)
		}
		if len(req.Header) != 1 || req.Body != body || req.Context() != ctx || req.ContentLength != before.ContentLength {
			r.Errorf("changed: %+v", req)
		}
	})
}

// The last answer is returned as it came, error or response, after the pauses.
func TestRetryReturnsTheLastAnswer(t *testing.T) {
	inBoth(t, calm, func(r *rig) {
		retry := newRetry(attempts(4))
		told := eventsOf(retry)
		r.server.Next(testserver.Abort(), testserver.Status(503), testserver.Status(502), testserver.Status(504, "X-Last", "yes"))
		var resp *http.Response
		var err error
		d := took(func() { resp, err = retry.Wrap(r.all()).RoundTrip(r.request(r.Context(), "GET", nil)) })
		if err != nil || resp.StatusCode != 504 || resp.Header.Get("X-Last") != "yes" {
			r.Fatal(resp, err)
		}
		r.held(1)
		if s, err := read(resp, nil); s != "Gateway Timeout" || err != nil {
			r.Errorf("%q, %v", s, err)
		}
		if d != 700*ms || told.String() != "2 failure 100ms, 3 failure 200ms, 4 failure 400ms" {
			r.Errorf("after %v: %v", d, told)
		}
		r.base.set(errDown)
		if _, err := r.get(r.Context(), r.retry(attempts(3))); err != errDown {
			r.Error(err)
		}
		if n := r.base.calls.Load(); n != 4+3 {
			r.Errorf("%d attempts", n)
		}
	})
}
