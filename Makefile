# Everything a contributor needs; make help lists it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -s -w -X github.com/breakwaterhq/breakwater/internal/cli.version=$(VERSION)
TOOL     := $(GO) tool -modfile=tools/go.mod
# Builds what makes packages, unless it is there, and says where.
PACKAGER := $(GO) tool -modfile=tools/packages/go.mod -n nfpm
# A count, not a time: Go 1.26 may call the end of the time a failure (golang/go#75804).
FUZZTIME ?= 20000x
EPOCH    := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null),315532800)
RUN      ?=
BENCH    ?=
KILLS    ?= 100
CUTS     ?= 100
SEED     ?= 1
PART     ?= .

# SQLite is C translated to Go that keeps its data outside of Go's memory, where
# the race detector looks at nothing; only asking it takes most of the time.
RACE := -race $(foreach p,sqlite/lib libc memory,-gcflags=modernc.org/$(p)=-race=false)
# Packages that work alone: a run shares nothing with another. They have all
# their tests without the race detector, ten times as fast, and some with it.
ALONE = $(shell $(GO) list ./... | grep -E '/(lane|sim)$$')
# The packages that take longest, so that they do not start when all others have
# ended. Two of them wait more than they work.
LONG := ./test/process ./internal/dispatch ./internal/lane ./test/torture ./internal/store/postgres ./internal/store/sqlite

# Many tests of a package at a time, however few cores there are: a good part of
# them wait for a limit, a lease or a database most of the time.
PARALLEL := -parallel 8

# Compiling says nothing for as long as it takes.
PATIENCE := compiling Breakwater: a minute or two the first time, seconds later

.PHONY: help run build release test quick check format lint vulncheck notice bench microbench fuzz storms torture postgres node php promtool chromium screenshots demo scene benchui manpages completions clean

run: build ## start a server for trying things out
	bin/breakwater serve --dev

help: ## this list
	@grep -E '^[a-z]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z]+):[^#]*## (.*)/\1\t\2/' | expand -t 14

# What is compiled is the same as for go run and go install, so that nobody waits
# twice. Binaries for other machines are made by release.
build: ## binary for this machine in bin/
	@echo '$(PATIENCE)' >&2
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/breakwater ./cmd/breakwater

# Static, and the same bytes from the same commit and Go in whatever folder.
release: ## archives, packages, checksums and bills of materials in dist/; TARGETS=host for less, SIGN_KEY=file to sign
	@echo 'compiling what makes releases: a minute or two the first time' >&2
	@nfpm=$$($(PACKAGER)); set -x; \
	$(GO) run ./internal/release/make -version '$(VERSION)' -time '$(EPOCH)' -targets '$(TARGETS)' -nfpm "$$nfpm" \
		-downloads '$(DOWNLOADS)' -sign-key '$(SIGN_KEY)' -go '$(GO)'

# The order is the order of patience: what fails fast comes first.
# Nothing is taken from the cache: tests of the real binary depend on more than
# their own package.
test: check postgres node php promtool chromium ## everything: format, vet, all tests with -race, short fuzzing, linters
	$(GO) test -count=1 $(ALONE)
	$(GO) test $(RACE) -count=1 -run 'Seeds|RunMany' $(filter %/sim,$(ALONE))
	@echo 'go test -race, all packages'
	@$(GO) test $(RACE) -count=1 -timeout 75m -p 3 $(PARALLEL) $(LONG) $(filter-out %/sim,$(shell $(GO) list ./...))
	$(MAKE) --no-print-directory fuzz
	scripts/lint-if-possible

quick: format ## in a minute: format, vet, tests without PostgreSQL, processes and -race
	@GO=$(GO) scripts/quick $(PARALLEL)

check: format ## format, vet, and that NOTICE names what the binary carries
	@GO=$(GO) scripts/notice --check

format:
	@unformatted=$$(gofmt -l $$(find . -name '*.go' -not -path './.git/*')); \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...

postgres: ## the store tests need its programs
	@scripts/install-postgres

