package testserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// OK reads the request and answers 200 with body.
func OK(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		io.WriteString(w, body)
	})
}

// Status reads the request and answers code, with headers given as key, value, key, value.
func Status(code int, header ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Add(header[i], header[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, http.StatusText(code)) // refused where code has no body
	})
}

// Echoed is what Echo answers, as JSON.
type Echoed struct {
	Proto            string
	Method           string
	URI              string
	Host             string
	ContentLength    int64
	TransferEncoding []string
	Header           http.Header
	Trailer          http.Header
	Body             string
}

// Echo answers with the request as it arrived: an Echoed.
func Echo() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(Echoed{
			Proto: r.Proto, Method: r.Method, URI: r.RequestURI, Host: r.Host, ContentLength: r.ContentLength,
			TransferEncoding: r.TransferEncoding, Header: r.Header, Trailer: r.Trailer, Body: string(body),
		})
	})
}

// After reads the request, waits and goes on with next, which can read the body again.
func After(d time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Else a client that goes away meanwhile would not be noticed over HTTP/1.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if r.ContentLength != 0 {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		Sleep(r, d)
		next.ServeHTTP(w, r)
	})
}

// Burst answers code n times, then goes on with then.
func Burst(n, code int, then http.Handler) http.Handler {
	var served atomic.Int64
	status := Status(code)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if served.Add(1) <= int64(n) {
			status.ServeHTTP(w, r)
			return
		}
		then.ServeHTTP(w, r)
	})
}

// Phase is a part of Flap's cycle.
type Phase struct {
	For time.Duration
	Do  http.Handler
}

// Flap goes through the phases over and over, from its first request on.
func Flap(phases ...Phase) http.Handler {
	var cycle time.Duration
	for _, p := range phases {
		cycle += p.For
	}
	if cycle <= 0 {
		panic("testserver: Flap without duration")
	}
	start := sync.OnceValue(time.Now)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := time.Since(start()) % cycle
		for _, p := range phases {
			if at < p.For {
				p.Do.ServeHTTP(w, r)
				return
			}
			at -= p.For
		}
	})
}

// Informational sends 1xx headers at once, then goes on with then.
func Informational(then http.Handler, codes ...int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, code := range codes {
			w.WriteHeader(code)
		}
		then.ServeHTTP(w, r)
	})
}

// ReadSlowly reads chunk bytes of the request body each interval, then goes on with then.
func ReadSlowly(chunk int, every time.Duration, then http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for {
			_, err := io.CopyN(io.Discard, r.Body, int64(chunk))
			if err == io.EOF {
				break
			}
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			Sleep(r, every)
		}
		then.ServeHTTP(w, r)
	})
}

// EarlyAnswer answers code while the upload is still under way, and reads none of it.
func EarlyAnswer(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Else net/http reads up to 256 KiB of an HTTP/1 request before it writes the first byte. HTTP/2 is always full duplex.
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(code)
		io.WriteString(w, http.StatusText(code))
	})
}
