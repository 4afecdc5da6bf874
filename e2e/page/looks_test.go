package page

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/resilient-go/resilient/internal/testserver"
)

func prefers(feature, value string) action {
	return call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: feature, Value: value}}})
}

// busy is a rig with something in every part of a card.
func busy(t *testing.T) *rig {
	r := newRig(t, "atol", "sber", "a-system-with-quite-a-long-name-as-long-as-one-may-be-in-truth")
	_ = r.add("insurer", hostileProbe()).Health(t.Context())
	for range 3 {
		r.partner.Next(testserver.Status(500))
		_ = r.send(r.client("insurer"))
	}
	r.keepSending(r.client("sber"))
	r.keepSending(r.client("insurer"))
	r.client("atol").ForceOpen(time.Hour)
	return r
}

// On a phone nothing is wider than the screen, and what is tapped is large enough.
func TestPhone(t *testing.T) {
	r := busy(t)
	for _, path := range []string{"", "insurer"} {
		b := open(t, r.url+path, 360, 740, chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
		b.until(`/open \d|success \d/.test(` + text(card("insurer", ".charts")) + `)`)
		eval[chromedp.Void](b, `document.querySelectorAll("summary").forEach(s => s.click())`)
		b.until(`[...document.querySelectorAll("dl")].every(dl => dl.textContent.includes("max_concurrent"))`)
		eval[chromedp.Void](b, `document.querySelectorAll(".card").forEach(c => c.style.contentVisibility = "visible")`) // or what is below has no size
		if w := eval[int](b, `document.scrollingElement.scrollWidth`); w > 360 {
			t.Errorf("/%s is %d wide", path, w)
		}
		wide := eval[[]string](b, `[...document.querySelectorAll("body *:not(.skip):not(svg *)")].filter(e => e.getBoundingClientRect().right > 360.5).map(e => e.outerHTML.slice(0, 80))`)
		if len(wide) > 0 {
			t.Errorf("/%s: out of sight: %q", path, wide)
		}
		if h := eval[float64](b, `Math.min(...[...document.querySelectorAll("button, input[type=search], summary")].map(e => e.getBoundingClientRect().height))`); h < 24 {
			t.Errorf("/%s: something to tap is %v high", path, h)
		}
	}
}

// Light and dark differ, and in both every text can be read: a contrast of 4.5, WCAG's AA.
func TestColours(t *testing.T) {
	r := busy(t)
	grounds := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		b := open(t, r.url, 1280, 1000, prefers("prefers-color-scheme", scheme))
		b.until(`/open \d|success \d/.test(` + text(card("insurer", ".charts")) + `)`)
		grounds[eval[string](b, `getComputedStyle(document.body).backgroundColor`)] = true
		eval[chromedp.Void](b, contrast)
		if n := eval[int](b, `texts().length`); n < 50 {
			t.Errorf("%s: only %d texts", scheme, n)
		}
		if pale := eval[[]string](b, `texts().filter(([ratio]) => !(ratio >= 4.5)).map(([ratio, text, colours]) => ratio.toFixed(2) + " " + text + " " + colours)`); len(pale) > 0 {
			t.Errorf("%s: %q", scheme, pale)
		}
	}
	if len(grounds) != 2 {
		t.Errorf("%v", grounds)
	}
}

// contrast defines texts, which returns for every text that is shown its contrast with what it is on.
const contrast = `
function luminance(colour) {
	const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
	return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function ground(e) {
	for (; e; e = e.parentElement) {
		const c = getComputedStyle(e).backgroundColor;
		if (c !== "rgba(0, 0, 0, 0)") return c;
	}
}
function texts() {
	return [...document.querySelectorAll("body *:not(script)")].filter(e => e.checkVisibility() && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())).map(e => {
		const over = ground(e), colour = getComputedStyle(e).color;
		const [a, b] = [luminance(colour), luminance(over)];
		return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.textContent.trim().slice(0, 30), colour + " on " + over];
	});
}`

// Who asks for less motion gets none.
func TestReducedMotion(t *testing.T) {
	r := newRig(t, "sber")
	for value, want := range map[string]bool{"reduce": false, "no-preference": true} {
		b := open(t, r.url, 1280, 800, prefers("prefers-reduced-motion", value))
		if moves := eval[bool](b, `[...document.querySelectorAll("*")].some(e => parseFloat(getComputedStyle(e).transitionDuration) > 0)`); moves != want {
			t.Errorf("%s: moves: %v", value, moves)
		}
	}
}

// A thousand systems: it goes on updating, can be filtered, and draws only what is in sight.
func TestThousand(t *testing.T) {
	r := newRig(t)
	for i := range 1000 {
		r.add(fmt.Sprintf("system-%d", i))
	}
	b := open(t, r.url, 1280, 800)
	b.until(`document.querySelectorAll(".card").length === 1000`)
	before := r.polls.Load()
	last := r.client("system-999")
	last.ForceOpen(0)
	b.until(`document.title === "(1 open) resilient"`)
	b.until(`document.querySelectorAll(".plot path[d^=M]").length > 0`)
	if drawn := eval[int](b, `[...document.querySelectorAll(".card")].filter(c => c.querySelector(".plot path[d]")).length`); drawn > 100 {
		t.Errorf("%d cards are drawn", drawn)
	}
	b.do(chromedp.Click(chromedp.CSS("#summary a"))) // to the one that is not closed
	b.until(text(card("system-999", ".state")) + `.endsWith("forced open")`)
	b.press("/", "9", "9", "9")
	b.until(`[...document.querySelectorAll(".card:not([hidden])")].map(c => c.id).join() === "system-system-999"`)
	last.Automatic()
	giveBack := r.hold(last)
	defer giveBack()
	b.until(text(card("system-999", ".use-chart ul")) + `.startsWith("1 of 16")`)
	if r.polls.Load() <= before {
		t.Error("it does not ask")
	}
}
