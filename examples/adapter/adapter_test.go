package main

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resilient-go/resilient"
)

// The bank is well, hangs, and recovers.
func TestIncident(t *testing.T) {
	t.Parallel()
	sber := bank(t)
	p := begin(t, sber.URL(), clientsFile)

	// Well.
	p.sees("pay", p.pay(), 201, `{"payment":"p1","state":"accepted"}`)
	p.sees("status", p.get(p.api+"/payments/p1"), 200, `"state":"settled"`)
	p.sees("an order without a sum", p.do("POST", p.api+"/payments", `{"order":"7"}`), 400, "kopecks")
	p.sees("no such payment", p.get(p.api+"/payments/p0"), 404, "no such payment")
	p.sees("ready", p.get(p.ops+"/ready"), 200, `"healthy"`)
	p.sees("alive", p.get(p.ops+"/alive"), 200, "")

	// It hangs. Whoever asks has an answer: the first ones when the bound is over, all others sooner.
	sber.Hang()
	for _, path := range []string{"/tokens", "/payments", "/payments/p1", "/payments/p2", "/health"} {
		sber.On(path).Hang()
	}
	const crowd = 40
	var all sync.WaitGroup
	answers := make([]answer, crowd)
	for i := range answers {
		all.Go(func() { answers[i] = p.pay() })
	}
	all.Wait()
	codes := map[int]int{}
	for _, a := range answers {
		codes[a.code]++
		if a.err != nil || a.took > 5*time.Second { // 550 ms, on a machine that has nothing else to do
			t.Errorf("%d %v after %v", a.code, a.err, a.took)
		}
	}
	if codes[504] < 1 || codes[503] < 1 || codes[503]+codes[504] != crowd {
		t.Errorf("answers %v", codes)
	}
	if n := sber.MaxInFlight(); n > 8 {
		t.Errorf("%d requests at once have reached the bank, which may have 8", n)
	}

	// Its last word stands in for it; of what it has said nothing of there is none.
	p.sees("status", p.get(p.api+"/payments/p1"), 200, `"stale":true`)
	if a := p.get(p.api + "/payments/p2"); a.code != 503 && a.code != 504 {
		t.Errorf("of which nothing is known: %d %s", a.code, a.body)
	}

	// The breaker opens. Then nothing reaches the bank, and callers are told when to come again.
	refused := answer{}
	p.eventually("the breaker opens", func() bool {
		before := len(sber.Requests())
		refused = p.pay()
		return refused.code == 503 && refused.Get("Retry-After") != "" && len(sber.Requests()) == before
	})
	if s, err := strconv.Atoi(refused.Get("Retry-After")); err != nil || s != 1 || !strings.Contains(refused.body, "the bank is unavailable") {
		t.Errorf("Retry-After %q: %s", refused.Get("Retry-After"), refused.body)
	}
	p.sees("the bank is not asked, so", p.get(p.api+"/payments/p1"), 200, `"stale":true`)
	p.sees("alive", p.get(p.ops+"/alive"), 200, "")
	if !strings.Contains(p.log(), `"system":"sber","prev_state":"closed","new_state":"open"`) {
		t.Error("the log has no word of it")
	}

	// It recovers.
	well(sber)
	p.eventually("it pays again", func() bool { return p.pay().code == 201 })
	p.eventually("the status is new again", func() bool { return !strings.Contains(p.get(p.api+"/payments/p1").body, "stale") })

	// What was counted.
	metrics := p.get(p.ops + "/metrics").body
	for _, series := range []string{
		`requests_total{outcome="success",system="sber"}`, `requests_total{outcome="timeout",system="sber"}`,
		`executions_total{outcome="refused_full",system="sber"}`, `executions_total{outcome="refused_open",system="sber"}`,
		`breaker_transitions_total{from="closed",system="sber",to="open"}`,
	} {
		if !regexp.MustCompile(regexp.QuoteMeta("resilient_"+series) + ` [1-9]`).MatchString(metrics) {
			t.Errorf("none of %s", series)
		}
	}

	p.terminate()
	if err := p.wait(); err != nil {
		t.Error(err)
	}
}

// A bank that is ill makes the service not ready, and leaves it alive.
func TestNotReady(t *testing.T) {
	t.Parallel()
	sber := bank(t)
	sber.On("/health").Fail(503)
	p := begin(t, sber.URL(), clientsFile)
	p.sees("ready", p.get(p.ops+"/ready"), 503, `"unhealthy"`)
	p.sees("alive", p.get(p.ops+"/alive"), 200, "")
	p.sees("and it pays", p.pay(), 201, "")
}

