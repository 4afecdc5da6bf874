package page

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/resilient-go/resilient/internal/testserver"
)

// It loads, and keeps itself up to date: permits, rates, latency, clients that come and go.
func TestUpdates(t *testing.T) {
	r := newRig(t, "atol", "sber")
	_ = r.add("insurer", hostileProbe()).Health(t.Context())
	b := open(t, r.url, 1280, 800)
	if n := eval[int](b, `document.querySelectorAll(".card").length`); n != 3 {
		t.Errorf("%d cards", n)
	}
	b.until(`document.querySelectorAll(".plot path").length > 0`)
	inUse := text(card("sber", ".use-chart ul"))
	b.until(inUse + `.startsWith("0 of 16")`)
	giveBack := r.hold(r.client("sber"))
	b.until(inUse + `.startsWith("1 of 16")`)
	b.until(text(card("sber", ".flight")) + `.startsWith("1 in flight")`)
	giveBack()
	b.until(inUse + `.startsWith("0 of 16")`)

	r.keepSending(r.client("sber"))
	b.until(`/success \d/.test(` + text(card("sber", ".requests-chart")) + `)`)
	b.until(`/p95 [\d.]+ ms/.test(` + text(card("sber", ".latency-chart")) + `)`)
	for _, chart := range []string{"use", "requests", "latency"} { // a line of three points at least
		b.until(fmt.Sprintf(`[...document.querySelectorAll(%q)].some(p => (p.getAttribute("d").match(/L/g) ?? []).length >= 2)`, card("sber", "."+chart+"-chart path")))
	}
	if got := eval[string](b, text(card("atol", ".requests-chart ul"))); got != "none" {
		t.Errorf("atol, which nobody calls: %q", got)
	}

	r.add("bank").ForceOpen(time.Hour)
	b.until(text(card("bank", ".state")) + ` === "✕ forced open" || ` + text(card("bank", ".state")) + ` === "forced open"`)
	if order := eval[string](b, `[...document.querySelectorAll("h2")].map(h => h.innerText).join()`); order != "atol,bank,insurer,sber" {
		t.Error(order)
	}
	b.until(`document.title === "(1 open) resilient" && ` + text("#summary") + `.includes("Not closed: bank.")`)
	r.client("bank").Close()
	b.until(`!document.querySelector("#system-bank") && document.title === "resilient"`)

	if got := eval[string](b, text(card("insurer", ".facts"))); !strings.Contains(got, hostile) {
		t.Errorf("the probe's text is not as it was: %q", got)
	}
	if n := eval[int](b, `document.querySelectorAll("script").length + document.querySelectorAll("img").length`); n != 1 {
		t.Errorf("%d scripts and images, want the page's own", n)
	}
}

// A system fails: its breaker opens, says why and until when, is announced, refuses, and closes again.
func TestBreakerOpens(t *testing.T) {
	r := newRig(t, "atol", "sber")
	b := open(t, r.url, 1280, 800)
	state := text(card("sber", ".state"))
	b.until(state + `.endsWith("closed")`)
	r.keepSending(r.client("sber"))
	b.until(`/success/.test(` + text(card("sber", ".requests-chart")) + `)`)

	r.partner.Default(testserver.Status(http.StatusInternalServerError))
	b.until(state + `.endsWith("open") && !` + state + `.includes("half")`)
	b.until(`/consecutive failures.*probes in \d+ s/.test(` + text(card("sber", ".why")) + `)`)
	b.until(`/error status \d/.test(` + text(card("sber", ".requests-chart")) + `)`)
	b.until(`/open \d/.test(` + text(card("sber", ".refusals-chart")) + `)`)
	b.until(`/closed → open, consecutive failures.* ago/.test(` + text(card("sber", ".past")) + `)`)
	b.until(`document.title === "(1 open) resilient" && /sber: breaker (half )?open/.test(document.getElementById("news").textContent)`)
	b.until(`document.querySelector("link[rel=icon]").href.includes("b42318")`)
	b.until(fmt.Sprintf(`document.querySelectorAll(%q).length > 0`, card("sber", ".state-chart .area.bad")))
	if got := eval[string](b, text(card("atol", ".state"))); !strings.HasSuffix(got, "closed") {
		t.Errorf("atol is %q", got)
	}

	r.partner.Default(testserver.OK("well"))
	b.until(state + `.endsWith("closed") && document.title === "resilient"`)
	b.until(`/half open → closed/.test(` + text(card("sber", ".past")) + `)`)
}

// Each system has a page of its own, live too, with its settings folded away.
func TestOne(t *testing.T) {
	r := newRig(t, "sber")
	b := open(t, r.url+"sber", 1280, 800)
	b.until(`document.querySelectorAll(".plot path").length > 0`)
	if eval[bool](b, `document.querySelector("dl").checkVisibility()`) {
		t.Error("the settings are not folded away")
	}
	b.do(chromedp.Click(chromedp.CSS("summary")))
	b.until(text("dl") + `.includes("bulkhead.max_concurrent")`)
	r.client("sber").ForceOpen(0)
	b.until(text(".state") + `.endsWith("forced open") && document.title === "(1 open) sber · resilient"`)
	r.client("sber").Close()
	b.until(text("#problem") + `.startsWith("This client is gone.")`)
	if said := b.said(); len(said) == 0 || slices.ContainsFunc(said, func(s string) bool { return !strings.Contains(s, "404") }) {
		t.Errorf("%q", said)
	}
}

