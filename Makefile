# Needs Go and make; `make race` and `make reload` also a C compiler. The pinned tools build themselves, the first time in a minute or two.

# Packages whose size is limited (loc), and those that mutants are made of.
CORE := . config semaphore transport internal/exchange
MUTATED := ./internal/exchange ./semaphore ./transport ./config
LOC_MAX := 6700

# Every module of this tree with packages of its own, the root first. Those that only pin a tool have none,
# those under e2e need more than Go, and examples builds half of the ecosystem: make examples.
PINS := tools/lint tools/codegen tools/ogen tools/swagger tools/buf tools/vuln
MODULES ?= $(filter-out $(PINS) examples e2e e2e/%,$(patsubst %/go.mod,%,$(patsubst go.mod,.,$(wildcard go.mod */go.mod */*/go.mod))))

COUNT ?= 1
FUZZTIME ?= 10s
RELOAD ?= 60s
BENCH ?= .
BENCHTIME ?= 1s
MODELS ?= 4000
SOAK ?= 10m
ARGS ?=

# A workspace file of the developer's would change what is built, and does not go with -modfile.
export GOWORK := off
# Pure Go, so that no C compiler is needed where it is missing, and the result is the same where it is not.
export CGO_ENABLED := 0

LINT := go tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint

# $(call each,commands) runs the commands in the directory of every module that has packages, and stops at the first failure.
# (No `|| exit` after the subshell: the shell would then ignore set -e in it.)
each = @set -e; for m in $(MODULES); do ( \
	cd $$m; pkgs=$$(go list ./...); [ -n "$$pkgs" ] || exit 0; \
	echo "== $$m"; $(1) ); done

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Run the demo; ARGS="…" are its arguments
	@cd cmd/demo && go run . $(ARGS)

.PHONY: test
test: ## Vet and test every module
	$(call each,go vet ./...; go test -shuffle=on ./...)

.PHONY: race
race: export CGO_ENABLED := 1
race: ## Test under the race detector, COUNT times; needs a C compiler
	$(call each,go test -race -shuffle=on -count=$(COUNT) ./...)

.PHONY: reload
reload: export CGO_ENABLED := 1
reload: ## Reload a client every 10 ms under load for RELOAD, under the race detector; needs a C compiler
	go test -race -count=1 -run=TestReloadUnderLoad -reload=$(RELOAD) -v .

.PHONY: netns
netns: ## Test against networks that lose packets, in namespaces; needs Linux, root and iproute2, or is skipped
	@go vet -tags=netns ./internal/faults
	@go test -tags=netns -count=1 -v -run='^TestNetns$$' ./internal/faults

.PHONY: bench
bench: ## Compare with bare net/http and the peers, on a quiet machine, and write docs/performance.md; ARGS=-quick only shows that it works
	@go -C bench run . $(ARGS)

.PHONY: bench-go
bench-go: ## Run the packages' own benchmarks; BENCH=regexp, BENCHTIME=1s
	$(call each,go test -run='^$$' -bench='$(BENCH)' -benchmem -benchtime=$(BENCHTIME) ./...)

.PHONY: isolation
isolation: ## Measure what one dead partner costs the calls of 19 others, on a quiet machine: docs/isolation.md, in two minutes
	go run ./internal/isolation -out=docs/isolation.md

.PHONY: soak
soak: export RESILIENT_SOAK := $(SOAK)
soak: ## A mixed load with all faults on for SOAK=10m: counts are conserved, and nothing grows
	go test -count=1 -timeout=1h -run='^TestSoak$$' -v .

.PHONY: examples
examples: ## Test, lint and regenerate the examples of other libraries' clients, which takes minutes the first time
	@$(MAKE) --no-print-directory test lint generate-check MODULES=examples

.PHONY: e2e-monitoring
e2e-monitoring: ## Judge monitoring/ with promtool and with a Prometheus that scrapes the demo; needs Debian's prometheus, or is skipped
	@go -C e2e/monitoring run .

.PHONY: e2e
e2e: foreign e2e-page e2e-monitoring ## What needs more than Go and this tree

.PHONY: foreign
foreign: ## Run others' test suites, net/http's among them, with every client wrapped; ARGS="-only sse"; -write for docs/foreign.md
	@go -C e2e/foreign run . $(ARGS)

.PHONY: e2e-page
e2e-page: ## Test the page in Chromium, which is installed from Debian's packages if it is missing
	@e2e/page/chromium.sh
	@cd e2e/page && go vet ./... && go test -count=1 -timeout=5m -v ./...

.PHONY: screenshot
screenshot: ## Write docs/page.png, the README's picture of the page: the demo's, after a minute
	@e2e/page/chromium.sh
	@cd e2e/page && go test -count=1 -run='^TestDemo$$' -screenshot=$(CURDIR)/docs/page.png ./...

.PHONY: lint
lint: ## Run the pinned golangci-lint over every module
	$(call each,$(LINT) run --config=$(CURDIR)/.golangci.yml ./...)

.PHONY: api
api: ## List the library's exported API again, in api
	@go -C tools/apicheck run . -C $(CURDIR) -write

.PHONY: api-check
api-check: ## Fail if the API is not as api lists it, or breaks users of the last tag; api/breaks.txt lists what is meant to
	@go -C tools/apicheck run . -C $(CURDIR)

.PHONY: habits
habits: ## Run resilientvet, our own analyzers of calls to external systems, over every module
	@go -C cmd/resilientvet build -o $(CURDIR)/.cache/resilientvet .
	$(call each,go vet -vettool=$(CURDIR)/.cache/resilientvet ./...)

.PHONY: deps
deps: ## Fail if the library has a module or a licence that docs/dependencies.md does not have; ARGS=-write writes it
	@go -C tools run ./deps -C .. $(ARGS)

.PHONY: vuln
vuln: ## Look for known vulnerabilities in every module; needs vuln.go.dev, and fails without
	$(call each,$(CURDIR)/tools/vuln.sh $$pkgs)

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME
	$(call each,$(CURDIR)/tools/fuzz.sh $(FUZZTIME) $$pkgs)

.PHONY: models
models: ## Try the parts against their slow references, MODELS times each: a million steps and more, in some minutes
	@tools/models.sh $(MODELS)

.PHONY: cover
cover: ## Measure the library's test coverage: the total, and cover.html
	@go test -coverprofile=cover.out -coverpkg="$$(go list ./... | grep -v /internal/testserver | paste -sd, -)" ./...
	@go tool cover -html=cover.out -o cover.html
	@go tool cover -func=cover.out | tail -n 1

.PHONY: mutate
mutate: ## Count what the core's tests notice of changes to its code; ARGS="-sample 40"
	@go -C tools run ./mutate -C .. $(ARGS) $(MUTATED)

.PHONY: cases
cases: ## Prove each test of a fault seen in public: green as it is, red with its mutation; ARGS="-only 'P-0' -update"
	@go -C tools run ./cases prove $(ARGS)

.PHONY: cases-page
cases-page: ## Write docs/cases.md again, from its table
	@go -C tools run ./cases check -update

.PHONY: loc
loc: ## Count the core's lines of code, and fail when they grow past LOC_MAX: see ARCHITECTURE.md, Size
	@go -C tools run ./loc -max $(LOC_MAX) $(addprefix ../,$(CORE))

.PHONY: generate
generate: ## Write the generated code again
	$(call each,go generate ./...)

.PHONY: generate-check
# Compares two copies, so that it also works on a tree with changes in it, and leaves it alone.
generate-check: ## Fail if the generated code is not what its sources say
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; mkdir "$$tmp/now" "$$tmp/new"; \
	tar --exclude=./.git --exclude=./.cache -cf - . | tar -xf - -C "$$tmp/now"; \
	cp -R "$$tmp/now/." "$$tmp/new"; \
	$(MAKE) --no-print-directory -C "$$tmp/new" generate; \
	cd "$$tmp"; diff -ru now new || { echo 'the generated code has drifted: make generate'; exit 1; }
