package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// How FuzzResponse asks: bits of its second argument. The lowest two are the protocol, the next three the number of requests, less one.
const (
	asksHead    = 1 << 5
	asksPost    = 1 << 6
	asksUpgrade = 1 << 7
	asksExpect  = 1 << 8  // 100-continue
	leavesBody  = 1 << 9  // reads a byte of the answer, and closes it
	wantsRaw    = 1 << 10 // declines gzip
	drainsBody  = 1 << 11 // reads it to its end, however long it is, and keeps nothing
)

// responses are scripts of a peer. In them ! is testserver.Order.
var responses = []struct {
	how    uint16
	script string
}{
	{0, "!rHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
	{0, ""},
	{0, "!c"},
	{0, "!rHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok!x"},
	{0, "!rHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok!S"},
	{0, "!rHTTP/1.1 200 OK\r\nContent-Le!S"},
	{0, "!r!S"},
	{0, "!rHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n!s0\r\nX-Sum: 7\r\n\r\n"},
	{0, "!rHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n"},
	{0, "!rHTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!S"},
	{0, "!rHTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
	{0, "!rHTTP/1.1 999999 \r\n\r\n"},
	{0, "!rHTTP/0.9 200 OK\r\n\r\n"},
	{0, "!rgarbage!0!0!0\r\n\r\n"},
	{0, "!rHTTP/1.1 503 No\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"},
	{0, "!rHTTP/1.1 204 No\r\nContent-Length: 9\r\n\r\nunasked for"},
	{0, "!rHTTP/1.1 200 OK\r\n\r\nto the end!s!s!s of the connection"},
	{0, "!rHTTP/1.0 200 OK\r\n\r\nold"},
	{0, "!rHTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n!sHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
	{0, "!rHTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello!shello!S"},
	{0, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok before it was asked"},
	{0, "!rHTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n\x1f\x8bxxx"},
	{0, "!rHTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"},
	{2 << 2, "!rHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!rHTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno!rHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n!c"},
	{1 << 2, "!rHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!r!c!n!rHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
	{1 << 2, "!rHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!n!rHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2"},
	{3 << 2, "!rHTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok!n!r!s!x!n!rHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"},
	{7<<2 | leavesBody, "!rHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nleft!rHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
	{asksHead, "!rHTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\nand yet a body!S"},
	{asksHead, "!rHTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n!S"},
	{asksPost, "!rHTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n!c"},
	{asksPost | asksExpect, "!r!sHTTP/1.1 100 Continue\r\n\r\n!rHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
	{asksPost | asksExpect, "!rHTTP/1.1 417 No\r\nContent-Length: 2\r\n\r\nno"},
	{asksUpgrade, "!rHTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello!rhello"},
	{asksUpgrade, "!rHTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n!S"},
	{1, "!rHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
	{1, "!rHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok!x"},
	{2, frames("4 0 0", "4 1 0") + "!r" + frames("1 4 1 \x88", "0 1 1 ok") + "!S"},
	{2, "!r" + frames("4 0 0", "1 5 1 \x88") + "!S"},
	{2, "!r" + frames("4 0 0", "1 4 1 \x88", "0 0 1 half", "3 0 1 !0!0!0\x02") + "!S"},
	{2, "!r" + frames("4 0 0", "1 4 1 \x88", "0 0 1 half") + "!S"},
	{2, "!r" + frames("4 0 0", "1 4 1 \x88", "0 0 1 half", "7 0 0 !0!0!0\x01!0!0!0\x02") + "!c"},
	{2, "!r" + frames("4 0 0", "7 0 0 !0!0!0!0!0!0!0!0") + "!c!n!r" + frames("4 0 0", "1 5 1 \x88") + "!S"},
	{2, "!r" + frames("4 0 0", "1 0 1 \x88", "9 4 1 ", "0 8 1 \x02ok!0!0", "1 5 1 @\x05x-sum\x017") + "!S"},
	{2, "!r" + frames("4 0 0", "5 4 1 !0!0!0\x02\x82") + "!S"},
	{2, "!r" + frames("4 0 0", "6 0 0 12345678", "8 0 0 !0!0\x01!0", "1 4 1 H\x03103", "1 4 1 \x88", "0 9 1 \x00") + "!S"},
	{2, "!rHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!S"},
	{2, "!S"},
	{2 | asksPost, "!r" + frames("4 0 0 !0\x04!0!0!0!0", "1 5 1 \x8d") + "!S"},
	{2 | 1<<2 | asksPost, "!r" + frames("4 0 0", "1 4 1 \x88", "0 1 1 ok") + "!r" + frames("1 4 3 \x88", "0 1 3 ok") + "!S"},
	{2 | 2<<2, "!r" + frames("4 0 0", "1 4 1 \x88", "0 1 1 ok") + "!r" + frames("1 4 3 \x8e", "0 1 3 no") + "!r" + frames("3 0 5 !0!0!0\x07") + "!S"},
	{3, "!rnot TLS!S"},
	{3, "\x16\x03\x03!0\x05hello!S"},
	{3, "!S"},
}

// frames are orders to send frames, each "type flags stream payload".
func frames(all ...string) (script string) {
	for _, f := range all {
		var kind, flags, stream byte
		fmt.Sscan(f, &kind, &flags, &stream)
		_, payload, _ := strings.Cut(f[4:], " ")
		script += "!F" + string([]byte{kind, flags, stream}) + payload
	}
	return script + "!."
}

// An asked is what came of a request.
type asked struct {
	Status          int
	Proto           string
	Header, Trailer http.Header
	Length          int64
	Body            string
	Uncompressed    bool
	Context         bool // the response's request has the caller's
	Upgraded        bool
	Err, BodyErr    error
}

var byText = cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) })

// script makes a script of the text of a seed.
func script(text string) []byte {
	return []byte(strings.ReplaceAll(text, "!", string(rune(testserver.Order))))
}

// FuzzResponse: whatever bytes a peer sends, and whenever, over HTTP/1.1, TLS or HTTP/2, or in place of TLS: each request ends
// within its bounds, all is given back, the outcome is counted once and is what the caller was told, no goroutine and no
// connection is left, and the caller gets what net/http alone would have given it, unless a bound intervened.
func FuzzResponse(f *testing.F) {
	for _, r := range responses {
		f.Add(script(r.script), r.how)
	}
	quiet(f)
	f.Fuzz(func(t *testing.T, script []byte, how uint16) {
		if len(script) > 16<<10 {
			t.Skip("long enough")
		}
		checkResponse(t, script, how)
	})
}

// Pieces of the scripts, in any order, go further than bytes that are changed at random.
func TestResponses(t *testing.T) {
	quiet(t)
	pieces := map[uint16][]string{}
	cut := regexp.MustCompile(`(?s)(\r\n|![^F]|!F.{3}[^!]*(?:!0[^!]*)*)`)
	for _, r := range responses {
		p := r.how & 3
		for rest := r.script; rest != ""; {
			at := cut.FindStringIndex(rest)
			if at == nil {
				at = []int{len(rest), len(rest)}
			}
			pieces[p] = append(pieces[p], rest[:at[0]], rest[at[0]:at[1]])
			rest = rest[at[1]:]
		}
		pieces[p] = append(pieces[p], r.script)
	}
	pieces[1] = pieces[0]
	steps := 0
	defer func() { t.Logf("%d steps", steps) }()
	rapid.Check(t, func(rt *rapid.T) {
		how := rapid.Uint16Range(0, wantsRaw<<1-1).Draw(rt, "how")
		drawn := rapid.SliceOfN(rapid.SampledFrom(pieces[how&3]), 1, 30).Draw(rt, "pieces")
		steps += len(drawn)
		text := strings.Join(drawn, "")
		if !t.Run("", func(t *testing.T) { checkResponse(t, script(text), how) }) {
			rt.Fatalf("%d %q", how, text)
		}
	})
}

// quiet drops what net/http logs of peers that break its rules.
func quiet(t testing.TB) {
	log.SetOutput(io.Discard)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
}

func checkResponse(t *testing.T, script []byte, how uint16) {
	t.Helper()
	ours, bare := guarded(t, script, how), unguarded(t, script, how)
	diff := differ(bare, ours)
	if diff == "" {
		return
	}
	// Which of two events net/http sees first is not always the same. So it is a difference only if it always is one.
	all, others := [][]asked{bare}, [][]asked{ours}
	for range 20 {
		all, others = append(all, unguarded(t, script, how)), append(others, guarded(t, script, how))
	}
	for _, bare := range all {
		if slices.ContainsFunc(others, func(ours []asked) bool { return differ(bare, ours) == "" }) {
			return
		}
	}
	t.Errorf("net/http (-), client (+): %s", diff)
}

// differ compares what came of the same requests, up to the first in which a bound intervened.
func differ(bare, ours []asked) string {
	for i, our := range ours {
		for _, err := range []error{our.Err, our.BodyErr} {
			if e, ok := errors.AsType[*resilient.TimeoutError](err); ok {
				if e.Phase == "read" || e.Phase == "total" {
					return ""
				}
				if bare[i].Err == nil {
					return fmt.Sprintf("request %d: %v, but net/http had no error", i, err)
				}
				our.Err = bare[i].Err
			}
		}
		if diff := cmp.Diff(bare[i], our, byText); diff != "" {
			return fmt.Sprintf("request %d: %s", i, diff)
		}
	}
	return ""
}

// peer starts the peer that a script is for, and says what a client of it needs.
func peer(script []byte, how uint16) (p *testserver.Bytes, cfg resilient.Config, url string) {
	url = "https://sber.test/"
	switch how & 3 {
	case 0:
		url, p = "http://sber.test/", testserver.Play(testserver.HTTP1, script)
	case 1:
		p = testserver.Play(testserver.HTTPS, script)
	case 2:
		cfg.Protocol, p = resilient.HTTP2, testserver.Play(testserver.HTTP2, script)
	case 3: // a client that wants TLS, and a peer that has none
		cfg.Protocol, p = resilient.HTTP2, testserver.Play(testserver.HTTP1, script)
	}
	return p, cfg, url
}

// unguarded has net/http alone send the requests, for as long as the bounds would leave it.
func unguarded(t *testing.T, script []byte, how uint16) (all []asked) {
	synctest.Test(t, func(t *testing.T) {
		p, cfg, url := peer(script, how)
		cfg, err := cfg.Complete()
		if err != nil {
			t.Fatal(err)
		}
		base := transport.Base(cfg)
		base.DialContext = (&transport.Dialer{Timeout: cfg.ConnectTimeout, Dial: p.Dial}).DialContext
		if c := p.TLS(); c != nil {
			base.TLSClientConfig = c
		}
		for range how>>2&7 + 1 {
			ctx, cancel := context.WithTimeout(t.Context(), cfg.TotalTimeout)
			all = append(all, ask(t, ctx, base, url, how))
			cancel()
		}
		base.CloseIdleConnections()
		p.Close()
		base.CloseIdleConnections()
	})
	return all
}

// guarded has a client do the same, and checks it.
func guarded(t *testing.T, script []byte, how uint16) (all []asked) {
	synctest.Test(t, func(t *testing.T) {
		p, cfg, url := peer(script, how)
		r := &rig{T: t, prom: prometheus.NewRegistry()}
		r.reg = resilient.NewRegistry(resilient.WithRegisterer(r.prom))
		opts := []resilient.Option{resilient.WithDialContext(p.Dial), resilient.WithLogger(discard)}
		if c := p.TLS(); c != nil {
			opts = append(opts, resilient.WithTLSConfig(c))
		}
		var err error
		if r.Client, err = r.reg.NewClient("sber", cfg, opts...); err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{}
		for i := range how>>2&7 + 1 {
			var a asked
			d := took(func() { a = ask(t, t.Context(), r.Client, url, how) })
			if !a.Upgraded && d > r.State().Config.TotalTimeout {
				t.Errorf("request %d took %v", i, d)
			}
			synctest.Wait() // for a Close beside ours
			all = append(all, a)
			want[outcome(t, a)]++
			r.held(0)
			r.conserved()
		}
		r.outcomes(want)
		r.breaker("closed")
		r.Close()
		time.Sleep(3 * time.Second) // HTTP/2 takes one to close its connections, and a peer that stalls one to notice
		if n := p.Open(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		p.Close()
	})
	return all
}

// outcome is what a request is counted as, by what the caller was told.
func outcome(t *testing.T, a asked) string {
	err := errors.Join(a.Err, a.BodyErr)
	timeout, isTimeout := errors.AsType[*resilient.TimeoutError](err)
	if errors.Is(err, resilient.ErrUnavailable) || errors.Is(err, context.Canceled) || isTimeout && timeout.Phase == "deadline" {
		t.Errorf("%v, of a peer's bytes", err)
	}
	if code, _, ok := resilient.StatusCode(err); err != nil && (!ok || code != http.StatusBadGateway && code != http.StatusGatewayTimeout) {
		t.Errorf("StatusCode(%v) = %d, %v", err, code, ok)
	}
	if a.Status != 0 && resilient.NotSent(err) {
		t.Errorf("NotSent(%v) after an answer", err)
	}
	switch {
	case a.Upgraded:
		return "upgraded"
	case isTimeout:
		return "timeout"
	case err != nil:
		return "transport_error"
	case a.Status >= 500 && a.Status <= 599:
		return "error_status"
	}
	return "success"
}

// ask sends a request, and ends the answer's body.
func ask(t *testing.T, ctx context.Context, rt http.RoundTripper, url string, how uint16) (a asked) {
	t.Helper()
	method, body := "GET", io.Reader(nil)
	if how&asksPost != 0 {
		method, body = "POST", strings.NewReader(strings.Repeat("body", 1000))
	}
	if how&asksHead != 0 {
		method = "HEAD"
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if how&asksUpgrade != 0 && how&3 < 2 { // HTTP/2 knows none
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
	}
	if how&asksExpect != 0 {
		req.Header.Set("Expect", "100-continue")
	}
	if how&wantsRaw != 0 {
		req.Header.Set("Accept-Encoding", "identity")
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		if resp != nil {
			t.Errorf("both a response and %v", err)
		}
		return asked{Err: err}
	}
	a = asked{Status: resp.StatusCode, Proto: resp.Proto, Header: resp.Header, Length: resp.ContentLength, Uncompressed: resp.Uncompressed}
	a.Context = resp.Request != nil && resp.Request.Context() == ctx // its request may be another, if net/http sent it twice
	w, ok := resp.Body.(io.Writer)
	if a.Upgraded = ok && resp.StatusCode == http.StatusSwitchingProtocols; a.Upgraded { // no bound ends it
		w.Write([]byte("hello"))
		defer time.AfterFunc(10*time.Second, func() { resp.Body.Close() }).Stop()
	}
	if how&drainsBody != 0 {
		_, a.BodyErr = io.Copy(io.Discard, resp.Body)
	} else if how&leavesBody != 0 {
		var b [1]byte
		n, err := resp.Body.Read(b[:])
		if err == io.EOF {
			err = nil
		}
		a.Body, a.BodyErr = string(b[:n]), err
	} else {
		var b []byte
		b, a.BodyErr = io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what is packed may be larger than a script
		a.Body, a.Trailer = string(b), resp.Trailer
	}
	resp.Body.Close()
	return a
}