// SIGTERM: not ready at once, nobody new, and who is inside gets the answer.
func TestEndsWell(t *testing.T) {
	t.Parallel()
	sber := bank(t)
	p := begin(t, sber.URL(), patient, "GRACE=30s")
	sber.On("/payments").Hang()
	inside := make(chan answer)
	go func() { inside <- p.pay() }()
	sber.Await(2) // the token's, and the payment's

	p.terminate()
	p.eventually("it is not ready", func() bool { return p.get(p.ops+"/ready").body == "draining" })
	p.eventually("nobody is let in", func() bool { return p.get(p.api+"/payments/p1").err != nil })
	p.sees("ready", p.get(p.ops+"/ready"), 503, "draining") // it still says so
	select {
	case a := <-inside:
		t.Errorf("was sent away: %d %s %v", a.code, a.body, a.err)
	case err := <-p.ended:
		t.Fatalf("has left somebody behind: %v", err)
	default:
	}

	// The bank answers at last.
	well(sber)
	sber.Release()
	p.sees("who was inside", <-inside, 201, "accepted")
	if err := p.wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if !strings.Contains(p.log(), `"msg":"ended","cut_off":false`) {
		t.Errorf("it was cut off")
	}
}

// A bank that hangs can't keep the service from its end: at the end of GRACE its callers are told.
func TestEndsThoughTheBankHangs(t *testing.T) {
	t.Parallel()
	sber := bank(t)
	p := begin(t, sber.URL(), patient, "GRACE=300ms")
	sber.On("/payments").Hang()
	inside := make(chan answer)
	go func() { inside <- p.pay() }()
	sber.Await(2)

	p.terminate()
	if a := <-inside; a.err != nil || a.code < 500 || !strings.Contains(a.body, "may have been paid") {
		t.Errorf("who was inside: %d %s %v", a.code, a.body, a.err)
	}
	if err := p.wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if !strings.Contains(p.log(), `"msg":"ended","cut_off":true`) {
		t.Errorf("it was not cut off")
	}
}

// patient has bounds that no test waits for.
const patient = "systems: {sber: {read_timeout: 50s, total_timeout: 55s, breaker: {window: 2m}}}\n"

// The environment is above the file, the file is followed, and one that is no good changes nothing.
func TestSettings(t *testing.T) {
	t.Parallel()
	p := begin(t, bank(t).URL(), clientsFile, "CLIENT_SBER__READ_TIMEOUT=450ms")
	if read, total := p.inForce("config", "read_timeout"), p.inForce("config", "total_timeout"); read != "450ms" || total != "1s" {
		t.Errorf("read_timeout %s, total_timeout %s", read, total)
	}
	p.write(strings.Replace(clientsFile, "max_concurrent: 8", "max_concurrent: 7", 1))
	p.eventually("7 permits", func() bool { return p.inForce("bulkhead", "max_concurrent") == "7" })
	p.write(strings.Replace(clientsFile, "max_concurrent: 8", "max_concurrent: many", 1))
	p.eventually("a word of the fault", func() bool { return strings.Contains(p.log(), `"msg":"configuration refused`) })
	if n := p.inForce("bulkhead", "max_concurrent"); n != "7" {
		t.Errorf("%s permits", n)
	}
	p.sees("pay", p.pay(), 201, "")
}

// What can't work does not start, and every fault is told at once.
func TestDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file  string
		env   []string
		wants []string
	}{
		"a variable": {clientsFile, []string{"SBER_URL=", "DRAIN=5"}, []string{"SBER_URL is not set", "DRAIN = 5: must be a duration"}},
		"a file":     {"systems: {sber: {read_timeout: 2m, max_conns: 3}}", nil, []string{":1 systems.sber.read_timeout", ":1 systems.sber.max_conns"}},
		"a system":   {"systems: {tinkoff: {}}", nil, []string{`no system \"sber\"`}},
		"the sum":    {"systems: {sber: {max_connections: 101}}", nil, []string{"limit of 100"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := begin(t, "http://127.0.0.1:1", c.file, c.env...)
			if err := p.wait(); err == nil || p.cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("it ended with %v", err)
			}
			for _, text := range c.wants {
				if !strings.Contains(p.log(), text) {
					t.Errorf("no word of %s in %s", text, p.log())
				}
			}
		})
	}
}

// The file that comes with the service is one that it starts with.
func TestShippedSettings(t *testing.T) {
	t.Parallel()
	configs, err := resilient.Load("clients.yaml")
	if err != nil || configs["sber"].Retry.MaxAttempts != 2 {
		t.Errorf("%+v, %v", configs, err)
	}
}
