package page

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// What the script makes of the counts: rates, quantiles, and no nonsense where a client is another one of the same name.
func TestHistory(t *testing.T) {
	r := newRig(t, "sber")
	b := open(t, r.url, 1280, 800)
	text, err := os.ReadFile("../../internal/page/history.js")
	if err != nil {
		t.Fatal(err)
	}
	eval[chromedp.Void](b, string(text)+`
		function answer(requests, buckets = {}, executions = {}, full = 0) {
			return { breaker: { state: "closed" }, bulkhead: { active: 1, max_concurrent: 2, waiting: 0, rejected_full: full, rejected_waited: 0 },
				counts: { requests, executions, latency: { buckets } } };
		}
		function seen(...answers) { // 2 s apart
			const h = new History();
			answers.forEach((a, i) => h.add(i * 2000, a));
			return JSON.stringify(h.samples.map(({ requests, refusals, p50, p95 }) => [requests, refusals, p50, p95]));
		}
		const took = (n) => ({ "0.1": 0, "0.15": n, "0.25": 0, "+Inf": 0 });`)
	for _, row := range []struct{ answers, want string }{
		{`answer({})`, `[[null,null,null,null]]`},
		{`answer({success: 5}), answer({success: 9, timeout: 1})`, `[[null,null,null,null],[{"success":2,"timeout":0.5},{},null,null]]`},
		{`answer({refused_open: 1}), answer({refused_open: 3}, {}, {refused_open: 4}, 2)`, `[[null,null,null,null],[{},{"full":1,"open":3},null,null]]`},
		{`answer({success: 5}, took(5)), answer({success: 1}, took(1)), answer({success: 3}, took(3))`,
			`[[null,null,null,null],[null,null,null,null],[{"success":1},{},0.125,0.1475]]`},
		{`answer({success: 5}, took(5)), answer({success: 6}, {...took(5), "+Inf": 1})`, `[[null,null,null,null],[{"success":0.5},{},0.25,0.25]]`},
	} {
		if got := eval[string](b, "seen("+row.answers+")"); got != row.want {
			t.Errorf("%s: %s, want %s", row.answers, got, row.want)
		}
	}
	// Latency is over the last 10 s, and five minutes are kept.
	if got := eval[string](b, `seen(answer({}), answer({success: 1}, took(1)), ...Array(8).fill(answer({success: 1}, took(1))))`); got !=
		`[[null,null,null,null],[{"success":0.5},{},0.125,0.1475],[{},{},0.125,0.1475],[{},{},0.125,0.1475],[{},{},0.125,0.1475],[{},{},0.125,0.1475],[{},{},null,null],[{},{},null,null],[{},{},null,null],[{},{},null,null]]` {
		t.Error(got)
	}
	if n := eval[int](b, `(h => { for (let i = 0; i <= 400; i++) h.add(i * 1000, answer({})); return h.samples.length; })(new History())`); n != 301 {
		t.Errorf("%d samples of a second are kept", n)
	}
}
