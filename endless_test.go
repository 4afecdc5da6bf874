package resilient_test

import (
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
)

// A peer that never stops sending costs a caller no more time than the total, and this process no more memory than the limit of
// the headers and what a connection buffers, whether the peer reads what it is told or not.
func TestEndlessBytes(t *testing.T) {
	quiet(t)
	const head = "!rHTTP/1.1 200 OK\r\n"
	chunked := head + "Transfer-Encoding: chunked\r\n\r\n"
	settled := "!r" + frames("4 0 0")
	answered := "!r" + frames("4 0 0", "1 4 1 \x88")
	zeros := strings.Repeat("!0", 8)
	for name, c := range map[string]struct {
		how            uint16
		before, always string
	}{
		"status line":      {0, "!rHTTP/1.1 200 ", "O"},
		"header":           {0, head + "X-Long: ", "x"},
		"headers":          {0, head, "X-Many: x\r\n"},
		"informational":    {0, "!r", "HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n"},
		"continue":         {0, "!r", "HTTP/1.1 100 Continue\r\n\r\n"},
		"body":             {0, head + "\r\n", "x"},
		"chunks":           {0, chunked, "1\r\nx\r\n"},
		"chunk size":       {0, chunked, "0"},
		"chunk extension":  {0, chunked + "1;", "x"},
		"trailers":         {0, chunked + "0\r\n", "X-Many: x\r\n"},
		"a long trailer":   {0, chunked + "0\r\nX-Long:", "x"},
		"unasked for":      {0, head + "Content-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		"body over TLS":    {1, head + "\r\n", "x"},
		"h2 settings":      {2, settled, frames("4 0 0 !0\x04!0!0\x10!0")},
		"h2 pings":         {2, settled, frames("6 0 0 " + zeros)},
		"h2 windows":       {2, settled, frames("8 0 0 !0!0!0\x01")},
		"h2 headers":       {2, settled + frames("1 0 1 \x88"), frames("9 0 1 @\x01x\x01y")},
		"h2 header":        {2, settled + frames("1 0 1 \x88@\x01x\x7f\xff\xff\x7f"), frames("9 0 1 yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy")},
		"h2 empty headers": {2, settled + frames("1 0 1 \x88"), frames("9 0 1 ")},
		"h2 informational": {2, settled, frames("1 4 1 H\x03103")},
		"h2 body":          {2, answered, frames("0 0 1 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")},
		"h2 empty body":    {2, answered, frames("0 0 1 ")},
		"h2 padding":       {2, answered, frames("0 8 1 \x04!0!0!0!0")},
		"h2 trailers":      {2, answered + frames("1 1 1 @\x01x\x01y"), frames("9 0 1 @\x01x\x01y")},
		"h2 unknown":       {2, settled, frames("99 0 0 xxxxxxxxxxxxxxxxxxxxxxx")},
		"h2 priorities":    {2, settled, frames("2 0 3 !0!0!0\x01!0")},
		"h2 other streams": {2, answered, frames("0 0 99 xxxx")},
		"h2 goaways":       {2, settled, frames("7 0 0 !0!0!0\x01!0!0!0!0")},
		"in place of TLS":  {3, "", "x"},
		"a TLS record":     {3, "\x16\x03\x03!0\x05", "\x16\x03\x03!0\x05hello"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { endless(t, resilient.Config{}, c.how, c.before, c.always, false) })
		})
		if !slices.Contains([]string{"body", "body over TLS", "h2 settings", "h2 pings", "h2 body", "h2 informational"}, name) {
			continue // it costs a second
		}
		t.Run(name+", deaf", func(t *testing.T) {
			t.Parallel()
			// In real time: over HTTP/2 a stuck write holds a mutex, which stops a bubble's.
			cfg := resilient.Config{ConnectTimeout: 50 * time.Millisecond, ReadTimeout: 100 * time.Millisecond, TotalTimeout: 200 * time.Millisecond}
			endless(t, cfg, c.how, c.before, c.always, true)
		})
	}
}

// endless calls a peer that sends always, a dozen MB before the total is over.
func endless(t *testing.T, cfg resilient.Config, how uint16, before, always string, deaf bool) {
	const piece, most = 16 << 10, 4 << 20
	p, protocol, url := peer(script(before), how)
	cfg.Protocol = protocol.Protocol
	every, requests := 10*time.Millisecond, 1
	if deaf {
		every, requests = time.Millisecond, 2
	}
	p.Forever(script(strings.Repeat(strings.TrimSuffix(always, "!."), 1+piece/len(always))), every)
	if deaf {
		p.Deaf()
	}
	opts := []resilient.Option{resilient.WithDialContext(p.Dial), resilient.WithLogger(discard)}
	if c := p.TLS(); c != nil {
		opts = append(opts, resilient.WithTLSConfig(c))
	}
	c, err := resilient.NewRegistry().NewClient("sber", cfg, opts...)
	if err != nil {
		t.Fatal(err)
	}
	heap, done, peaks := heapNow(), make(chan struct{}), make(chan uint64)
	go func() {
		for peak := heap; ; {
			select {
			case <-done:
				peaks <- peak
				return
			case <-time.After(2 * time.Second):
				peak = max(peak, heapNow())
			}
		}
	}()
	for range requests {
		var a asked
		d := took(func() { a = ask(t, t.Context(), c, url, how|drainsBody) })
		if total := c.State().Config.TotalTimeout; !deaf && d > total || d > total+10*time.Second {
			t.Errorf("%v: %+v", d, a)
		}
		if e, ok := errors.AsType[net.Error](errors.Join(a.Err, a.BodyErr)); d > 5*time.Second && (!ok || !e.Timeout()) {
			t.Errorf("%v after %v", e, d)
		}
		if s := c.State(); s.InFlight != 0 || s.Bulkhead.Active != 0 {
			t.Errorf("not given back: %+v", s)
		}
	}
	close(done)
	if peak := <-peaks; !deaf && peak > heap+most { // those run side by side
		t.Errorf("%d KiB more on the heap", (peak-heap)>>10)
	}
	c.Close()
	for start := time.Now(); p.Open() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 5*time.Second {
			t.Errorf("%d connections are left", p.Open())
			break
		}
	}
	p.Close()
}

func heapNow() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
