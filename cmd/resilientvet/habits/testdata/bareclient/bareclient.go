// Package bareclient has clients with and without a guard.
package bareclient

import (
	"context"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/hashicorp/go-cleanhttp"

	"github.com/resilient-go/resilient"
	"habits.example/bank"
)

const bankURL = "https://bank.example"

var everybodys = http.DefaultClient // want `http.DefaultClient waits without bounds, and is everybody's \(ISO-X1, TO-X1\): make one client of the system with resilient.NewClient`

var zero http.Client // want `an http.Client without bulkhead, breaker and bounds`

var get = http.Get // want `http.Get uses http.DefaultClient`

func defaults(ctx context.Context, req *http.Request) {
	http.DefaultClient.Do(req)                     // want `http.DefaultClient waits`
	http.Get("https://bank.example/status")        // want `http.Get uses http.DefaultClient, which waits without bounds`
	http.Head(bankURL)                             // want `http.Head uses`
	http.Post(bankURL, "text/plain", nil)          // want `http.Post uses`
	http.PostForm(bankURL, nil)                    // want `http.PostForm uses`
	http.Get("http://localhost.bank.example/")     // want `http.Get uses`
	http.DefaultClient.Get("http://10.0.0.1:6060") // want `http.DefaultClient waits`
}

func orDefault(c *http.Client) *http.Client {
	if c == nil {
		c = http.DefaultClient // want `http.DefaultClient waits`
	}
	return c
}

func literals() []*http.Client {
	var declared http.Client // want `an http.Client without`
	pool := &http.Transport{MaxConnsPerHost: 16}
	clone := http.DefaultTransport.(*http.Transport).Clone()
	var hidden http.RoundTripper = pool
	later := &http.Client{} // want `an http.Client without`
	later.Transport = pool
	return []*http.Client{
		&declared,
		later,
		{},                                  // want `an http.Client without bulkhead, breaker and bounds of its system's own \(ISO-1, TO-1\): make one client`
		{Timeout: 5 * time.Second},          // want `an http.Client without`
		{Transport: nil},                    // want `an http.Client without`
		{Transport: http.DefaultTransport},  // want `an http.Client without`
		{Transport: pool},                   // want `an http.Client without`
		{Transport: clone},                  // want `an http.Client without`
		{Transport: hidden},                 // want `an http.Client without`
		new(http.Client),                    // want `an http.Client without`
		cleanhttp.DefaultClient(),           // want `an http.Client without`
		cleanhttp.DefaultPooledClient(),     // want `an http.Client without`
		{nil, nil, nil, 5 * time.Second},    // want `an http.Client without`
		&http.Client{CheckRedirect: noHops}, // want `an http.Client without`
	}
}

func noHops(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func generated(custom bank.ClientOption, some []bank.ClientOption, editor bank.RequestEditorFn) {
	bank.NewClientWithResponses(bankURL)                                    // want `this generated client makes itself a bare http.Client \(ISO-1, TO-1\): make one of the system with resilient.NewClient, and give it bank.WithHTTPClient\(client\)`
	bank.NewClient(bankURL, bank.WithRequestEditorFn(editor))               // want `this generated client`
	bank.NewClientWithResponses(bankURL, bank.WithHTTPClient(&everybody{})) // one's own is taken for guarded
	bank.NewClient(bankURL, custom)
	bank.NewClient(bankURL, some...)
	bank.NewClient("http://localhost:8080")
}

type everybody struct{}

func (everybody) Do(*http.Request) (*http.Response, error) { return nil, nil }

func guarded(sber *resilient.Client, own http.RoundTripper, req *http.Request) ([]*http.Client, error) {
	wrapped, err := sber.Wrap(&http.Transport{})
	if err != nil {
		return nil, err
	}
	later := &http.Client{}
	later.Transport = sber
	var declared http.Client
	declared.Transport = wrapped
	var either http.RoundTripper = http.DefaultTransport
	if req != nil {
		either = sber
	}
	bank.NewClientWithResponses(bankURL, bank.WithHTTPClient(sber))
	return []*http.Client{
		later,
		&declared,
		sber.HTTPClient(),
		{Transport: sber},
		{Transport: wrapped},
		{Transport: own},
		{Transport: either},
	}, nil
}

// It is no other system that is called.
func itself(c *http.Client) bool {
	srv := httptest.NewServer(nil)
	srv.Client().Get(srv.URL)
	http.Get("http://127.0.0.1:6060/debug/vars")
	http.Get("http://[::1]:6060/")
	http.DefaultClient.Get("http://localhost/")
	req, _ := http.NewRequest("GET", "http://localhost:6060/"+srv.URL, nil)
	http.DefaultClient.Do(req)
	return c == http.DefaultClient
}

func meant() {
	http.Get(bankURL) //resilient:ignore a one-off, by hand
	//resilient:ignore so is this
	http.Get(bankURL)
	//resilient:ignore
	http.Get(bankURL) // want `TO-X1.*\(//resilient:ignore lets this pass only with a reason behind it\)`
	//resilient:ignored is another word
	http.Get(bankURL) // want `HTTPClient\(\)$`

	//resilient:ignore too far away

	http.Get(bankURL) // want `HTTPClient\(\)$`
}
