// A program apart from the library, so that golang.org/x/tools is in no user's module graph.
module github.com/resilient-go/resilient/cmd/resilientvet

go 1.26.0

require golang.org/x/tools v0.52.0

require (
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