// All of it can be reached and used without a mouse.
func TestKeyboard(t *testing.T) {
	r := newRig(t, "atol", "sber")
	r.keepSending(r.client("sber"))
	b := open(t, r.url, 1280, 800)
	b.until(`/p95/.test(` + text(card("sber", ".latency-chart")) + `)`)
	focused := `(e => e.id || e.closest(".card").id + " " + (e.className || e.tagName))(document.activeElement)`

	var order []string
	for range 10 {
		b.press(kb.Tab)
		order = append(order, eval[string](b, `document.activeElement.className === "skip" ? "skip" : `+focused))
	}
	want := []string{"skip", "filter", "troubled", "pause", "system-atol A", "system-atol charts", "system-atol SUMMARY", "system-sber A", "system-sber charts", "system-sber SUMMARY"}
	if !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
	if !eval[bool](b, `getComputedStyle(document.activeElement).outlineStyle === "solid"`) {
		t.Error("the focus can't be seen")
	}
	b.press(kb.Enter) // on the last one, sber's settings
	b.until(text(card("sber", "dl")) + `.includes("bulkhead.max_concurrent")`)

	// Arrow keys in the charts look back, aloud, and Escape comes back.
	b.do(chromedp.Focus(chromedp.CSS(card("sber", ".charts"))))
	b.press(kb.ArrowLeft, kb.ArrowLeft)
	b.until(`/^sber, \d+ s ago: breaker closed; In use: 0 of 16|^sber, \d+ s ago: breaker closed; In use: 1 of 16/.test(document.getElementById("news").textContent)`)
	b.until(text(card("sber", ".axis")) + `.startsWith("as it was")`)
	if n := eval[int](b, `document.querySelectorAll("line.cursor[visibility=visible]").length`); n != 10 {
		t.Errorf("%d cursors, want one in each chart", n)
	}
	b.press(kb.Escape)
	b.until(`document.querySelectorAll("line.cursor[visibility=visible]").length === 0`)

	b.press("/")
	if got := eval[string](b, focused); got != "filter" {
		t.Errorf("/ goes to %s", got)
	}
	b.press("b", "e", "r", "/", "p") // letters there, no commands
	b.until(`document.getElementById("filter").value === "ber/p" && document.querySelectorAll(".card:not([hidden])").length === 0`)
	b.press(kb.Backspace, kb.Backspace)
	b.until(`document.querySelectorAll(".card:not([hidden])").length === 1 && ` + text("#shown") + ` === "1 of 2 shown"`)
	b.press(kb.Escape)
	b.until(`document.querySelectorAll(".card:not([hidden])").length === 2`)
	b.press(kb.Tab, " ")
	b.until(`document.getElementById("troubled").checked && document.querySelectorAll(".card:not([hidden])").length === 0`)
	r.client("atol").ForceOpen(0)
	b.until(`[...document.querySelectorAll(".card:not([hidden])")].map(c => c.id).join() === "system-atol"`)
	b.press(" ")

	b.press("p")
	b.until(`document.getElementById("pause").innerText === "Go on" && document.title.endsWith(", paused")`)
	before := r.polls.Load()
	eval[chromedp.Void](b, `new Promise(done => setTimeout(done, 2500))`)
	if after := r.polls.Load(); after != before {
		t.Errorf("%d questions in a pause", after-before)
	}
	b.press("p")
	b.until(fmt.Sprintf(`document.title === "(1 open) resilient" && !%s`, text("#problem")))
	for end := time.Now().Add(patience); r.polls.Load() <= before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not go on")
		}
	}
}

// It says so when the server is gone, keeps what it has, and comes back by itself.
func TestServerGone(t *testing.T) {
	r := newRig(t, "sber")
	b := open(t, r.url, 1280, 800)
	b.until(`document.querySelectorAll(".plot path").length > 0`)
	r.down.Store(http.StatusServiceUnavailable)
	b.until(text("#problem") + `.startsWith("The server answers 503. What is shown is from ") && document.title === "(no answer) resilient"`)
	r.down.Store(cut)
	b.until(text("#problem") + `.startsWith("The server does not answer.")`)
	r.down.Store(0)
	b.until(`!` + text("#problem") + ` && document.title === "resilient"`)
	for _, said := range b.said() {
		if !strings.Contains(said, "503") && !strings.Contains(said, "net::ERR_EMPTY_RESPONSE") {
			t.Error(said)
		}
	}
}

// Without a script the server says all, every 2 s anew.
func TestWithoutScript(t *testing.T) {
	r := newRig(t, "atol", "sber")
	b := open(t, r.url, 1280, 800, call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	giveBack := r.hold(r.client("sber"))
	defer giveBack()
	r.client("sber").ForceOpen(time.Hour)
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		body, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("body"))) // an error, if it is being loaded at that moment
		if err == nil && strings.Contains(body, "forced open") && strings.Contains(body, "1 of 16") && strings.Contains(body, "atol") {
			break
		}
		if time.Now().After(end) {
			t.Fatal(body, err)
		}
	}
	if r.polls.Load() != 0 {
		t.Error("a script ran")
	}
}
