package resilient_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/resilient-go/resilient"
)

// Events: no end is known, but a partner that sends a heartbeat every 15 s is
// lost when it has been silent for a minute.
func ExampleWithBounds_events() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for n := range 2 {
			fmt.Fprintf(w, "data: payment %d\n\n", n)
			w.(http.Flusher).Flush()
		}
	}))
	defer bank.Close()

	events, err := resilient.NewClient("sber-events", resilient.Config{MaxConnsPerHost: 2}) // a client of its own
	if err != nil {
		panic(err)
	}
	defer events.Close()

	ctx := resilient.WithBounds(context.Background(), resilient.Bounds{Total: resilient.Unbounded, Read: time.Minute})
	req, err := http.NewRequestWithContext(ctx, "GET", bank.URL, nil)
	if err != nil {
		panic(err)
	}
	resp, err := events.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			fmt.Println(data)
		}
	}
	if errors.Is(lines.Err(), resilient.ErrTimeout) {
		fmt.Println("connect again")
	}
	// Output:
	// payment 0
	// payment 1
}

// A report of up to 1 GiB may take ten minutes, as long as it moves.
func ExampleWithBounds_download() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a report") }))
	defer bank.Close()
	reports, err := resilient.NewClient("sber-reports", resilient.Config{MaxConnsPerHost: 4, MaxResponseBytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	defer reports.Close()

	ctx := resilient.WithBounds(context.Background(), resilient.Bounds{Total: 10 * time.Minute, MaxBytes: 1 << 30})
	req, err := http.NewRequestWithContext(ctx, "GET", bank.URL, nil)
	if err != nil {
		panic(err)
	}
	resp, err := reports.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	fmt.Println(n, err)
	// Output: 8 <nil>
}

// The size of an answer is bounded, and the error comes from the Read that would
// go beyond the bound.
func ExampleTooLargeError() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("a", 1000)) }))
	defer bank.Close()
	sber, err := resilient.NewClient("sber", resilient.Config{MaxResponseBytes: 100})
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	resp, err := sber.HTTPClient().Get(bank.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	if large, ok := errors.AsType[*resilient.TooLargeError](err); ok {
		fmt.Println(resp.Status, "and more than", large.Limit, "bytes")
	}
	// Output: 200 OK and more than 100 bytes
}

// An upload of unknown length. The silence starts anew with each piece that is
// taken; what has to be raised is the total.
func ExampleWithBounds_upload() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, " bytes")
	}))
	defer bank.Close()
	sber, err := resilient.NewClient("sber-uploads", resilient.Config{MaxConnsPerHost: 2})
	if err != nil {
		panic(err)
	}
	defer sber.Close()

	pr, pw := io.Pipe()
	go func() {
		_, err := io.WriteString(pw, strings.Repeat("a", 100_000))
		pw.CloseWithError(err) // nil: the end of the upload
	}()
	ctx := resilient.WithBounds(context.Background(), resilient.Bounds{Total: 10 * time.Minute})
	req, err := http.NewRequestWithContext(ctx, "POST", bank.URL, pr)
	if err != nil {
		panic(err)
	}
	resp, err := sber.Do(req) // closes pr, also when it is refused, so that the writer ends
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output: 100000 bytes
}

// For an SDK that offers no context: the client tells its streams by the request.
func ExampleWithStreams() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.RawQuery) }))
	defer bank.Close()

	watcher, err := resilient.NewClient("cluster-watch", resilient.Config{}, resilient.WithStreams(func(r *http.Request) bool {
		return r.URL.Query().Get("watch") == "true"
	}))
	if err != nil {
		panic(err)
	}
	defer watcher.Close()

	resp, err := watcher.HTTPClient().Get(bank.URL + "/pods?watch=true") // no total and no read bound
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output: watch=true
}

// An upgraded connection is the body: it can be written to, and the permit is
// held until it is closed.
func ExampleClient_RoundTrip() {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		line, _ := rw.ReadString('\n')
		io.WriteString(rw, "you said: "+line)
		rw.Flush()
	}))
	defer bank.Close()
	sockets, err := resilient.NewClient("sber-sockets", resilient.Config{MaxConnsPerHost: 50})
	if err != nil {
		panic(err)
	}
	defer sockets.Close()

	req, err := http.NewRequest("GET", bank.URL, nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := sockets.RoundTrip(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		conn := resp.Body.(io.ReadWriteCloser)
		io.WriteString(conn, "hello\n")
		answer, _ := bufio.NewReader(conn).ReadString('\n')
		fmt.Print(answer)
		fmt.Println(sockets.State().Bulkhead.Active, "permit in use")
		conn.Close()
		fmt.Println(sockets.State().Bulkhead.Active, "permits in use")
	}
	// Output:
	// you said: hello
	// 1 permit in use
	// 0 permits in use
}
