package exchange

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"
)

func (c *chain) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	x := &Exchange{Request: req, Start: time.Now(), caller: req.Context(), chain: c, silentSince: never, lastRead: never}
	returned := false
	defer func() {
		if !returned { // a panic, or runtime.Goexit, that goes on from here
			x.dropped()
		}
	}()
	if err = x.begin(); err == nil {
		resp, err = x.send()
	}
	returned = true
	return resp, err
}

// dropped ends an exchange whose RoundTrip does not return.
func (x *Exchange) dropped() {
	defer x.end(errNoReturn)
	switch body := x.Request.Body; {
	case x.inner != nil:
		x.inner.Close()
	case !x.Sent && body != nil:
		body.Close() // the base never had it
	}
}

// begin asks the layers, outermost first. A refusal closes the request's body and ends x.
func (x *Exchange) begin() error {
	err := check(x.Request, x.chain.std)
	if err == nil {
		_, err = governing(x.caller)
	}
	if scope := ScopeIn(x.caller); scope != nil { // whoever's: it may be over, and its context with it, before x is
		x.join(scope)
		x.derive()
	}
	for i, l := range x.chain.layers {
		if err != nil && !l.Always {
			continue
		}
		if l.Interrupts {
			x.derive()
		}
		h := &x.holds[i]
		if refusal := l.Begin(x, h); refusal != nil {
			err = refusal
			break
		}
		h.begun = true
	}
	x.Admitted = x.Elapsed()
	if err == nil {
		return nil
	}
	if x.Request.Body != nil {
		x.Request.Body.Close()
	}
	if x.Request.Response != nil {
		err = MaybeSent(err)
	}
	return x.end(err)
}

// join makes x part of the innermost execution of its own client's.
func (x *Exchange) join(scope *Scope) {
	for _, l := range x.chain.layers {
		if l.Client != nil {
			x.Scope = scope.Of(l.Client)
		}
	}
}

// send lets the base do the round trip, with a copy of the request if x needs one.
func (x *Exchange) send() (*http.Response, error) {
	x.watch()
	req, upload := x.Request, x.chain.uploads && watchable(x.Request.Body)
	if x.done != nil {
		x.sent = *req.WithContext((*ctx)(x)) // inlined, so that the copy lives in x
		req = &x.sent
	} else if upload {
		x.sent = *req
		req = &x.sent
	}
	if upload {
		x.watchUpload()
	}
	base := x.chain.base
	for i, l := range x.chain.layers {
		if l.Base != nil {
			base = l.Base(x, &x.holds[i])
		}
	}
	x.Sent = true
	resp, err := x.await(base, req)
	if err != nil {
		return nil, err
	}
	return x.receive(resp)
}

func (x *Exchange) await(base http.RoundTripper, req *http.Request) (*http.Response, error) {
	heard := false
	x.silence(x.Admitted)
	x.waiting(x.Admitted, true, false)
	defer func() {
		x.silence(never)
		x.waiting(x.Answered, false, heard)
	}()
	resp, err := base.RoundTrip(req)
	x.Answered = x.Elapsed()
	switch {
	case err == nil && resp == nil:
		err = errNothing
	case err == nil:
		heard = true
		return resp, nil
	case resp != nil && resp.Body != nil:
		resp.Body.Close()
	}
	raw := true
	for _, l := range slices.Backward(x.chain.layers) {
		if l.Failed != nil {
			err, raw = l.Failed(x, err, raw), false
		}
	}
	return nil, x.end(err)
}

// receive hands the response to the caller, or ends x if there is nothing to wait for.
func (x *Exchange) receive(resp *http.Response) (*http.Response, error) {
	x.inner, x.Status = resp.Body, resp.StatusCode
	if x.isCopy(resp.Request) {
		resp.Request = x.Request
	}
	for i, l := range slices.Backward(x.chain.layers) {
		if l.Answered != nil {
			l.Answered(x, &x.holds[i], resp)
		}
	}
	w, writer := resp.Body.(io.Writer)
	upgrade := writer && resp.StatusCode == http.StatusSwitchingProtocols
	if !upgrade && bodyless(resp, x.Request.Method) { // a peer may even upgrade a HEAD
		err := x.end(nil)
		if err == nil {
			return resp, nil
		}
		if x.inner != nil {
			x.inner.Close()
		}
		return nil, err
	}
	if upgrade && x.upgrade() {
		resp.Body = &stream{(*body)(x), w}
	} else {
		x.limit(resp)
		resp.Body = (*body)(x)
	}
	x.mu.Lock()
	interrupted := x.cause != nil
	x.open = !interrupted
	x.mu.Unlock()
	if interrupted {
		x.inner.Close()
		return nil, x.end(nil)
	}
	if inner := x.innerExchange(); inner != nil {
		inner.adopt(x)
	}
	return resp, nil
}

// isCopy reports whether req is what was sent in place of x's request, or net/http's copy of that, which it makes of each
// request with a body and, over HTTP/2, leaves in the response. Both have our context, which ends with x.
func (x *Exchange) isCopy(req *http.Request) bool {
	return req == &x.sent || req != nil && req.URL == x.sent.URL && req.Context() == context.Context((*ctx)(x))
}

// upgrade ends what does not outlive a handshake, and reports whether it was in time for that.
func (x *Exchange) upgrade() bool {
	x.mu.Lock()
	x.upgraded = x.cause == nil
	unhook := x.unhook
	x.mu.Unlock()
	if !x.upgraded {
		return false
	}
	if unhook != nil {
		unhook()
	}
	x.giveBack(len(x.chain.layers)-1, Outcome{Upgraded: true}, false)
	return true
}

// bodyless reports whether there is nothing to come. HTTP/2 never returns
// http.NoBody, but a body without a state as well (or one that says what is
// missing, where a length was declared); one with a state may be empty and still
// have to end, with trailers.
func bodyless(resp *http.Response, method string) bool {
	head := method == http.MethodHead
	return resp.Body == nil || reflect.TypeOf(resp.Body).Size() == 0 && (resp.ContentLength <= 0 || head) ||
		resp.ProtoMajor != 2 && (head || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified)
}
