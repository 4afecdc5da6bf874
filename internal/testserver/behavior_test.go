package testserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

func TestHangs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		handler http.Handler
		headers bool   // reach the client before the hang
		body    string // that the client has read after Release
	}{
		{"HangBeforeHeaders", HangBeforeHeaders(), false, "ok"},
		{"HangInHeaders", HangInHeaders(), false, "ok"},
		{"HangUnread", HangUnread(), false, "ok"},
		{"StallInBody at once", StallInBody(0), true, ""},
		{"StallInBody", StallInBody(10_000), true, strings.Repeat("b", 10_000)},
		{"custom", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { Hang(r); io.WriteString(w, "mine") }), false, "mine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			each(t, func(b *bench) {
				b.Default(c.handler)

				aborted := 0
				for _, body := range []io.Reader{nil, strings.NewReader("small")} {
					if body != nil && c.name == "HangUnread" {
						continue // net/http does not notice
					}
					ctx, cancel := context.WithCancel(background)
					gone := b.start(ctx, body)
					b.await(func(st Stats) bool { return st.Hanging == 1 })
					if b.memory {
						time.Sleep(tick)
					}
					cancel()
					a := <-gone
					if !errors.Is(a.err, context.Canceled) && !errors.Is(a.bodyErr, context.Canceled) || b.memory && c.headers != (a.err == nil) {
						b.Errorf("got %+v", a)
					}
					if b.memory {
						b.lasted(a.took, tick)
					}
					aborted++
					b.await(func(st Stats) bool { return st.Aborted == aborted && st.Concurrent == 0 })
				}

				released := []<-chan answer{b.start(background, nil), b.start(background, strings.NewReader("in"))}
				b.await(func(st Stats) bool { return st.Hanging == 2 })
				b.Release()
				for _, got := range released {
					b.wantOK(<-got, c.body)
				}

				closed := b.start(background, nil)
				b.await(func(st Stats) bool { return st.Hanging == 1 })
				b.Close()
				if a := <-closed; a.err == nil && a.bodyErr == nil {
					b.Errorf("an answer from a closed server: %+v", a)
				}
				if st := b.Stats(); st.Aborted != aborted || st.Concurrent != 0 {
					b.Errorf("after Close: %+v", st)
				}
			})
		})
	}
}

func TestHangInHeadersSendsBytes(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		first := make(chan struct{})
		b.Default(HangInHeaders())
		got := b.start(httptrace.WithClientTrace(background, &httptrace.ClientTrace{GotFirstResponseByte: func() { close(first) }}), nil)
		if b.protocol != HTTP2 {
			<-first
		}
		b.await(func(st Stats) bool { return st.Hanging == 1 })
		select {
		case a := <-got:
			b.Errorf("got %+v", a)
		case <-time.After(tick):
		}
		if b.protocol == HTTP2 {
			select {
			case <-first:
				b.Error("HTTP/2 has sent something")
			default:
			}
		}
		b.Release()
		b.wantOK(<-got, "ok")
	})
}

func TestHangUnreadBlocksUpload(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.Default(HangUnread())
		a := b.do(impatient(b.T), bytes.NewReader(make([]byte, 32<<20)))
		if !errors.Is(a.err, context.DeadlineExceeded) {
			b.Errorf("got %+v", a)
		}
		if st := b.Stats(); st.BodyBytes != 0 {
			b.Errorf("read the body: %+v", st)
		}
	})
}

func TestBreaks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		handler http.Handler
		h1, h2  string // errors
	}{
		{"CloseBeforeHeaders", CloseBeforeHeaders(), "EOF", "EOF"},
		{"Abort", Abort(), "EOF", "INTERNAL_ERROR"},
		{"Reset", Reset(), "connection reset", "connection reset"},
		{"CutInBody", CutInBody(10, 100), "unexpected EOF", "INTERNAL_ERROR"},
		{"CutInBody unannounced", CutInBody(10_000, 0), "unexpected EOF", "INTERNAL_ERROR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			each(t, func(b *bench) {
				b.Default(c.handler)
				for _, body := range []io.Reader{nil, strings.NewReader("in")} {
					a := b.do(background, body)
					err := a.err
					if strings.HasPrefix(c.name, "CutInBody") {
						if err != nil || !strings.HasPrefix(a.body, "bbbbbbbbbb") {
							b.Fatalf("got %+v", a)
						}
						err = a.bodyErr
					}
					switch {
					case b.protocol != HTTP2:
						b.wantIn(err, c.h1)
					case c.name == "Reset" && !b.memory: // the kernel tells whoever asks first, here perhaps the writer
						b.wantIn(err, c.h2, "unexpected EOF", "broken pipe")
					default:
						b.wantIn(err, c.h2)
					}
				}
				if st := b.Stats(); st.Requests != 2 || st.Bodies != 1 || st.Aborted != 0 {
					b.Errorf("stats %+v", st)
				}
			})
		})
	}
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.Default(Upgrade())
		req, _ := http.NewRequest(http.MethodGet, b.URL(), nil)
		if b.protocol != HTTP2 {
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "echo")
		}
		resp, err := b.client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		if b.protocol == HTTP2 {
			resp.Body.Close()
			if resp.StatusCode != http.StatusUpgradeRequired {
				b.Errorf("got %s", resp.Status)
			}
			return
		}
		c := resp.Body.(io.ReadWriteCloser)
		for _, text := range []string{"one", "two"} {
			io.WriteString(c, text)
			got := make([]byte, len(text))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
				b.Fatalf("echoed %q, %v", got, err)
			}
		}
		if st := b.Stats(); resp.StatusCode != 101 || st.Concurrent != 1 {
			b.Errorf("%s, %+v", resp.Status, st)
		}
		c.Close()
		b.await(func(st Stats) bool { return st.Concurrent == 0 && st.OpenConns == 0 })

		resp, err = b.client.Do(req) // Close ends this one
		if err != nil {
			b.Fatal(err)
		}
		b.Close()
		io.ReadAll(resp.Body)
		resp.Body.Close()
	})
}
