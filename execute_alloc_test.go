package resilient_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/resilient-go/resilient"
)

// once is a body of nothing, which is not http.NoBody.
type once struct{}

func (once) Read([]byte) (int, error) { return 0, io.EOF }
func (once) Close() error             { return nil }

// What Execute costs beside the func, and an exchange in it beside one outside, for a caller that may cancel.
func TestExecuteAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var base roundTripper = func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, ProtoMajor: 1, Body: once{}, ContentLength: -1, Request: req}, nil
	}
	c, err := resilient.NewRegistry().NewClient("sber", resilient.Config{}, resilient.WithBase(&base))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	caller, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := mustRequest(t)
	send := func(ctx context.Context) (int, error) {
		resp, err := c.RoundTrip(req.WithContext(ctx))
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return 0, err
	}
	nothing := func(context.Context) (int, error) { return 0, nil }
	measure := func(f func() (int, error)) float64 {
		return testing.AllocsPerRun(2000, func() {
			if _, err := f(); err != nil {
				t.Fatal(err)
			}
		})
	}
	execute := func(fn func(context.Context) (int, error)) func() (int, error) {
		return func() (int, error) { return resilient.Execute(caller, c, fn) }
	}
	alone := measure(func() (int, error) { return send(caller) })
	empty, around := measure(execute(nothing)), measure(execute(send))
	lifted := measure(func() (int, error) {
		return resilient.Call[int]{Total: resilient.Unbounded}.Do(caller, c, nothing)
	})
	nested := measure(execute(func(ctx context.Context) (int, error) { return resilient.Execute(ctx, c, nothing) })) - empty
	t.Logf("an exchange %v; Execute of nothing %v, without a total %v, within another +%v, of an exchange %v", alone, empty, lifted, nested, around)
	for what, c := range map[string][2]float64{
		"Execute of nothing": {empty, 18}, "without a total": {lifted, 10}, "within another": {nested, 17},
		"an exchange in it": {around - empty, alone + 2}, // package context makes a new context's first child a map
	} {
		if c[0] > c[1] {
			t.Errorf("%s: %v allocations, at most %v", what, c[0], c[1])
		}
	}
}
