SHELL := bash

# The versions that checks and tests use.
export STATICCHECK    := v0.8.2
export GOREDIS_OLDEST := v9.20.1
export GOREDIS_NEWEST := v9.23.0

# Further flags of go test, such as TESTFLAGS='-run TestMutex -v'.
TESTFLAGS ?= -timeout 8m
export TESTFLAGS

# How long "make soak" looks for what may go wrong; what it counts takes its time.
SOAK ?= 10m

# Further flags of the bench, such as BENCH='-cells held -full'; BENCH=-help lists them.
BENCH ?=

.DEFAULT_GOAL := help
.PHONY: help test check verify slice soak bench servers

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: servers ## Run the tests of all modules under the race detector
	@tests/suite.sh test goredis

check: ## Run gofmt, vet (also for Windows and macOS), staticcheck and go mod tidy -diff
	@tests/suite.sh format vet portable staticcheck tidy

verify: ## Check the models of the protocol exhaustively, with spin
	@models/verify.sh

slice: servers ## Run a slice of what soak runs, about 23 minutes
	@tests/suite.sh slice

soak: servers ## Run campaigns, simulation and storms for SOAK=10m; then losses of data, leaks, topologies, quorums, other languages, mutants; print a report
	@tests/suite.sh soak $(SOAK)

bench: servers ## Compare with the bare commands and with other libraries, 12 minutes; BENCH=-quick: two
	cd tests/bench && go run . -svg free.svg $(BENCH)

servers: ## Make sure that there are a redis-server or valkey-server, and PostgreSQL, installing them if need be; and programs in Java and Python
	@tests/ensure-redis.sh
	@tests/ensure-postgres.sh
	@tests/ensure-interop.sh
