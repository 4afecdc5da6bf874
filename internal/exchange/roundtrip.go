package exchange

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

func (c *chain) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	x := &Exchange{Request: req, Start: time.Now(), caller: req.Context(), layers: c.layers, silentSince: never}
	returned := false
	defer func() {
		if !returned { // a panic, or runtime.Goexit, that goes on from here
			x.dropped()
		}
	}()
	if err = x.begin(); err == nil {
		resp, err = x.send(c)
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
	case !x.Sent && !x.Refused && body != nil:
		body.Close()
	}
}

// begin asks the layers, outermost first. A refusal closes the request's body and ends x.
func (x *Exchange) begin() error {
	err := check(x.Request)
	if err == nil {
		err = x.caller.Err()
	}
	for i, l := range x.layers {
		if err != nil && !l.Always {
			break
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
	x.Refused = true
	if x.Request.Body != nil {
		x.Request.Body.Close()
	}
	if gone := x.caller.Err(); gone != nil && errors.Is(err, gone) {
		x.interrupted(Caller, CallerError(x.caller))
	} else if x.Request.Response != nil {
		err = &LaterHopError{err}
	}
	return x.end(err)
}

// send lets the base do the round trip, with a copy of the request if x needs one.
func (x *Exchange) send(c *chain) (*http.Response, error) {
	if x.caller.Done() != nil {
		x.unhook = context.AfterFunc(x.caller, x.callerGone)
	}
	req, upload := x.Request, c.uploads && watchable(x.Request.Body)
	switch {
	case x.done != nil:
		x.sent = *req.WithContext((*ctx)(x)) // inlined, so that the copy lives in x
		req = &x.sent
	case upload:
		x.sent = *req
		req = &x.sent
	}
	if upload {
		x.watchUpload()
	}
	x.Sent = true
	resp, err := x.await(c.base, req)
	if err != nil {
		return nil, err
	}
	return x.receive(resp)
}

func (x *Exchange) await(base http.RoundTripper, req *http.Request) (*http.Response, error) {
	heard := false
	x.silence(x.Elapsed())
	x.waiting(true, false)
	defer func() {
		x.silence(never)
		x.waiting(false, heard)
	}()
	resp, err := base.RoundTrip(req)
	switch {
	case err == nil && resp == nil:
		err = errNothing
	case err == nil:
		heard = true
		return resp, nil
	case resp != nil && resp.Body != nil:
		resp.Body.Close()
	}
	for i := len(x.layers) - 1; i >= 0; i-- {
		if failed := x.layers[i].Failed; failed != nil {
			err = failed(x, err)
		}
	}
	return nil, x.end(err)
}

// receive hands the response to the caller, or ends x if there is nothing to wait for.
func (x *Exchange) receive(resp *http.Response) (*http.Response, error) {
	x.inner, x.Status, x.Answered = resp.Body, resp.StatusCode, x.Elapsed()
	if resp.Request == &x.sent {
		resp.Request = x.Request
	}
	for i := len(x.layers) - 1; i >= 0; i-- {
		if l := x.layers[i]; l.Answered != nil {
			l.Answered(x, &x.holds[i], resp)
		}
	}
	w, writer := resp.Body.(io.Writer)
	upgraded := writer && resp.StatusCode == http.StatusSwitchingProtocols
	switch {
	case bodyless(resp, x.Request.Method):
		if err := x.end(nil); err != nil {
			return nil, err
		}
		return resp, nil
	case !x.hand(upgraded):
		x.inner.Close()
		return nil, x.end(nil)
	}
	if upgraded {
		if x.unhook != nil {
			x.unhook()
		}
		x.giveBack(len(x.layers)-1, false)
		resp.Body = &stream{(*body)(x), w}
	} else {
		resp.Body = (*body)(x)
	}
	switch b := x.inner.(type) {
	case *body:
		(*Exchange)(b).adopt(x)
	case *stream:
		(*Exchange)(b.body).adopt(x)
	}
	return resp, nil
}

// hand makes the caller the one whose acts end x, unless x has been interrupted.
func (x *Exchange) hand(upgraded bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cause != nil {
		return false
	}
	x.open, x.upgraded, x.lastRead = true, upgraded, x.Answered
	return true
}

// bodyless reports whether resp can have no body. HTTP/2 never returns http.NoBody.
func bodyless(resp *http.Response, method string) bool {
	switch {
	case resp.Body == nil, resp.Body == http.NoBody, method == http.MethodHead,
		resp.StatusCode == http.StatusNoContent, resp.StatusCode == http.StatusNotModified:
		return true
	}
	return resp.ProtoMajor == 2 && resp.ContentLength == 0
}
