package testserver

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// StallInBody sends headers and n bytes, then is silent until Release, which ends the body.
func StallInBody(n int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		send(w, n)
		hang(r)
	})
}

// CutInBody sends headers and n of total bytes, then breaks off: over HTTP/1 the connection, over HTTP/2 the stream.
// With a total of 0 no Content-Length is declared.
func CutInBody(n, total int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		if total > 0 {
			w.Header().Set("Content-Length", strconv.Itoa(total))
		}
		send(w, n)
		panic(http.ErrAbortHandler)
	})
}

// Trickle sends headers at once, then count times waits and sends chunk bytes; a negative count is for ever.
func Trickle(chunk int, every time.Duration, count int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		send(w, 0)
		for i := 0; i != count; i++ {
			Sleep(r, every)
			send(w, chunk)
		}
	})
}

// HugeHeaders answers with a header of n bytes.
func HugeHeaders(n int) http.Handler {
	return Status(http.StatusOK, "X-Huge", strings.Repeat("h", n))
}

// Trailers answers with body and trailers, given as key, value, key, value.
func Trailers(body string, trailer ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		for i := 0; i+1 < len(trailer); i += 2 {
			w.Header().Add("Trailer", trailer[i])
		}
		io.WriteString(w, body)
		for i := 0; i+1 < len(trailer); i += 2 {
			w.Header().Add(trailer[i], trailer[i+1])
		}
	})
}

// Gzip answers with body, compressed for who accepts that.
func Gzip(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			io.WriteString(w, body)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, body)
		z.Close()
	})
}

// send puts headers and n bytes on the wire.
func send(w http.ResponseWriter, n int) {
	if n > 0 {
		w.Write(bytes.Repeat([]byte("b"), n))
	}
	if http.NewResponseController(w).Flush() != nil {
		panic(http.ErrAbortHandler)
	}
}
