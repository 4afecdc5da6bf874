// The page: it asks for the states, and shows them.

const LEAST = 1_000; // ms between two questions
const AFTER_FAILURE = 3_000;
const MOST = 15_000;
const SHARE = 10; // asking and drawing take at most a tenth of the time
const SHORTEST = 60_000; // ms that a chart shows, growing to KEPT

const main = document.getElementById("systems");
const one = main.classList.contains("one");
const news = document.getElementById("news");
const problem = document.getElementById("problem");

const cards = new Map(); // by name, in the order of the page
const view = { from: 0, to: 0, server: 0, gap: 5_000, cursor: null };
let first = null; // when the first answer came
let paused = false;
let timer = 0;
let asking = null; // how to stop the last question

// Only what can be seen is drawn.
const sight = new IntersectionObserver((entries) => {
	for (const { target, isIntersecting } of entries) {
		const card = [...cards.values()].find((c) => c.element === target);
		if (!card) continue;
		card.visible = isIntersecting;
		if (isIntersecting && card.now) card.show(view);
	}
}, { rootMargin: "200px" });

function adopt(element, name) {
	const card = new Card(element);
	element.id = `system-${name}`;
	element.querySelector(".charts").setAttribute("aria-label", `Charts of ${name}; the arrow keys look back in time`);
	element.querySelector("details").addEventListener("toggle", ({ target }) => target.open && settings(target, name));
	cards.set(name, card);
	sight.observe(element);
	return card;
}

// added makes a card like the others, in its place among them.
function added(name) {
	const pattern = main.querySelector(".card");
	if (!pattern) {
		location.reload(); // the first one: the server makes it
		return null;
	}
	const element = pattern.cloneNode(true);
	const link = element.querySelector("h2 a");
	link.textContent = name;
	link.setAttribute("href", encodeURIComponent(name));
	element.querySelector("details").open = false;
	element.querySelector("dl").replaceChildren();
	const next = [...main.querySelectorAll(".card")].find((e) => e.querySelector("h2").textContent > name);
	main.insertBefore(element, next ?? null);
	return adopt(element, name);
}

// settings are asked for when somebody wants to see them: they seldom change, and are most of what there is to tell.
async function settings(details, name) {
	try {
		const answer = await fetch(`${one ? "" : encodeURIComponent(name)}?format=json`);
		const { config } = await answer.json();
		details.querySelector("dl").replaceChildren(...Object.keys(config).sort().flatMap((key) => [html("dt", {}, key), html("dd", {}, config[key])]));
	} catch {
		details.querySelector("dl").replaceChildren(html("dt", {}, "no answer"));
	}
}

async function ask() {
	const began = performance.now();
	const { signal } = (asking = new AbortController());
	try {
		const answer = await fetch("?format=live", { signal: AbortSignal.any([signal, AbortSignal.timeout(MOST)]) });
		if (answer.status === 404 && one) {
			failed("This client is gone.");
		} else if (!answer.ok) {
			failed(`The server answers ${answer.status}.`);
		} else {
			const said = await answer.json();
			if (!signal.aborted) take(said, Date.parse(answer.headers.get("Date")) || Date.now());
		}
	} catch {
		if (!signal.aborted) failed("The server does not answer.");
	}
	if (signal.aborted) return; // paused; and perhaps it goes on already
	const pause = Math.min(MOST, Math.max(since === null ? LEAST : AFTER_FAILURE, SHARE * (performance.now() - began)));
	view.gap = Math.max(5_000, 4 * pause);
	timer = setTimeout(ask, pause);
}

let since = null; // when it last went well, while it does not

function failed(what) {
	since ??= view.to || Date.now();
	write(problem, `${what} What is shown is from ${clock(since)}.`);
	document.body.classList.add("stale");
	titled();
}

function take(said, server) {
	const now = Date.now();
	const systems = one ? [said] : said.systems;
	first ??= now;
	since = null;
	write(problem, "");
	document.body.classList.remove("stale");
	Object.assign(view, { to: now, server, from: now - Math.min(KEPT, Math.max(SHORTEST, now - first)) });

	const changes = [];
	const seen = new Set();
	for (const system of systems) {
		const card = cards.get(system.name) ?? added(system.name);
		if (!card) return;
		seen.add(system.name);
		const before = card.now?.breaker.state;
		card.take(now, system);
		if (before && before !== system.breaker.state) changes.push(`${system.name}: breaker ${words(system.breaker.state)}, was ${words(before)}`);
	}
	for (const [name, card] of cards) {
		if (seen.has(name)) continue;
		cards.delete(name);
		sight.unobserve(card.element);
		card.element.remove();
	}
	if (changes.length > 0) tell(changes.slice(0, 5).join(". ") + (changes.length > 5 ? `. And ${changes.length - 5} more` : ""));
	if (!one) summary(said.summary);
	titled();
	filter();
	draw();
}

