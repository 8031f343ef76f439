# Everything that CI runs, a developer can run too. `make` lists the targets.

GO        ?= go
BIN       := bin
STORE     ?= sqlite
SOAK      ?= 1
SCALE     ?= full
FUZZTIME  ?= 10s
COMMANDS  := $(notdir $(wildcard cmd/*))

# The race detector needs cgo and a C compiler.
CC_FOUND := $(shell command -v $$($(GO) env CC) 2>/dev/null)
ifeq ($(CC_FOUND),)
RACE :=
RACE_NOTE := no C compiler found: the tests run without the race detector
else
RACE := -race
RACE_NOTE := the tests run with the race detector
endif

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help
.PHONY: help build dist deb demo test check linter bench installer-image e2e soak golden fuzz integration notices clean FORCE

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(COMMANDS:%=$(BIN)/%) ## build every command into bin/

# The Go tool knows best what has to be built anew.
$(COMMANDS:%=$(BIN)/%): $(BIN)/%: FORCE
	@CGO_ENABLED=0 $(GO) build -trimpath -o $@ ./cmd/$*

dist: ## build the archives of a release into dist/ (VERSION=, ARCHES=)
	@packaging/dist.sh dist

deb: ## build Debian packages into dist/ (VERSION=, ARCHES=)
	@packaging/deb.sh dist

demo: build ## run a whole site with simulated machines and show it (STORE=sqlite|mongo)
	@test/demo.sh $(STORE)

test: ## run all tests, with the race detector where there is a C compiler
	@echo "$(RACE_NOTE)"
	$(GO) test $(RACE) -shuffle=on -timeout 30m ./...

check: ## gofmt, vet, staticcheck, module tidiness, floors, and the docs' commands
	@test/check.sh $(STATICCHECK)

linter: ## fetch and build the linter
	@$(GO) run $(STATICCHECK) -version

bench: build ## run the benchmarks and write bench.txt (SCALE=small for a quick form)
	@SCALE=$(SCALE) BIN=$(BIN) test/bench.sh bench.txt

installer-image: $(BIN)/installer $(BIN)/installer-image ## build what machines boot their installer from (KERNEL=file MODULES=folder; none: Debian's, by apt; SIGN_KEY=file SIGN_CERT=file)
	@KERNEL=$(KERNEL) MODULES=$(MODULES) SIGN_KEY=$(SIGN_KEY) SIGN_CERT=$(SIGN_CERT) test/installer-image.sh dist/installer

e2e: build ## run what needs root, real daemons or virtual machines; installs them with apt
	@test/e2e.sh

soak: build ## run the long forms of crash, fault and fuzz tests (SOAK=n scales them)
	@SOAK=$(SOAK) test/soak.sh

fuzz: ## run every fuzz target for FUZZTIME each
	@FUZZTIME=$(FUZZTIME) test/fuzz.sh

golden: ## rewrite the golden files; read the diff before you commit it
	$(GO) test $$(git grep -l slipway/internal/golden -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's|^|./|') -update

integration: build ## run the store, state and demo on a real mongod (on PATH, or SLIPWAY_TEST_MONGO_URL)
	@test/integration.sh

notices: ## rewrite THIRD_PARTY_NOTICES from the modules that the commands link
	@test/notices.sh > THIRD_PARTY_NOTICES

clean: ## remove what the build made
	rm -rf $(BIN) dist bench.txt
