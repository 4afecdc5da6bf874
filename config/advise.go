package config

import (
	"fmt"
	"slices"
	"time"
)

// advise records, as faults of a draft that has none, what is allowed but unwise.
func (d *draft) advise() {
	c, k, b := &d.full, &d.full.Bulkhead, &d.full.Breaker

	// One who has written off has decided.
	d.check(d.isSet(byName("Breaker.SlowCall")), "calls that all take nearly the read timeout do not open the breaker",
		fmt.Sprintf("set it to %v (half of it), or write off where a slow success is worth having", c.ReadTimeout/2), "Breaker.SlowCall")
	d.check(b.OpenFor >= c.TotalTimeout, "${Breaker.OpenFor} should be at least ${TotalTimeout}, or probes go out while calls from before the breaker opened still hang",
		"raise ${Breaker.OpenFor}, or lower ${TotalTimeout}")
	d.check(b.HalfOpenProbes > 1 || k.MaxConcurrent > 1, "a single lucky call closes the breaker, where ${Bulkhead.MaxConcurrent} lets no second one show the contrary",
		"raise it to 3", "Breaker.HalfOpenProbes")
	d.check(b.MinRequests > 1, "the first failure after a quiet window opens the breaker", "raise it", "Breaker.MinRequests")
	d.check(b.ConsecutiveFailures != 1, "any single failure opens the breaker", "raise it", "Breaker.ConsecutiveFailures")
	d.check(b.ConsecutiveFailures != Off, "a system that hangs after many successes opens the breaker only when most of these have left ${Breaker.Window}",
		"leave it unset", "Breaker.ConsecutiveFailures")

	failures, _ := ParseStatuses(b.FailureStatus) // it has been judged
	d.check(!slices.ContainsFunc([]int{400, 401, 403, 404, 409, 422}, failures.Contains), "a caller's own mistakes open the breaker for all callers",
		"leave only what the system is to blame for, such as 429,500-599", "Breaker.FailureStatus")
	d.check(slices.ContainsFunc([]int{500, 502, 503, 504}, failures.Contains), "a server that fails does not open the breaker, since this replaces 500-599",
		"add 500-599", "Breaker.FailureStatus")

	d.check(k.AcquireTimeout < c.TotalTimeout/4, "${Bulkhead.AcquireTimeout} should be below a quarter of ${TotalTimeout}, since a call may take both",
		"lower ${Bulkhead.AcquireTimeout}, or raise ${TotalTimeout}")
	d.check(k.MaxConcurrent <= share(c.MaxConnsPerHost), "${Bulkhead.MaxConcurrent} should be at most 0.8 of ${MaxConnsPerHost}, since connections being closed or dialled for nobody count there",
		fmt.Sprintf("lower ${Bulkhead.MaxConcurrent} to %d, or raise ${MaxConnsPerHost}", share(c.MaxConnsPerHost)))
	d.check(c.MaxIdleConnsPerHost >= k.MaxConcurrent, "${MaxIdleConnsPerHost} should be at least ${Bulkhead.MaxConcurrent}, or every burst throws connections away",
		"raise ${MaxIdleConnsPerHost}, or leave it unset")
	d.check(c.IdleConnTimeout < time.Minute, "many servers close a connection that was unused for 1m, and a request that meets this fails",
		"lower it to 50s, unless the system keeps connections for longer", "IdleConnTimeout")
	d.check(c.Protocol != HTTP2 || !d.isSet(byName("MaxConnsPerHost")), "${MaxConnsPerHost} is not kept under ${Protocol}",
		"leave ${Protocol} unset if that number was agreed upon, else leave ${MaxConnsPerHost} unset and set ${Bulkhead.MaxConcurrent}")

	d.check(c.Retry.MaxAttempts <= 3, "a fourth attempt hardly ever succeeds (2 % of them, by published experience), and is up to four times the load when the system can bear it least",
		"lower it to 2 or 3", "Retry.MaxAttempts")
	d.check(c.Retry.BudgetRatio <= 0.2, "when all calls fail, a system that is ill gets a fifth more of them, or more still",
		"lower it to 0.1, or leave it unset", "Retry.BudgetRatio")
}

// adviseName does so for the name of a system that no file lists.
func (s *system) adviseName(all []*system) {
	for _, other := range all {
		if other.listed && !s.listed && distance(s.name, other.name) <= 2 {
			s.fault(nil, EnvPrefix(s.name)+"…", quoteName(s.name), "is not in the file, and looks like "+other.name+", which is",
				"rename the variables to "+EnvPrefix(other.name)+"…, or list "+s.name+" under systems if it is meant")
		}
	}
}
