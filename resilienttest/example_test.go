package resilienttest_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilient-go/resilient"
	"github.com/resilient-go/resilient/resilienttest"
)

// t is the example's test.
var t *testing.T

// The examples are tests, and are run as such. Documentation shows only what is an Example.
func TestExamples(outer *testing.T) {
	for name, example := range map[string]func(){
		"open": ExampleNewPartner, "hangs": ExamplePartner, "full": ExampleFill, "outcomes": ExampleOutcomes,
		"next": ExamplePartner_Next, "socket": ExampleLoopback, "two": ExampleNewRegistry,
	} {
		outer.Run(name, func(inner *testing.T) {
			t = inner
			example()
		})
	}
}

// What does the shop answer when sber's breaker is open?
func ExampleNewPartner() {
	synctest.Test(t, func(t *testing.T) {
		sber := resilienttest.NewPartner(t)
		client := sber.Client("sber", resilient.Config{})
		shop := checkout(sber.URL(), client)

		client.ForceOpen(20 * time.Second)
		answer := pay(t, shop)
		if answer.Code != 503 || answer.Header().Get("Retry-After") != "20" || len(sber.Requests()) != 0 {
			t.Errorf("%d %v after %d requests", answer.Code, answer.Header(), len(sber.Requests()))
		}
	})
}

// When sber hangs? The seconds of the bubble take no time.
func ExamplePartner() {
	synctest.Test(t, func(t *testing.T) {
		sber := resilienttest.NewPartner(t)
		shop := checkout(sber.URL(), sber.Client("sber", resilient.Config{}))

		sber.Hang()
		start := time.Now()
		if answer := pay(t, shop); answer.Code != 504 || time.Since(start) != 5*time.Second {
			t.Errorf("%d after %v", answer.Code, time.Since(start))
		}

		sber.ReplyJSON(201, map[string]string{"status": "paid"})
		if answer := pay(t, shop); answer.Code != 201 || answer.Body.String() != `{"status":"paid"}` {
			t.Errorf("%d %s when it is well again", answer.Code, answer.Body)
		}
	})
}

// When all permits are taken?
func ExampleFill() {
	synctest.Test(t, func(t *testing.T) {
		sber := resilienttest.NewPartner(t)
		shop := checkout(sber.URL(), sber.Client("sber", resilient.Config{}))

		release := resilienttest.Fill(t, sber.Registry(), "sber")
		if answer := pay(t, shop); answer.Code != 503 {
			t.Errorf("%d when it is full", answer.Code)
		}
		release()
		if answer := pay(t, shop); answer.Code != 200 {
			t.Errorf("%d when it has room", answer.Code)
		}
	})
}

// How long until the breaker opens, and until it closes?
func ExampleOutcomes() {
	synctest.Test(t, func(t *testing.T) {
		sber := resilienttest.NewPartner(t)
		client := sber.Client("sber", resilient.Config{})
		shop := checkout(sber.URL(), client)

		sber.Fail(500)
		for range 100 {
			pay(t, shop)
		}
		outcomes := resilienttest.Outcomes(t, sber.Registry(), "sber")
		if outcomes["error_status"] != 10 || outcomes["refused_open"] != 90 || len(sber.Requests()) != 10 {
			t.Errorf("%v; %d requests have reached sber", outcomes, len(sber.Requests()))
		}

		sber.Reply(200, "paid")
		time.Sleep(31 * time.Second)
		for range 3 { // the probes
			if answer := pay(t, shop); answer.Code != 200 {
				t.Errorf("a probe: %d", answer.Code)
			}
		}
		if state := client.State().Breaker.State; state != "closed" {
			t.Error(state)
		}
	})
}

// A second attempt, and what it looks like to sber.
func ExamplePartner_Next() {
	synctest.Test(t, func(t *testing.T) {
		sber := resilienttest.NewPartner(t)
		client := sber.Client("sber", resilient.Config{Retry: resilient.RetryConfig{MaxAttempts: 2}})

		sber.Next(1).Reset()
		resp, err := client.HTTPClient().Get(sber.URL() + "/rates")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		for _, r := range sber.Requests() {
			if r.Method != "GET" || r.URI != "/rates" {
				t.Errorf("%s %s", r.Method, r.URI)
			}
		}
		if n := len(sber.Requests()); n != 2 {
			t.Errorf("%d attempts", n)
		}
	})
}

// On a real socket time passes as it does: wait for what has happened, not for a while.
func ExampleLoopback() {
	sber := resilienttest.NewPartner(t, resilienttest.Loopback())
	shop := checkout(sber.URL(), sber.Client("sber", resilient.Config{}))

	sber.Hang()
	answered := make(chan int)
	go func() { answered <- pay(t, shop).Code }()
	sber.Await(1)
	sber.Reply(201, "paid")
	sber.Release()
	if code := <-answered; code != 201 {
		t.Errorf("answered %d", code)
	}
}

// A service with two partners: each may fail without the other.
func ExampleNewRegistry() {
	synctest.Test(t, func(t *testing.T) {
		reg := resilienttest.NewRegistry(t)
		shops := map[string]http.Handler{}
		partners := map[string]*resilienttest.Partner{"sber": resilienttest.NewPartner(t), "tinkoff": resilienttest.NewPartner(t)}
		for name, p := range partners {
			client, err := reg.NewClient(name, resilient.Config{}, p.Options()...)
			if err != nil {
				t.Fatal(err)
			}
			shops[name] = checkout(p.URL(), client)
		}

		partners["sber"].Hang()
		if a, b := pay(t, shops["sber"]).Code, pay(t, shops["tinkoff"]).Code; a != 504 || b != 200 {
			t.Errorf("sber %d, tinkoff %d", a, b)
		}
	})
}
