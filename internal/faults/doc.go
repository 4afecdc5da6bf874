// Package faults proves what a client does under each fault of a network, in
// each phase of an exchange, over each protocol. It has only tests. What they
// find is docs/faults.md, which they write:
//
//	go test ./internal/faults -update
package faults
