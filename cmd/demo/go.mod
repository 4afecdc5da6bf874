module github.com/resilient-go/resilient/cmd/demo

go 1.26.0

replace github.com/resilient-go/resilient => ../..
