#!/bin/sh
# fuzz.sh TIME PACKAGE...: fuzzes each target of the packages for that long.
set -eu
time=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for package; do
	targets=$(go test -list='^Fuzz' "$package")
	for target in $(echo "$targets" | grep '^Fuzz' || true); do
		echo "$package $target"
		# An input that goes another way each time can't be made smaller: a second for that, and not the minute that it would take.
		{ go test -run='^$' -fuzz="^$target\$" -fuzztime="$time" -fuzzminimizetime=1s "$package" 2>&1 || echo FAILED; } | tee "$log"
		# The go command now and then takes the end of the time for a failure of the target: it says so, and no input failed.
		if grep -q '^FAILED$' "$log"; then
			grep -q '^ *context deadline exceeded$' "$log" || exit 1
			! grep -q 'Failing input' "$log" || exit 1
			echo "(only the time was over)"
		fi
	done
done
