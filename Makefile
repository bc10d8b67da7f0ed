# Skein. `make` alone says what there is.

GO      ?= go
BIN     := bin/skein
# Concurrent packages are tested with the race detector; the others are pure or covered by these.
RACED   := ./internal/store/... ./internal/engine/... ./internal/worker/... ./internal/server/... ./internal/app/... .
PLAIN   := $$($(GO) list ./... | grep -v -E 'skein.dev/skein(/internal/(store|engine|worker|server|app)(/|$$)|$$)')
TIMEOUT ?= 14m

.DEFAULT_GOAL := help

.PHONY: help
help: ## say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.PHONY: run
run: build ## build, start a node on 127.0.0.1:8080 (the next free port if taken), load the examples, say what to try
	@exec $(BIN) dev

.PHONY: build
build: ## build bin/skein
	@$(GO) build -o $(BIN) ./cmd/skein

.PHONY: test
test: tools vet ## install what the tests need and run them all (≤ 15 minutes on 2 cores)
	$(GO) test -race -timeout $(TIMEOUT) $(RACED)
	$(GO) test -timeout $(TIMEOUT) $(PLAIN)

.PHONY: vet
vet: ## look for mistakes without running anything
	$(GO) vet ./...

.PHONY: tools
tools: ## install what the tests need: Go modules, sh, python3 and a C compiler for the race detector
	@$(GO) mod download
	@missing=; for t in sh:dash python3:python3 gcc:gcc; do \
		command -v $${t%%:*} >/dev/null || missing="$$missing $${t##*:}"; done; \
	if [ -n "$$missing" ]; then \
		sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
		$$sudo apt-get update -q && $$sudo apt-get install -qy --no-install-recommends $$missing libc6-dev; fi

.PHONY: bench
bench: build ## measure this machine: every shape, beside the raw limit of its disk
	@$(BIN) bench --shape all

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist
