// Package bodyclose has bodies that are closed and bodies that are not.
package bodyclose

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"

	"github.com/resilient-go/resilient"
	"habits.example/bank"
	"habits.example/sdk/alpha"
)

func dropped(sber *resilient.Client, req *http.Request, api *bank.Client) error {
	sber.Do(req)                    // want `the response is dropped with its body open, which holds its permit and its connection \(BH-1\): take it, and close its Body`
	_, err := sber.RoundTrip(req)   // want `the response is dropped`
	_, err = api.GetStatus(nil)     // want `the response is dropped`
	var _, err2 = http.Get("a")     // want `the response is dropped`
	_ = http.Response{}             // not a call
	sber.HTTPClient().Head("a")     // has none
	http.Head("a")                  // so
	api.GetStatus(req.Context())    //resilient:ignore shows how ignoring looks
	httptest.NewRecorder().Result() // its Close does nothing
	io.ReadAll(nil)
	return fmt.Errorf("%w %w", err, err2)
}

func status(sber *resilient.Client, req *http.Request) (int, error) {
	resp, err := sber.Do(req) // want `the body of resp is never closed, which holds its permit and its connection \(BH-1\): defer resp.Body.Close\(\) when err is nil`
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, nil
}

func read(sber *resilient.Client, req *http.Request, api *bank.Client) (v any, err error) {
	var resp *http.Response
	if resp, err = api.GetStatus(req.Context()); err != nil { // want `the body of resp is never closed`
		return nil, err
	}
	if resp == nil || resp.Body == http.NoBody {
		return nil, nil
	}
	err = json.NewDecoder(resp.Body).Decode(&v)
	answer, _ := http.Get("https://bank.example") // want `the body of answer`
	_ = answer
	io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20))
	for s := bufio.NewScanner(answer.Body); s.Scan(); {
		fmt.Println(s.Text())
	}
	func() {
		third, err := sber.Do(req) // want `the body of third`
		if err == nil {
			third.Body.Read(nil)
		}
	}()
	return v, err
}

func retried(sber *resilient.Client, req *http.Request) int {
	resp, err := sber.Do(req) // want `the body of resp`
	if err != nil {
		resp, err = sber.Do(req) // want `the body of resp`
	}
	return resp.StatusCode
}

func closed(sber *resilient.Client, req *http.Request) error {
	resp, err := sber.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	inFunc, err := sber.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = inFunc.Body.Close() }()
	cleanup, _ := sber.Do(req)
	later(cleanup.Body.Close)
	var outer *http.Response
	func() { outer, _ = sber.Do(req) }()
	outer.Body.Close()
	alias, _ := sber.Do(req)
	body := alias.Body
	defer body.Close()
	written, _ := sber.Do(req)
	return written.Write(os.Stdout)
}

func later(func() error) {}

// These are others' to close.
type kept struct{ resp *http.Response }

func (k *kept) handedOn(sber *resilient.Client, req *http.Request, all map[string]*http.Response, c chan *http.Response) {
	k.resp, _ = sber.Do(req)
	given, _ := sber.Do(req)
	drain(given)
	theirs, _ := sber.Do(req)
	alpha.Read(theirs)
	body, _ := sber.Do(req)
	alpha.ReadBody(body.Body)
	wrapped, _ := sber.Do(req)
	drainBody(wrapped.Body)
	stored, _ := sber.Do(req)
	all["a"] = stored
	sent, _ := sber.Do(req)
	c <- sent
	inStruct, _ := sber.Do(req)
	*k = kept{resp: inStruct}
	next, _ := sber.Do(req)
	http.NewRequest("POST", "https://insurer.example", next.Body)
	dumped, _ := sber.Do(req)
	httputil.DumpResponse(dumped, true)
	drain(must(sber.Do(req)))
}

func must(resp *http.Response, err error) *http.Response { return resp }

func drain(resp *http.Response) { resp.Body.Close() }

func drainBody(body io.ReadCloser) { body.Close() }

func returned(sber *resilient.Client, req *http.Request) (*http.Response, error) {
	resp, err := sber.Do(req)
	return resp, err
}

func named(sber *resilient.Client, req *http.Request) (resp *http.Response, err error) {
	resp, err = sber.Do(req)
	return
}

func bodyReturned(sber *resilient.Client, req *http.Request) (io.ReadCloser, error) {
	resp, err := sber.Do(req)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func executed(ctx context.Context, sber *resilient.Client, req *http.Request) error {
	resp, err := resilient.Execute(ctx, sber, func(ctx context.Context) (*http.Response, error) {
		return sber.Do(req.WithContext(ctx))
	})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func open(ctx context.Context, sber *resilient.Client, req *http.Request) (string, error) {
	resp, err := resilient.Execute(ctx, sber, func(ctx context.Context) (*http.Response, error) { // want `the body of resp`
		return sber.Do(req.WithContext(ctx))
	})
	return resp.Status, err
}

// The parsed answers of a generated client have no open body.
func parsed(ctx context.Context, api *bank.ClientWithResponses) (int, error) {
	resp, err := api.GetStatusWithResponse(ctx)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode(), nil
}
