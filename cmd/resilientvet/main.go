// Resilientvet finds habits in calls of external systems that the rule book
// (docs/rules.md) has a rule against: clients without bounds, bodies left open,
// a client for each request, a Timeout over ours, one client for two systems.
//
// It runs alone or under go vet, which also looks at what build tags select:
//
//	resilientvet ./...
//	go vet -vettool=$(which resilientvet) ./...
//
// resilientvet help lists the analyzers, resilientvet help NAME says more of one.
// A finding that is meant is let pass by a comment with the reason, at the end
// of its line or on the line before:
//
//	client := &http.Client{} //resilient:ignore this is the demonstration of what goes wrong
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/resilient-go/resilient/cmd/resilientvet/habits"
)

func main() { multichecker.Main(habits.Analyzers()...) }
