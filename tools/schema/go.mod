// Tests the schema of files of settings with a validator, away from the library's module graph.
module github.com/resilient-go/resilient/tools/schema

go 1.26.0

replace github.com/resilient-go/resilient => ../..

require (
	github.com/resilient-go/resilient v0.0.0-00010101000000-000000000000
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.2
	go.yaml.in/yaml/v3 v3.0.6
)

require golang.org/x/text v0.14.0 // indirect