node: ## the tests of signatures and of the OpenAPI document with JavaScript need it
	@scripts/install-node

php: ## the test of the programs in docs/receiving.md needs it
	@scripts/install-php

promtool: ## the tests of alert rules and metrics need it
	@scripts/install-promtool

chromium: ## the tests of the dashboard need it
	@scripts/install-chromium

demo: build ## watch an outage and its end, in this terminal
	@bin/breakwater demo

scene: ## a server in the middle of a busy day, for work on the dashboard
	@echo '$(PATIENCE)' >&2
	$(GO) run ./test/demo

# In all widths and themes, for people to look at; the few that documents show are
# chosen by hand.
screenshots: chromium ## every page of the dashboard as a picture, in build/screenshots
	UI_SCREENSHOTS=$(CURDIR)/build/screenshots $(GO) test -count=1 -timeout 30m -run TestScreenshots ./test/browser

benchui: ## server time of every page with 1,000,000 deliveries and 10,000 endpoints
	UI_SPEED=sqlite $(GO) test -count=1 -timeout 60m -v -run TestSpeed ./test/browser
	UI_SPEED=postgres $(GO) test -count=1 -timeout 60m -v -run TestSpeed ./test/browser

# The date of the pages is that of the source: the same source gives the same pages.
manpages: build ## man pages of every command, in build/man
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || date +%s)} bin/breakwater man build/man

completions: build ## completion for bash, zsh, fish and PowerShell, in build/completions
	mkdir -p build/completions
	for shell in bash zsh fish powershell; do bin/breakwater completion $$shell >build/completions/breakwater.$$shell; done

lint: ## all linters; the first run builds them, which takes minutes
	@unformatted=$$($(TOOL) gofumpt -l $$(find . -name '*.go' -not -path './.git/*')); \
	if [ -n "$$unformatted" ]; then echo "not gofumpt'ed:"; echo "$$unformatted"; exit 1; fi
	$(TOOL) staticcheck ./...
	$(TOOL) golangci-lint run --allow-parallel-runners ./...

vulncheck: ## known vulnerabilities; needs https://vuln.go.dev, or a copy of it in GOVULNDB
	@GO=$(GO) scripts/vulncheck

notice: ## write NOTICE anew, after a change of dependencies
	@GO=$(GO) scripts/notice

bench: build postgres ## the product against a bare relay; options with BENCH='--quick'
	bin/breakwater bench $(BENCH)

microbench: ## Go benchmarks; choose with RUN=Name
	$(GO) test -run '^$$' -bench '$(if $(RUN),$(RUN),.)' -benchmem ./...

fuzz: ## every fuzz target for FUZZTIME each
	@FUZZTIME=$(FUZZTIME) GO=$(GO) scripts/fuzz

# With times judged: nothing else should use the machine. The same tests are part
# of `make test` in short, and judge only counts there. One only: RUN=TestCliff.
STORMS := TestCliff|TestShortOutageOfACliff|TestEndpointsOfOneHost|TestQuietEndpointAfterOne429|TestStray429s|TestLosses|TestThreeBehindARetryAfter|TestThrott|TestRecoveryAfterAnOutage|TestFailOver|TestFullFive|TestReplayGoesOnByItself|TestSlowEndpoint|TestStart
storms: postgres ## outages, cliffs and throttling with the real binary, in full; about 20 minutes
	STORM_IN_FULL=1 $(GO) test -count=1 -timeout 60m -v -run '$(if $(RUN),$(RUN),$(STORMS))' ./test/process

# About 2 s for a kill, 1.5 s for a cut; power cuts of a cloned disk need root and
# mkfs.xfs or mkfs.btrfs. One part only: PART=TestPauses.
torture: postgres ## kills, pauses, database faults and power cuts; KILLS=500 CUTS=500 SEED=1
	TORTURE_KILLS=$(KILLS) TORTURE_CUTS=$(CUTS) TORTURE_SEED=$(SEED) \
		$(GO) test -count=1 -timeout 24h -v -run '$(PART)' ./test/torture

clean:
	rm -rf bin build dist
