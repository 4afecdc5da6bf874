package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

var (
	errNoReturn = errors.New("exchange: the call below panicked or ended its goroutine")
	errNothing  = errors.New("exchange: the round trip returned neither response nor error")
)

// An InvalidError says that a request can't be sent, whoever it is for.
type InvalidError struct{ Reason string }

func (e *InvalidError) Error() string { return "exchange: invalid request: " + e.Reason }

// A LaterHopError is a refusal of a request that follows a redirect: it was
// not sent, but the one before it was.
type LaterHopError struct{ Err error }

func (e *LaterHopError) Error() string {
	return e.Err.Error() + " (after a redirect: an earlier request was sent)"
}
func (e *LaterHopError) Unwrap() error { return e.Err }

// Timeout says what the refusal says: [net/url.Error] asks no deeper than this.
func (e *LaterHopError) Timeout() bool { return timeout(e.Err) }

// CallerError returns why ctx ended: ctx.Err(), and the cause if it has another.
func CallerError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || cause == err {
		return err
	}
	return &causedError{err, cause}
}

type causedError struct{ err, cause error }

func (e *causedError) Error() string   { return fmt.Sprintf("%v: %v", e.err, e.cause) }
func (e *causedError) Unwrap() []error { return []error{e.err, e.cause} }
func (e *causedError) Timeout() bool   { return timeout(e.err) }

func timeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// check returns what makes req impossible to send, before anything is taken
// for it: a caller's mistake must not count against the system. What only
// some transports mind is left to them.
func check(req *http.Request) error {
	switch {
	case req.URL == nil:
		return &InvalidError{"no URL"}
	case req.Header == nil:
		return &InvalidError{"no Header map"}
	case !token(req.Method) && req.Method != "":
		return &InvalidError{fmt.Sprintf("method %q", req.Method)}
	case req.URL.Scheme == "":
		return &InvalidError{"no scheme in its URL"}
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return nil // a protocol registered with the transport, perhaps
	case req.URL.Host == "":
		return &InvalidError{"no host in its URL"}
	}
	if n := inMemory(req.Body); n >= 0 && req.ContentLength > 0 && int64(n) != req.ContentLength {
		return &InvalidError{fmt.Sprintf("ContentLength %d with a body of %d bytes", req.ContentLength, n)}
	}
	if err := checkHeader("header", req.Header); err != nil {
		return err
	}
	return checkHeader("trailer", req.Trailer)
}

// checkHeader names the field, never its value, which may be a secret.
func checkHeader(kind string, h http.Header) error {
	for name, values := range h {
		if !token(name) {
			return &InvalidError{fmt.Sprintf("%s name %q", kind, name)}
		}
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return &InvalidError{fmt.Sprintf("%s %s has a control character in its value", kind, name)}
			}
		}
	}
	return nil
}

// token reports whether s is one in the sense of RFC 9110, section 5.6.2.
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
			strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}
