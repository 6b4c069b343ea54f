SHELL := bash

# The versions that checks and tests use.
export STATICCHECK    := v0.8.2
export GOREDIS_OLDEST := v9.20.1
export GOREDIS_NEWEST := v9.23.0

# The versions that releases and their checks use.
export GORELEASER  := v2.15.1
export CYCLONEDX   := v1.10.0
export APIDIFF     := v0.0.0-20261113113407-e3970619a1a4
export GOVULNCHECK := v1.9.0

# Further flags of go test, such as TESTFLAGS='-run TestMutex -v'. A busy machine needs more than go test's 10 minutes.
override TESTFLAGS := -timeout 30m $(TESTFLAGS)
export TESTFLAGS

# How long "make soak" looks for what may go wrong; what it counts takes its time.
SOAK ?= 10m

# Further flags of the bench, such as BENCH='-cells held -rounds 3'; BENCH=-help lists them.
BENCH ?=

.DEFAULT_GOAL := help
.PHONY: help test gate nightly check verify mutants soak bench pictures proof snapshot draft image apidiff vulncheck server everything

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: server ## Run the tests that a person waits for, on one server: 75 seconds, and the time to build
	@tests/suite.sh quick

check: ## Run gofmt, vet (what users build also for Windows), staticcheck and go mod tidy -diff; see that nothing has grown: a minute
	@tests/suite.sh check

gate: server ## What must pass before a change goes in, and nothing that is left to chance: 8 minutes
	@tests/suite.sh check quick gate

nightly: everything ## Explore: all tests, under the race detector, on every server, with other languages and databases; campaigns, random worlds, mutants: an hour
	@tests/suite.sh everything goredis explore mutants

verify: ## Check the models of the protocol exhaustively, with spin: 8 minutes
	@models/verify.sh

mutants: server ## Hunt every mutant once
	@tests/suite.sh mutants

soak: everything ## Run campaigns, simulation and storms for SOAK=10m; then losses of data, leaks, topologies, lies, quorums, other languages, mutants; print a report
	@tests/suite.sh soak $(SOAK)

bench: everything ## Compare with the bare commands and with other libraries, 25 minutes; BENCH=-quick: two
	cd tests/bench && go run . -svg free.svg $(BENCH)

pictures: server ## Take the pictures in docs/pictures anew: of the inspector, the demo, and the dashboard
	@tests/ensure-chromium.sh
	cd tests && go run ./cmd/screen ../docs/pictures/screen.svg go run ../cmd/holdfast demo --seed 4 --record ../docs/pictures/demo.svg
	cd tests && go test -count=1 -run TestPictures ./ui -pictures "$(CURDIR)/docs/pictures"
	@tests/dashboard/picture.sh docs/pictures

proof: ## Prove that a release could be installed: tags in a clone, a module proxy, an empty cache; and that apidiff and vulncheck find things
	@release/prove.sh
	@release/prove_checks.sh

snapshot: ## Build what a release has into dist/, publish nothing, and check it: programs, deb, rpm, checksums, SBOMs
	@release/goreleaser.sh snapshot

draft: ## In a checkout of the tag VERSION=vX.Y.Z: build what the release has, and draft it on GitHub
	@release/goreleaser.sh release "$(VERSION)"

image: ## Build the image of deploy/Dockerfile, or without docker what can be built of it
	@release/image.sh

apidiff: ## Compare the API of all modules with that of the last release; fail if the next version must not change it so
	@release/apidiff.sh

vulncheck: ## Look for known vulnerabilities in what the modules call; VULNDB=URL: another database than Go's
	@release/vulncheck.sh

server: ## Make sure that there is a redis-server or valkey-server, installing one if need be
	@tests/ensure-redis.sh

everything: server ## Make sure that there are also PostgreSQL, programs in Java, Python and TypeScript, Chromium, and Prometheus
	@tests/ensure-postgres.sh
	@tests/ensure-interop.sh
	@tests/ensure-chromium.sh
	@tests/ensure-prometheus.sh
