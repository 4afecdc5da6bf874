// What was seen of each system, for as long as the charts show. The server keeps nothing.

const KEPT = 300_000; // ms
const LATENCY_OVER = 10_000; // ms: one poll sees too few requests for a 95th percentile

// The groups of outcomes and of refusals, in the order in which they are stacked. What is in none is "other".
const OUTCOMES = {
	good: ["success"],
	bad: ["error_status", "transport_error", "timeout", "panic"],
	other: ["cancelled", "abandoned", "upgraded", "invalid"],
};
const REFUSALS = {
	warn: ["full", "waited"],
	bad: ["open"],
	other: ["closed", "paused", "late", "would be full", "would be open"],
};

function group(groups, word) {
	return Object.keys(groups).find((g) => groups[g].includes(word)) ?? "other";
}

// counters returns what only grows, by name.
function counters({ bulkhead, counts }) {
	const { requests = {}, executions = {}, refusals = {}, would_refuse: would = {} } = counts;
	const requested = {};
	for (const [outcome, n] of Object.entries(requests)) {
		if (!outcome.startsWith("refused_")) requested[outcome] = n;
	}
	const refused = { full: bulkhead.rejected_full, waited: bulkhead.rejected_waited, ...refusals };
	for (const why of ["open", "closed"]) {
		refused[why] = (requests[`refused_${why}`] ?? 0) + (executions[`refused_${why}`] ?? 0);
	}
	for (const why of Object.keys(would)) refused[`would be ${why}`] = would[why];
	return { requested, refused, buckets: counts.latency.buckets ?? {} };
}

// grown returns what now has more than before, or null if it has less: then it is another client of that name.
function grown(now, before) {
	const more = {};
	for (const key of Object.keys(before)) if (!(now[key] >= before[key])) return null;
	for (const [key, n] of Object.entries(now)) if (n > (before[key] ?? 0)) more[key] = n - (before[key] ?? 0);
	return more;
}

// quantile estimates, within the bucket it falls into, what a share q of the values is below; in seconds.
function quantile(q, buckets, bounds) {
	const all = Object.values(buckets).reduce((sum, n) => sum + n, 0);
	let rank = q * all;
	let lower = 0;
	for (const bound of bounds) {
		const n = buckets[bound] ?? 0;
		if (n > 0 && rank <= n) return bound === "+Inf" ? lower : lower + (Number(bound) - lower) * (rank / n);
		rank -= n;
		lower = Number(bound);
	}
	return null;
}

class History {
	samples = []; // the oldest first
	#before = null;
	#recent = []; // as far back as latency is taken over

	add(at, system) {
		const { bulkhead, breaker } = system;
		const now = { at, ...counters(system) };
		const sample = {
			at, state: breaker.state, active: bulkhead.active, limit: bulkhead.max_concurrent, waiting: bulkhead.waiting,
			requests: null, refusals: null, p50: null, p95: null,
		};
		const before = this.#before;
		const requested = before && grown(now.requested, before.requested);
		const refused = before && grown(now.refused, before.refused);
		if (requested && refused) {
			const perSecond = (counts) => {
				for (const key of Object.keys(counts)) counts[key] *= 1000 / (at - before.at);
				return counts;
			};
			sample.requests = perSecond(requested);
			sample.refusals = perSecond(refused);
		} else {
			this.#recent = [];
		}
		this.#before = now;
		this.#recent.push(now);
		while (this.#recent.length > 2 && this.#recent[1].at <= at - LATENCY_OVER) this.#recent.shift();
		const took = grown(now.buckets, this.#recent[0].buckets);
		if (took) {
			const bounds = Object.keys(now.buckets).sort((a, b) => Number(a.replace("+Inf", "Infinity")) - Number(b.replace("+Inf", "Infinity")));
			sample.p50 = quantile(0.5, took, bounds);
			sample.p95 = quantile(0.95, took, bounds);
		}
		this.samples.push(sample);
		while (this.samples[0].at < at - KEPT) this.samples.shift();
	}

	// at returns the last sample until t, or the first.
	at(t) {
		return this.samples.findLast((s) => s.at <= t) ?? this.samples[0];
	}
}

