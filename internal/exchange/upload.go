package exchange

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
)

// smallBody is up to what size a body in memory is not watched: it is sent in
// one go, and a reader that net/http does not know costs it a write more.
const smallBody = 64 << 10

var errBodyLength = errors.New("exchange: the request body is not as long as its ContentLength")

// watchUpload makes x.sent carry a watched body. x.sent is a copy: the caller's request stays as it is.
func (x *Exchange) watchUpload() {
	req := x.Request
	x.sent.Body = &upload{x: x, body: req.Body}
	if get := req.GetBody; get != nil {
		x.sent.GetBody = func() (io.ReadCloser, error) {
			b, err := get()
			u := &upload{x: x, body: b}
			if err != nil {
				u.fault(err)
				return nil, err
			}
			return u, nil
		}
	}
}

func watchable(body io.ReadCloser) bool {
	if body == nil || body == http.NoBody {
		return false
	}
	n := inMemory(body)
	return n < 0 || n > smallBody
}

// An upload is a request body that tells its exchange of each piece taken, and of its own faults.
type upload struct {
	x      *Exchange
	body   io.ReadCloser
	n      int64
	closed bool // guarded by x.mu
}

func (u *upload) Read(p []byte) (n int, err error) {
	u.x.taking(true)
	defer u.x.taking(false)
	n, err = u.body.Read(p)
	u.n += int64(n)
	switch length := u.x.Request.ContentLength; {
	case err != nil && err != io.EOF:
		u.fault(err)
	case length > 0 && (u.n > length || err == io.EOF && u.n < length):
		u.fault(errBodyLength)
	}
	return n, err
}

// fault notes what is wrong with the caller's body. One that fails because the
// transport has closed it is not to blame.
func (u *upload) fault(err error) {
	u.x.mu.Lock()
	defer u.x.mu.Unlock()
	if !u.closed && u.x.badBody == nil {
		u.x.badBody = err
	}
}

func (u *upload) Close() error {
	u.x.mu.Lock()
	u.closed = true
	u.x.mu.Unlock()
	return u.body.Close()
}

// taking says that the transport is in the caller's body, or has left it. Either is progress.
func (x *Exchange) taking(inside bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.inUpload = inside
	if x.silentSince != never && !x.open {
		x.silentSince = x.Elapsed()
	}
}

var (
	nopCloser         = reflect.TypeOf(io.NopCloser(io.MultiReader()))
	nopCloserWriterTo = reflect.TypeOf(io.NopCloser(new(bytes.Buffer)))
)

// inMemory returns how much is left in body if it is one of the readers in
// memory that net/http knows too, bare or in an io.NopCloser, or -1.
func inMemory(body io.Reader) int {
	switch b := body.(type) {
	case nil:
		return -1
	case *bytes.Reader:
		return b.Len()
	case *bytes.Buffer:
		return b.Len()
	case *strings.Reader:
		return b.Len()
	}
	if t := reflect.TypeOf(body); t == nopCloser || t == nopCloserWriterTo {
		inner, _ := reflect.ValueOf(body).Field(0).Interface().(io.Reader)
		return inMemory(inner)
	}
	return -1
}
