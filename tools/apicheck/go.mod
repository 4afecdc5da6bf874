// Compares the library's exported API with its listing in api and with the last release, away from the library's module graph.
module github.com/resilient-go/resilient/tools/apicheck

go 1.26.0

require (
	golang.org/x/exp v0.0.0-20261014143641-f0251eb4aa3e
	golang.org/x/tools v0.52.0
)

require (
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
