package testserver_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	. "github.com/resilient-go/resilient/internal/testserver"
)

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
					case c.name == "CloseBeforeHeaders" && !b.memory: // it resets where some of the client's frames are still unread
						b.wantIn(err, c.h2, "connection reset", "broken pipe")
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
