package testserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	. "github.com/resilient-go/resilient/internal/testserver"
)

var background = context.Background()

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		handler func() http.Handler // made in the bubble
		check   func(b *bench)
	}{
		{"OK", func() http.Handler { return OK("hello") }, func(b *bench) {
			b.wantOK(b.do(background, nil), "hello")
			if a := b.do(background, nil); a.ProtoMajor == 2 != (b.protocol == HTTP2) {
				b.Errorf("spoke %s", a.Proto)
			}
		}},
		{"OK large", func() http.Handler { return OK(strings.Repeat("x", 300_000)) }, func(b *bench) {
			b.wantOK(b.do(background, nil), strings.Repeat("x", 300_000))
		}},
		{"Status", func() http.Handler { return Status(503, "Retry-After", "7") }, func(b *bench) {
			a := b.do(background, strings.NewReader("in"))
			if a.StatusCode != 503 || a.Header.Get("Retry-After") != "7" || a.body != "Service Unavailable" {
				b.Errorf("got %+v", a)
			}
		}},
		{"Status without body", func() http.Handler { return Status(204) }, func(b *bench) {
			if a := b.do(background, nil); a.StatusCode != 204 || a.body != "" {
				b.Errorf("got %+v", a)
			}
		}},
		{"Echo", Echo, func(b *bench) {
			a := b.do(background, io.MultiReader(strings.NewReader("in")), "X-Test", "yes") // of unknown length
			var e Echoed
			if err := json.Unmarshal([]byte(a.body), &e); err != nil {
				b.Fatal(err)
			}
			chunked := len(e.TransferEncoding) == 1 && e.TransferEncoding[0] == "chunked"
			if e.Method != "POST" || e.URI != "/x" || e.ContentLength != -1 || e.Body != "in" ||
				e.Header.Get("X-Test") != "yes" || chunked != (b.protocol != HTTP2) {
				b.Errorf("echoed %+v", e)
			}
		}},
		{"After", func() http.Handler { return After(tick, Echo()) }, func(b *bench) {
			a := b.do(background, strings.NewReader("kept"))
			if !strings.Contains(a.body, `"Body":"kept"`) {
				b.Errorf("got %+v", a)
			}
			b.lasted(a.took, tick)
		}},
		{"Burst", func() http.Handler { return Burst(2, 500, OK("well")) }, func(b *bench) {
			for range 2 {
				if a := b.do(background, nil); a.StatusCode != 500 {
					b.Errorf("got %+v", a)
				}
			}
			b.wantOK(b.do(background, nil), "well")
		}},
		{"Flap", func() http.Handler { return Flap(Phase{tick, OK("up")}, Phase{time.Hour, Status(502)}) }, func(b *bench) {
			b.wantOK(b.do(background, nil), "up")
			time.Sleep(tick)
			if a := b.do(background, nil); a.StatusCode != 502 {
				b.Errorf("got %+v", a)
			}
			if b.memory {
				time.Sleep(time.Hour)
				b.wantOK(b.do(background, nil), "up")
			}
		}},
		{"Informational", func() http.Handler { return Informational(After(tick, OK("at last")), 103, 102) }, func(b *bench) {
			var codes []int
			a := b.do(httptrace.WithClientTrace(background, &httptrace.ClientTrace{
				Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { codes = append(codes, code); return nil },
			}), nil)
			b.wantOK(a, "at last")
			if len(codes) != 2 || codes[0] != 103 || codes[1] != 102 {
				b.Errorf("informational %v", codes)
			}
			b.lasted(a.took, tick)
		}},
		{"HugeHeaders", func() http.Handler { return HugeHeaders(100_000) }, func(b *bench) {
			if a := b.do(background, nil); a.err != nil || len(a.Header.Get("X-Huge")) != 100_000 {
				b.Errorf("error %v", a.err)
			}
		}},
		{"Trickle", func() http.Handler { return Trickle(2, tick, 3) }, func(b *bench) {
			a := b.do(background, nil)
			b.wantOK(a, "bbbbbb")
			b.lasted(a.took, 3*tick)
		}},
		{"Trailers", func() http.Handler { return Trailers("body", "X-Sum", "42") }, func(b *bench) {
			a := b.do(background, nil)
			b.wantOK(a, "body")
			if a.Trailer.Get("X-Sum") != "42" {
				b.Errorf("trailers %v", a.Trailer)
			}
		}},
		{"Gzip", func() http.Handler { return Gzip("unpacked") }, func(b *bench) {
			a := b.do(background, nil)
			b.wantOK(a, "unpacked")
			if !a.Uncompressed {
				b.Error("not compressed")
			}
			a = b.do(background, nil, "Accept-Encoding", "identity")
			b.wantOK(a, "unpacked")
		}},
		{"ReadSlowly", func() http.Handler { return ReadSlowly(1000, tick, OK("read")) }, func(b *bench) {
			a := b.do(background, bytes.NewReader(make([]byte, 3000)))
			b.wantOK(a, "read")
			b.lasted(a.took, 3*tick)
		}},
		{"EarlyAnswer", func() http.Handler { return EarlyAnswer(413) }, func(b *bench) {
			upload, end := io.Pipe() // nothing is written before the answer
			defer end.Close()
			if a := b.do(background, upload); a.err != nil || a.StatusCode != 413 {
				b.Errorf("got %+v", a)
			}
			if st := b.Stats(); st.Bodies != 0 || st.BodyBytes != 0 {
				b.Errorf("read the body: %+v", st)
			}
		}},
		{"EarlyAnswer to a large upload", func() http.Handler { return EarlyAnswer(413) }, func(b *bench) {
			a := b.do(background, bytes.NewReader(make([]byte, 8<<20)))
			if a.err == nil && a.StatusCode != 413 || a.err != nil && b.protocol == HTTP2 {
				b.Errorf("got %+v", a)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			each(t, func(b *bench) {
				b.Default(c.handler())
				c.check(b)
			})
		})
	}
}
