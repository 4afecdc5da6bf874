package exchange

import "net/http"

// A Limit bounds a response's body.
type Limit struct {
	Max int64 // in bytes
	Err error // what a Read returns that would go beyond
}

// declared notes how long resp says that its body is, if that is too long: the first Read says so then.
func (x *Exchange) declared(resp *http.Response) {
	if l := x.Limit; l != nil && resp.ContentLength > l.Max {
		x.got.Store(resp.ContentLength)
	}
}

// read reads from the inner body up to x's limit. It asks for a byte more than that, as a body that ends there is
// good. One that goes on is closed here: net/http may use its connection again only after an end.
func (x *Exchange) read(p []byte) (n int, err error) {
	l := x.Limit
	if l == nil || x.upgraded {
		return x.inner.Read(p)
	}
	if left := l.Max - x.got.Load(); left >= 0 {
		if int64(len(p))-1 > left {
			p = p[:left+1]
		}
		n, err = x.inner.Read(p)
		over := x.got.Add(int64(n)) - l.Max
		if over <= 0 {
			return n, err
		}
		n = max(0, n-int(over))
	}
	x.inner.Close()
	return n, l.Err
}
