// Package examples has a directory for each library that takes a client of ours: the lines that do it, between
// the marks that ../docs/drop-in.md quotes, and a test of them and of the library's traps against a real server.
package examples
