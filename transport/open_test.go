package transport_test

import (
	"testing"
	"time"

	"github.com/resilient-go/resilient/internal/testserver"
	"github.com/resilient-go/resilient/transport"
)

// A caller that gives up a stream before its headers says nothing, as any other.
func TestOpenCancelledStream(t *testing.T) {
	t.Skip("open: a stream does not count as waiting, so the silence at its end is the time since anything was heard, idle or not: silence.lasts")
	lifted := transport.Bounds{Total: transport.Unbounded, Read: transport.Unbounded}
	inBoth(t, oneProbe, func(r *rig) {
		_ = get(r, r.all())
		time.Sleep(time.Hour)
		r.server.Default(testserver.HangBeforeHeaders())
		_ = bounded(lifted, cancelAfter(ms, nil))(r, r.all())
		r.state("closed")
	})
}
