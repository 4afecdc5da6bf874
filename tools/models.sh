#!/bin/sh
# models.sh CHECKS: tries the parts against their slow references, CHECKS times each, and counts the steps that were taken.
set -eu
checks=$1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
models() { # share of the checks, package, tests
	go test -count=1 -timeout=1h -v -run="$3" "$2" -rapid.checks=$((checks / $1)) -rapid.steps=100 -rapid.nofailfile >"$log.1" 2>&1 ||
		{ cat "$log.1"; rm -f "$log.1"; exit 1; }
	cat "$log.1" >>"$log"
	grep -E '^ *--- PASS' "$log.1" | grep -v '/#' || true
	rm -f "$log.1"
}
models 1 ./semaphore '^(TestModel|TestRegistryModel|TestLinearizable)$'
models 1 ./internal/exchange '^(TestWalk|TestScopeModel)$'
models 1 ./transport '^(TestBreakerModel|TestForceAndReconfigureModel|TestClassificationModel|TestRetryBudget|TestRetryBudgetModel)$'
models 4 . '^(TestExecuteWalk|TestRegistryModel|TestResponses|TestObserveDecidesAsEnforcing)$'
awk '/: [0-9]+ steps$/ { n += $(NF-1) } END { print n " steps" }' "$log"