function draw() {
	for (const card of cards.values()) if (card.visible && card.now && !card.element.hidden) card.show(view);
}

// tell says it to a screen reader; the same words again would not be read.
function tell(text) {
	news.textContent = text;
}

function titled() {
	const open = [...cards.values()].filter(({ now }) => now && ["open", "forced_open"].includes(now.breaker.state)).length;
	const what = since !== null ? "no answer" : open > 0 ? `${open} open` : "";
	document.title = `${what ? `(${what}) ` : ""}${one ? `${[...cards.keys()][0] ?? ""} · ` : ""}resilient${paused ? ", paused" : ""}`;
	const icon = document.querySelector("link[rel=icon]");
	const href = icon.href.replace(/fill='[^']*'/, `fill='%23${open > 0 || since !== null ? "b42318" : "1a7f37"}'`);
	if (href !== icon.href) icon.href = href;
}

function summary(s) {
	const line = document.getElementById("summary");
	const text = JSON.stringify(s);
	if (line.shown === text) return;
	line.shown = text;
	const names = (label, all) => (all.length === 0 ? [] : [` ${label}: `,
		...all.slice(0, 20).flatMap((n, i) => [i > 0 ? ", " : "", html("a", { href: `#system-${n}` }, n)]), all.length > 20 ? ` and ${all.length - 20} more.` : "."]);
	line.replaceChildren(`${s.systems} systems, ${s.max_connections} connections at most${s.max_connections_limit ? ` of ${s.max_connections_limit}` : ""}.`,
		...names("Above 80 % of their permits", s.busy), ...names("Not closed", s.not_closed));
}

// The tools are made here, since without a script they would do nothing.
const wanted = html("input", { type: "search", id: "filter", placeholder: "name", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/" });
const troubled = html("input", { type: "checkbox", id: "troubled" });
const shown = html("span", { id: "shown", role: "status" });
const pauser = html("button", { type: "button", id: "pause", "aria-keyshortcuts": "p" }, "Pause");

function filter() {
	if (one) return;
	const text = wanted.value.trim().toLowerCase();
	let n = 0;
	for (const [name, card] of cards) {
		const fits = name.includes(text) && (!troubled.checked || (card.now && card.troubled));
		const keep = fits || card.element.contains(document.activeElement); // nobody loses the place they are at
		n += keep ? 1 : 0;
		if (card.element.hidden === keep) card.element.hidden = !keep;
	}
	write(shown, n < cards.size ? `${n} of ${cards.size} shown` : "");
}

function pause() {
	paused = !paused;
	write(pauser, paused ? "Go on" : "Pause");
	clearTimeout(timer);
	if (paused) asking.abort();
	else ask();
	titled();
	tell(paused ? "Paused" : "Goes on");
}

function look(to) {
	view.cursor = to === null ? null : Math.min(view.to, Math.max(view.from, first, to));
	draw();
}

function pointed(event) {
	const plot = event.target.closest?.(".charts")?.querySelector(".plot svg")?.getBoundingClientRect();
	if (plot?.width > 0) look(view.from + ((event.clientX - plot.left) / plot.width) * (view.to - view.from));
}

function pressed(event) {
	if (event.ctrlKey || event.metaKey || event.altKey) return;
	const { key, target } = event;
	if (target === wanted) {
		if (key === "Escape") {
			wanted.value = "";
			filter();
		}
		return;
	}
	const charts = target.closest?.(".charts");
	const step = (view.to - view.from) / 60;
	const from = view.cursor ?? view.to;
	const moves = { ArrowLeft: from - step, ArrowRight: from + step, Home: view.from, End: view.to };
	if (key === "/" && !one) wanted.focus();
	else if (key === "p") pause();
	else if (key === "Escape" && view.cursor !== null) look(null);
	else if (charts && key in moves) {
		look(moves[key]);
		const card = [...cards.values()].find((c) => c.element.contains(charts));
		tell(card.said(view));
	} else return;
	event.preventDefault();
}

const tools = html("div", { id: "tools" });
if (!one) tools.append(html("label", {}, "Filter ", wanted), html("label", {}, troubled, "only trouble"));
tools.append(pauser, shown);
document.querySelector(".top").insertBefore(tools, problem);
pauser.addEventListener("click", pause);
wanted.addEventListener("input", () => { filter(); draw(); });
troubled.addEventListener("change", () => { filter(); draw(); });
document.addEventListener("keydown", pressed);
main.addEventListener("pointermove", pointed);
main.addEventListener("pointerleave", () => look(null));
main.addEventListener("focusout", () => { if (view.cursor !== null) look(null); });

for (const element of main.querySelectorAll(".card")) adopt(element, element.id.slice("system-".length));
ask();
