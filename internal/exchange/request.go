package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// An InvalidError says that a request can't be sent, whoever it is for.
type InvalidError struct{ Reason string }

func (e *InvalidError) Error() string { return "resilient: invalid request: " + e.Reason }

// check returns what makes req impossible to send, before anything is taken
// for it: a caller's mistake must not count against the system. What only
// some transports mind is left to them: one that is not net/http's (std) may
// complete a relative URL, or replay an answer to any. It says so in net/http's
// words, since programs look for those, but not with the value.
func check(req *http.Request, std bool) error {
	n := inMemory(req.Body)
	switch {
	case req.URL == nil:
		return &InvalidError{"nil Request.URL"}
	case req.Header == nil:
		return &InvalidError{"nil Request.Header"}
	case req.Method != "" && !token(req.Method):
		return &InvalidError{"invalid method"}
	case req.URL.Scheme == "" && std:
		return &InvalidError{`unsupported protocol scheme ""`}
	case req.URL.Scheme != "" && req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return nil // a protocol registered with the transport, perhaps
	case req.URL.Host == "" && std:
		return &InvalidError{"no Host in request URL"}
	case control(req.Host, false), control(req.URL.RawQuery, false), control(req.URL.Opaque, false):
		return &InvalidError{"can't write control character in Request.URL or its Host"}
	case n >= 0 && req.ContentLength > 0 && int64(n) != req.ContentLength:
		return &InvalidError{fmt.Sprintf("ContentLength=%d with Body length %d", req.ContentLength, n)}
	}
	for i, h := range [...]http.Header{req.Header, req.Trailer} {
		where := [...]string{"header", "trailer"}[i]
		for name, values := range h {
			switch {
			case i == 1 && notTrailers[http.CanonicalHeaderKey(name)]:
				return &InvalidError{fmt.Sprintf("invalid Trailer key %q", name)}
			case !token(name):
				return &InvalidError{"invalid " + where + " field name"} // not shown, since a whole line may have got into it
			case slices.ContainsFunc(values, func(v string) bool { return control(v, true) }):
				return &InvalidError{fmt.Sprintf("invalid %s field value for %q", where, name)} // which may be a secret
			}
		}
	}
	return nil
}

var notTrailers = map[string]bool{"Content-Length": true, "Transfer-Encoding": true, "Trailer": true}

func control(s string, tab bool) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && !(tab && r == '\t') || r == 0x7f })
}

// token reports whether s is one in the sense of RFC 9110, section 5.6.2.
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// smallBody is up to what size a body in memory is not watched: it is sent in
// one go, and a reader that net/http does not know costs it a write more.
const smallBody = 64 << 10

func watchable(body io.ReadCloser) bool {
	n := inMemory(body)
	return body != nil && body != http.NoBody && (n < 0 || n > smallBody)
}

var (
	nopCloser         = reflect.TypeOf(io.NopCloser(io.MultiReader()))
	nopCloserWriterTo = reflect.TypeOf(io.NopCloser(new(bytes.Buffer)))
)

// inMemory returns how much is left in body if it is one of the readers in
// memory that net/http knows too, bare or in an io.NopCloser, or -1.
func inMemory(body io.Reader) int {
	switch b := body.(type) {
	case *bytes.Reader:
		return b.Len()
	case *bytes.Buffer:
		return b.Len()
	case *strings.Reader:
		return b.Len()
	}
	if t := reflect.TypeOf(body); t == nopCloser || t == nopCloserWriterTo {
		inner, _ := reflect.TypeAssert[io.Reader](reflect.ValueOf(body).Field(0))
		return inMemory(inner)
	}
	return -1
}

var errBodyLength = errors.New("exchange: the request body is not as long as its ContentLength")

// An upload is a request body that tells its exchange of each piece taken, and of its own faults.
type upload struct {
	x      *Exchange
	body   io.ReadCloser
	n      int64
	length int64 // declared; the request may be the caller's again when this is still read
	closed bool  // by the transport: what it says from then on is no fault; guarded by x.mu
}

// watchUpload makes x.sent carry a watched body. x.sent is a copy: the caller's request stays as it is.
func (x *Exchange) watchUpload() {
	get, length := x.Request.GetBody, x.Request.ContentLength
	u := &upload{x: x, body: x.Request.Body, length: length}
	x.mu.Lock()
	x.upload = u
	x.mu.Unlock()
	x.sent.Body = u
	if get == nil {
		return
	}
	x.sent.GetBody = func() (io.ReadCloser, error) {
		b, err := get()
		u := &upload{x: x, body: b, length: length}
		u.taken(false, err)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.upload = u
		return u, err
	}
}

func (u *upload) Read(p []byte) (n int, err error) {
	const piece = 32 << 10 // HTTP/2 takes up to 512 KiB, which may take a slow link longer than the read bound
	u.x.mu.Lock()
	closed := u.closed
	u.x.mu.Unlock()
	if closed { // HTTP/2 reads once more: the body is the caller's again
		return 0, http.ErrBodyReadAfterClose
	}
	u.taken(true, nil)
	n, err = u.body.Read(p[:min(len(p), piece)])
	u.n += int64(n)
	fault := err
	switch {
	case u.length > 0 && (u.n > u.length || err == io.EOF && u.n < u.length):
		fault = errBodyLength
	case err == io.EOF:
		fault = nil
	}
	u.taken(false, fault)
	return n, err
}

// Close closes the body once: an interruption may be quicker than the transport.
func (u *upload) Close() error {
	u.x.mu.Lock()
	closed, released := u.closed, u.x.released
	u.closed = true
	u.x.mu.Unlock()
	if closed || u.body == nil {
		return nil
	}
	if released {
		defer u.x.cancel(context.Canceled)
	}
	return u.body.Close()
}

// taken says that the transport is in the caller's body, or has left it: either is progress. The first fault counts.
func (u *upload) taken(inside bool, fault error) {
	x := u.x
	x.mu.Lock()
	defer x.mu.Unlock()
	x.inUpload = inside
	if x.badBody == nil && !u.closed {
		x.badBody = fault
	}
	if x.silentSince != never && !x.open {
		x.silentSince = x.Elapsed()
	}
}
