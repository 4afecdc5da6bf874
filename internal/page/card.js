// A card shows one system. The server has made it; here it gets its charts, and what is in it is kept up to date.

const words = (label) => label.replaceAll("_", " ");
const percent = (share) => `${Math.round(share * 100)} %`;
const clock = (t) => new Date(t).toLocaleTimeString([], { hourCycle: "h23" });

function span(ms) {
	const s = Math.max(0, Math.round(ms / 1000));
	if (s < 60) return `${s} s`;
	return s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

function rate(n) {
	return n >= 10 ? n.toFixed(0) : String(Number(n.toFixed(n >= 1 ? 1 : 2)));
}

function time(seconds) {
	const ms = seconds * 1000;
	return ms < 1000 ? `${Number(ms.toPrecision(2))} ms` : `${Number(seconds.toPrecision(2))} s`;
}

const sum = (counts, of) => of.reduce((all, word) => all + (counts[word] ?? 0), 0);

// stack returns the layers of a chart of groups, from samples' counts of that name.
function stack(groups, name) {
	const known = Object.values(groups).flat();
	return Object.entries(groups).map(([style, of]) => ({
		kind: "area", style,
		value: (s) => s[name] && sum(s[name], style === "other" ? [...of, ...Object.keys(s[name]).filter((w) => !known.includes(w))] : of),
	}));
}

// lines replaces what is in a list, unless it is that already.
function lines(list, items) {
	const text = JSON.stringify(items);
	if (list.shown === text) return;
	list.shown = text;
	list.replaceChildren(...items.map(([before, value, after = "", style = ""]) => html("li", {},
		...(style ? [html("span", { class: `key ${style}`, "aria-hidden": "true" })] : []), before, html("b", {}, value), after)));
}

function write(node, text) {
	if (node.textContent !== text) node.textContent = text;
}

class Card {
	history = new History();
	visible = false;
	#charts;

	constructor(element) {
		this.element = element;
		const find = (selector) => element.querySelector(selector);
		const into = (selector, chart) => {
			find(selector).querySelector(".plot")?.remove(); // of the card that this one is a copy of
			find(selector).append(chart.element);
			find(selector).hidden = false;
			return chart;
		};
		for (const bar of element.querySelectorAll(".bar")) bar.remove(); // its chart says that
		this.#charts = [
			into(".state-chart", new Strip()),
			into(".use-chart", new Chart([
				{ kind: "area", style: "calm", value: (s) => s.active },
				{ kind: "area", style: "warn", value: (s) => s.waiting },
				{ kind: "stroke dashed", style: "soft", value: (s) => s.limit },
			])),
			into(".requests-chart", new Chart(stack(OUTCOMES, "requests"), (n) => `${rate(n)}/s`)),
			into(".refusals-chart", new Chart(stack(REFUSALS, "refusals"), (n) => `${rate(n)}/s`)),
			into(".latency-chart", new Chart([
				{ kind: "stroke dashed", style: "soft", value: (s) => s.p50 },
				{ kind: "stroke", style: "calm", value: (s) => s.p95 },
			], time)),
		];
		for (const late of element.querySelectorAll(".live, .axis")) late.hidden = false;
		const charts = find(".charts");
		charts.tabIndex = 0;
		charts.setAttribute("role", "group");
	}

	get name() {
		return this.now.name;
	}

	// troubled says whether people would want to look at it.
	get troubled() {
		const { bulkhead, breaker, health } = this.now;
		const last = this.history.samples.at(-1);
		return breaker.state !== "closed" || bulkhead.utilization > 0.8 || bulkhead.waiting > 0 || health.status === "unhealthy" ||
			Object.keys(last.refusals ?? {}).length > 0;
	}

	take(at, system) {
		this.now = system;
		this.history.add(at, system);
	}

	// show draws what the view asks for: all until view.to, or as it was at view.cursor.
	show(view) {
		const { element, now } = this;
		const find = (selector) => element.querySelector(selector);
		const { breaker } = now;
		const state = find(".state");
		if (!state.classList.contains(breaker.state)) {
			element.className = `card ${breaker.state}`;
			state.className = `state ${breaker.state}`;
		}
		write(state, words(breaker.state));
		write(find(".why"), this.#why(view.server));
		write(find(".flight"), `${now.in_flight} in flight${now.in_flight > 0 ? `, the oldest for ${now.oldest}` : ""}`);
		write(find(".executions"), `${now.executions} executions`);
		this.#health(now.health);
		this.#past(view.server);
		this.#values(this.history.at(view.cursor ?? view.to));
		write(find(".axis span"), view.cursor === null ? `${span(view.to - view.from)} ago` : `as it was ${span(view.to - view.cursor)} ago`);
		for (const chart of this.#charts) chart.draw(this.history.samples, view);
	}

	#why(server) {
		const { breaker, observing } = this.now;
		const said = [];
		if (breaker.reason) said.push(words(breaker.reason));
		if (breaker.failure_rate) said.push(`${percent(breaker.failure_rate)} failed`);
		if (breaker.open_until) said.push(`${breaker.state === "open" ? "probes" : "ends"} in ${span(Date.parse(breaker.open_until) - server)}`);
		return said.join(", ") + (observing ? " Only observes: nothing is refused." : "");
	}

	#health({ status, checked, error }) {
		const node = this.element.querySelector(".health");
		node.className = `health ${status}`;
		write(node, status + (checked ? `, checked at ${clock(checked)}` : "") + (error ? `: ${error}` : ""));
		while (node.nextSibling) node.nextSibling.remove(); // what the server wrote there
	}

	#past(server) {
		const list = this.element.querySelector(".past");
		const few = this.element.parentElement.classList.contains("one") ? 10 : 3;
		const last = this.now.breaker.transitions.slice(-few).reverse();
		const text = last.map((t) => t.at).join();
		if (list.shown !== text) {
			list.shown = text;
			list.replaceChildren(...last.map((t) => html("li", {}, html("time", { datetime: t.at }, clock(t.at)), ` ${words(t.from)} → ${words(t.to)}`,
				t.reason ? `, ${words(t.reason)}` : "", t.failure_rate ? `, ${percent(t.failure_rate)} failed` : "", html("span"))));
		}
		last.forEach((t, i) => write(list.children[i].lastChild, `, ${span(server - Date.parse(t.at))} ago`));
	}

	// values writes what a sample says beside the charts.
	#values(s) {
		const list = (name) => this.element.querySelector(`.${name}-chart ul`);
		const rates = (counts, groups) => Object.values(groups).flat().concat(Object.keys(counts)).filter((w, i, all) => counts[w] && all.indexOf(w) === i)
			.map((w) => [`${words(w)} `, rate(counts[w]), "", group(groups, w)]);
		lines(list("use"), [["", String(s.active), ` of ${s.limit}`, "calm"], ["waiting ", String(s.waiting), "", "warn"]]);
		const none = [["none", ""]];
		lines(list("requests"), Object.keys(s.requests ?? {}).length > 0 ? rates(s.requests, OUTCOMES) : none);
		lines(list("refusals"), Object.keys(s.refusals ?? {}).length > 0 ? rates(s.refusals, REFUSALS) : none);
		lines(list("latency"), s.p95 === null ? none : [["p50 ", time(s.p50), "", "soft"], ["p95 ", time(s.p95), "", "calm"]]);
	}

	// said returns what a sample says, for who can't see it.
	said(view) {
		const text = [...this.element.querySelectorAll(".charts section")].map((s) => {
			const items = [...s.querySelectorAll("li")].map((li) => li.textContent);
			return items.length > 0 ? `${s.querySelector("h3").textContent}: ${items.join(", ")}` : "";
		});
		return `${this.name}, ${span(view.to - view.cursor)} ago: breaker ${words(this.history.at(view.cursor).state)}; ${text.filter(Boolean).join("; ")}`;
	}
}

