// Charts: plain SVG, 1000 units wide and 100 high, and stretched.

const WIDE = 1000;
const HIGH = 100;

function svg(name, attributes = {}, ...children) {
	const node = document.createElementNS("http://www.w3.org/2000/svg", name);
	for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
	node.append(...children);
	return node;
}

function html(name, attributes = {}, ...children) {
	const node = document.createElement(name);
	for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
	node.append(...children); // text stays text
	return node;
}

// roundUp returns a round number, not below n, for the top of a chart.
function roundUp(n) {
	const unit = 10 ** Math.floor(Math.log10(n));
	return unit * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((m) => n <= m * unit * 1.000001);
}

// runs splits points where one is null or too long after the one before, so that no line is drawn where nothing was seen.
function runs(points, gap) {
	const all = [[]];
	let last = null;
	for (const p of points) {
		if (!p || (last && p.at - last.at > gap)) all.push([]);
		if (p) all.at(-1).push(p);
		last = p;
	}
	return all.filter((run) => run.length > 0);
}

// A Chart draws layers: {kind, style, value: (sample) => number or null}. An area is stacked on those before it; a line is not.
class Chart {
	constructor(layers, format = String) {
		this.layers = layers;
		this.format = format; // of the value at the top
		this.label = html("span", { class: "top-value" });
		this.cursor = svg("line", { class: "cursor", y1: 0, y2: HIGH, visibility: "hidden" });
		this.paths = layers.map(({ kind, style }) => svg("path", { class: `${kind} ${style}` }));
		this.element = html("div", { class: "plot", "aria-hidden": "true" },
			svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none" }, ...this.paths, this.cursor), this.label);
	}

	draw(samples, { from, to, gap, cursor }) {
		let top = 0;
		const base = samples.map(() => 0);
		const drawn = this.layers.map(({ kind, value }) => samples.map((s, i) => {
			const v = value(s);
			if (v === null) return null;
			const low = kind === "area" ? base[i] : 0;
			if (kind === "area") base[i] += v;
			top = Math.max(top, low + v);
			return { at: s.at, low, high: low + v };
		}));
		this.label.textContent = top > 0 ? this.format(roundUp(top)) : "";
		top = top > 0 ? roundUp(top) : 1;
		const x = (t) => (((t - from) / (to - from)) * WIDE).toFixed(1);
		const y = (v) => (HIGH * (1 - (0.94 * v) / top)).toFixed(1); // a line at the top is whole
		drawn.forEach((points, i) => {
			const path = runs(points, gap).map((run) => {
				const along = (points, edge) => points.map((p) => `${x(p.at)} ${y(p[edge])}`).join("L");
				const line = `M${along(run, "high")}`;
				return this.layers[i].kind === "area" ? `${line}L${along([...run].reverse(), "low")}Z` : line;
			});
			this.paths[i].setAttribute("d", path.join(""));
		});
		point(this.cursor, cursor, x);
	}
}

// A Strip shows the breaker's states: the worse, the higher.
class Strip {
	static looks = {
		closed: ["good", 25], forced_closed: ["good", 25], half_open: ["warn", 60], open: ["bad", 100], forced_open: ["bad", 100],
	};

	constructor() {
		this.bars = svg("g");
		this.cursor = svg("line", { class: "cursor", y1: 0, y2: HIGH, visibility: "hidden" });
		this.element = html("div", { class: "plot", "aria-hidden": "true" },
			svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none" }, this.bars, this.cursor));
	}

	draw(samples, { from, to, gap, cursor }) {
		const x = (t) => ((t - from) / (to - from)) * WIDE;
		const bars = [];
		samples.forEach(({ at, state }, i) => {
			const next = Math.min(samples[i + 1]?.at ?? to, at + gap);
			const last = bars.at(-1);
			if (last?.state === state && last.until === at) last.until = next;
			else bars.push({ state, since: at, until: next });
		});
		this.bars.replaceChildren(...bars.map(({ state, since, until }) => {
			const [style, height] = Strip.looks[state] ?? ["other", 100];
			return svg("rect", { class: `area ${style}`, x: x(since).toFixed(1), width: Math.max(2, x(until) - x(since)).toFixed(1), y: HIGH - height, height });
		}));
		point(this.cursor, cursor, (t) => x(t).toFixed(1));
	}
}

function point(line, cursor, x) {
	line.setAttribute("visibility", cursor === null ? "hidden" : "visible");
	if (cursor === null) return;
	line.setAttribute("x1", x(cursor));
	line.setAttribute("x2", x(cursor));
}

