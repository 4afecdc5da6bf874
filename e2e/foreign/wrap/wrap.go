// Package wrap puts a client of ours around a transport. It is linked into the
// test binaries of others, whose net/http asks it for each request of an
// http.Client.
package wrap

import (
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/resilient-go/resilient"
)

// The generous settings: all layers are on, and none has a reason to refuse.
// (Half of a test's failures are meant to be, so the breaker only counts.)
var generous = resilient.Config{
	MaxConnsPerHost: 1_000_000,
	ConnectTimeout:  10 * time.Second,
	ReadTimeout:     time.Minute,
	TotalTimeout:    5 * time.Minute,
	Bulkhead:        resilient.BulkheadConfig{MaxConcurrent: 100_000, AcquireTimeout: time.Second},
	Breaker:         resilient.BreakerConfig{MinRequests: 1_000_000, FailureRatio: 1, ConsecutiveFailures: resilient.Off},
}

// clients are those made so far, by the transport that each is over: one for each, as in a service. It
// also keeps what is made in a synctest bubble there.
var clients sync.Map // of http.RoundTripper to *client

type client struct {
	once sync.Once
	rt   http.RoundTripper
}

// Wrap returns rt with all our layers around it, and the same for the same rt.
// sending says that a request follows, which is noted.
func Wrap(rt http.RoundTripper, sending bool) http.RoundTripper {
	if rt == nil {
		return nil // net/http has an error for that
	}
	if sending {
		note()
	} else if calledByUs() {
		return rt // our layers reach what is below them through a Client
	}
	if reflect.TypeOf(rt).Kind() != reflect.Pointer {
		return over(rt) // can't be known again
	}
	v, _ := clients.LoadOrStore(rt, new(client))
	c := v.(*client)
	c.once.Do(func() { c.rt = over(rt) })
	return c.rt
}

func over(rt http.RoundTripper) http.RoundTripper {
	if rt == http.DefaultTransport { // which we refuse, and that is not what is tested here
		rt = base{rt}
	}
	c, err := resilient.NewRegistry().NewClient("foreign", generous, resilient.WithBase(rt), resilient.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	return c
}

// calledByUs reports whether the method of http.Client that asks for a transport was called by the library.
func calledByUs() bool {
	var pc [1]uintptr
	runtime.Callers(5, pc[:]) // Callers, calledByUs, Wrap, net/http's hook, and that method
	f, _ := runtime.CallersFrames(pc[:]).Next()
	return strings.HasPrefix(f.Function, "github.com/resilient-go/resilient.") ||
		strings.HasPrefix(f.Function, "github.com/resilient-go/resilient/") && !strings.HasPrefix(f.Function, "github.com/resilient-go/resilient/e2e/")
}

// base hides what a transport is.
type base struct{ http.RoundTripper }

func (b base) CloseIdleConnections() {
	(&http.Client{Transport: b.RoundTripper}).CloseIdleConnections()
}

// notes is a file that grows by a byte with each request, whatever ends the process.
var notes = sync.OnceValue(func() *os.File {
	f, err := os.OpenFile(os.Getenv("FOREIGN_NOTES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	return f
})

func note() {
	if _, err := notes().Write([]byte{'.'}); err != nil {
		panic(err)
	}
}
