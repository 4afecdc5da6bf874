package otelresilient

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/resilient-go/resilient"
)

// other stands for all values beyond those that are known.
const other = "_OTHER"

var methods = []string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"}

func methodOf(req *http.Request) string {
	switch {
	case req.Method == "":
		return http.MethodGet
	case slices.Contains(methods, req.Method):
		return req.Method
	}
	return other
}

// spanName names the span of a request with a method as methodOf returns it.
func spanName(method string) string {
	if method == other {
		return "HTTP"
	}
	return method
}

type hostPort struct {
	host string
	port int
}

// hostOf returns where u leads to, u being that of a request that can be sent.
func hostOf(u *url.URL) hostPort {
	at := hostPort{host: u.Hostname(), port: 80}
	if u.Scheme == "https" {
		at.port = 443
	}
	if p, err := strconv.Atoi(u.Port()); err == nil {
		at.port = p
	}
	return at
}

// maxHosts is how many servers the metrics of a system tell apart: it may send its clients anywhere.
const maxHosts = 16

// serverAttributes says for metrics where a request goes.
func (s *system) serverAttributes(at hostPort) []attribute.KeyValue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hosts[at] && len(s.hosts) == maxHosts {
		at = hostPort{host: other}
	} else {
		s.hosts[at] = true
	}
	return append(make([]attribute.KeyValue, 0, 8), semconv.ServerAddress(at.host), semconv.ServerPort(at.port))
}

// redacted returns u without what may be secret. The names of its parameters stay.
func redacted(u *url.URL) string {
	const word = "REDACTED"
	c := *u
	c.Fragment, c.RawFragment = "", ""
	if c.User != nil {
		c.User = url.UserPassword(word, word)
	}
	if c.RawQuery != "" {
		parts := strings.Split(c.RawQuery, "&")
		for i, p := range parts {
			if name, _, ok := strings.Cut(p, "="); ok {
				parts[i] = name + "=" + word
			} else {
				parts[i] = word // a lone word may be anything
			}
		}
		c.RawQuery = strings.Join(parts, "&")
	}
	return c.String()
}

// statusWord is the error.type of a failure status, which a server chooses.
func statusWord(status int) string {
	if status > 599 {
		return other
	}
	return strconv.Itoa(status)
}

// errorWord is the error.type of an error: one of a few fixed words, whoever made it.
func errorWord(err error) string {
	var (
		dns   *net.DNSError
		cert  *tls.CertificateVerificationError
		plain tls.RecordHeaderError
		alert tls.AlertError
		n     net.Error
	)
	switch {
	case err == errPanic:
		return "panic"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, resilient.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &dns):
		return "name_resolution"
	case errors.As(err, &n) && n.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection_refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection_reset"
	case errors.As(err, &cert), errors.As(err, &plain), errors.As(err, &alert):
		return "tls"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "unexpected_eof"
	}
	return other
}

// bodyless reports whether nobody need read or close the body of resp: it is
// none, or may be left alone as the client itself does.
func bodyless(resp *http.Response, method string) bool {
	if resp.Body == nil {
		return true
	}
	head := method == http.MethodHead
	if reflect.TypeOf(resp.Body).Size() == 0 { // net/http's own empty bodies
		return head || resp.ContentLength <= 0
	}
	if resp.ProtoMajor == 2 {
		return false // trailers may come
	}
	return head || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified
}
