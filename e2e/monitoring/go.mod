module github.com/resilient-go/resilient/e2e/monitoring

go 1.26.0
