// The project's own tools: mutate, loc and deps. Standard library only, so that they build in a second.
// The pinned foreign tools are modules apart (lint, codegen, vuln), so that their graphs do not mix.
module github.com/resilient-go/resilient/tools

go 1.26.0
