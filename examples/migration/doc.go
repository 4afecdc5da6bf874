// Package migration has the examples of docs/migration.md: what a service has, and what it has afterwards, both run
// against the same server.
package migration
