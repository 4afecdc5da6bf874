package exchange

import (
	"io"
	"net/http"
	"sync/atomic"
)

// A Limit bounds a response's body.
type Limit struct {
	Max int64 // in bytes
	Err error // what a Read returns that would go beyond
}

// limit makes the inner body end at the layers' limits. Of one that is declared too long already the first Read says so.
func (x *Exchange) limit(resp *http.Response) {
	for i, l := range x.chain.layers {
		if l.Limit == nil {
			continue
		}
		limit := l.Limit(&x.holds[i])
		if limit == nil {
			continue
		}
		b := &limited{ReadCloser: x.inner, limit: limit}
		if resp.ContentLength > limit.Max {
			b.got.Store(resp.ContentLength)
		}
		x.inner = b
	}
}

// A limited body is an inner one that ends with an error at its limit. It is apart from the Exchange, which few of them
// would make larger for all.
type limited struct {
	io.ReadCloser
	limit *Limit
	got   atomic.Int64 // so far, or declared
}

// Read asks for a byte more than the limit, as a body that ends there is good. One that goes on is closed here: net/http
// may use its connection again only after an end.
func (b *limited) Read(p []byte) (n int, err error) {
	if left := b.limit.Max - b.got.Load(); left >= 0 {
		if int64(len(p))-1 > left {
			p = p[:left+1]
		}
		n, err = b.ReadCloser.Read(p)
		over := b.got.Add(int64(n)) - b.limit.Max
		if over <= 0 {
			return n, err
		}
		n = max(0, n-int(over))
	}
	b.Close()
	return n, b.limit.Err
}
