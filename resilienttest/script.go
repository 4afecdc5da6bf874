package resilienttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/resilient-go/resilient/internal/testserver"
)

// A Script says what requests get, from now on; those that the partner is at
// work on are not touched. A Partner has one for all requests: p.Hang(). Next and
// On have others: p.Next(1).Fail(503), p.On("/health").Hang().
//
// Each of its methods reads the request's body first.
type Script struct {
	partner *Partner
	set     func(http.Handler)
}

// Next is the script of the next n requests, whatever their path. Said twice, one
// goes behind the other: p.Next(2).Fail(503), then p.Next(1).Reset().
func (p *Partner) Next(n int) Script {
	return Script{p, func(h http.Handler) {
		for range n {
			p.server.Next(p.record(h))
		}
	}}
}

// On is the script of the requests for a path, "/health", before that for all.
func (p *Partner) On(path string) Script {
	return Script{p, func(h http.Handler) {
		p.keep(func() { p.paths[path] = h })
		p.server.On(path, p.record(h))
	}}
}

// Reply has requests answered with a status and a body, and with headers given
// as key, value, key, value. It panics if code is not from 200 to 999.
func (s Script) Reply(code int, body string, header ...string) { s.set(reply(code, body, header)) }

// ReplyJSON has requests answered with v as JSON, and so declared, which
// generated clients ask for. It panics if v can't be made into JSON.
func (s Script) ReplyJSON(code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("resilienttest: ReplyJSON: %v", err))
	}
	s.Reply(code, string(body), "Content-Type", "application/json")
}

// Fail has requests answered with a status, its text, and headers:
// p.Fail(503, "Retry-After", "7").
func (s Script) Fail(code int, header ...string) { s.Reply(code, http.StatusText(code), header...) }

// ReplyAfter has requests answered as Reply does, after d.
func (s Script) ReplyAfter(d time.Duration, code int, body string, header ...string) {
	s.set(testserver.After(d, reply(code, body, header)))
}

// Hang has requests answered with nothing at all, until the caller gives up.
// Release ends it sooner.
func (s Script) Hang() { s.set(hang{s.partner}) }

// Stall has requests answered with 200 and the first byte of a body, and then
// nothing more, until the caller gives up. Release ends the body.
func (s Script) Stall() { s.set(http.HandlerFunc(stall)) }

// Cut has requests answered with 200 and one byte of a body of 100, where the
// connection breaks.
func (s Script) Cut() { s.set(testserver.CutInBody(1, 100)) }

// Reset has the connections of requests reset (RST), without an answer.
func (s Script) Reset() { s.set(testserver.Reset()) }

// Do has requests answered by h. The end of the test waits for h, so it should
// heed its request's context. It reads the body, or does not, as it likes.
func (s Script) Do(h http.Handler) {
	if h == nil {
		panic("resilienttest: Do: nil")
	}
	s.set(h)
}

// Release has the requests that have come and hang go on: they are answered as
// those that come now to their path, or 200 where these hang too. A body that
// stalls ends.
func (p *Partner) Release() {
	p.keep(func() {
		close(p.release)
		p.release = make(chan struct{})
	})
}

// hang is the handler of Hang.
type hang struct{ partner *Partner }

func (h hang) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := drain(r)
	await(r)
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.partner.now(r.URL.Path).ServeHTTP(w, r)
}

func stall(w http.ResponseWriter, r *http.Request) {
	drain(r)
	_, _ = io.WriteString(w, "b")
	if http.NewResponseController(w).Flush() != nil {
		panic(http.ErrAbortHandler)
	}
	await(r)
}

// releaseKey is that of a request's release, in its context: the channel that
// there was when the request came. One that has come, as Await says, but is a
// moment away from its await, is not forgotten by Release.
type releaseKey struct{}

// await waits for the release of r. A caller that goes, or the partner's end, ends the handler.
func await(r *http.Request) {
	select {
	case <-r.Context().Value(releaseKey{}).(chan struct{}):
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	}
}

// drain reads r's body; before that, HTTP/1 does not notice a caller that goes.
func drain(r *http.Request) []byte {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return body
}

// now returns what a request for a path gets now that does not hang.
func (p *Partner) now(path string) http.Handler {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, scripted := p.paths[path]
	if !scripted {
		h = p.all
	}
	if _, hangs := h.(hang); hangs {
		return ok
	}
	return h
}

// keep changes what p knows.
func (p *Partner) keep(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// ok is what a Partner does until it is told.
var ok = reply(http.StatusOK, "ok", nil)

func reply(code int, body string, header []string) http.Handler {
	if code < 200 || code > 999 {
		panic(fmt.Sprintf("resilienttest: an answer has a status from 200 to 999, not %d", code))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Add(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body) // refused where code has no body, or the caller has gone
	})
}

// record keeps what h is asked.
func (p *Partner) record(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &Request{Method: r.Method, URI: r.RequestURI, Header: r.Header.Clone()}
		p.keep(func() {
			r = r.WithContext(context.WithValue(r.Context(), releaseKey{}, p.release))
			p.seen = append(p.seen, seen)
			close(p.arrived)
			p.arrived = make(chan struct{})
		})
		if r.Body != http.NoBody {
			r.Body = &recorded{r.Body, &p.mu, seen}
		}
		h.ServeHTTP(w, r)
	})
}

// recorded is a request's body that is kept as it is read.
type recorded struct {
	io.ReadCloser
	mu   *sync.Mutex
	seen *Request
}

func (b *recorded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen.Body += string(p[:n])
	return n, err
}
