SHELL := bash

# The versions that checks and tests use.
export STATICCHECK    := v0.8.2
export GOREDIS_OLDEST := v9.19.0
export GOREDIS_NEWEST := v9.23.0

# Further flags of go test, such as TESTFLAGS='-run TestMutex -v'.
TESTFLAGS ?= -timeout 8m
export TESTFLAGS

# How long a storm of "make soak" lasts.
SOAK ?= 1m

.DEFAULT_GOAL := help
.PHONY: help test check soak bench servers

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: servers ## Run the tests of all modules under the race detector
	@tests/suite.sh test goredis

check: ## Run gofmt, vet (also for Windows and macOS), staticcheck and go mod tidy -diff
	@tests/suite.sh format vet portable staticcheck tidy

soak: servers ## Run every storm for SOAK=1m instead of 5 s, on each server
	@HOLDFAST_SOAK=$(SOAK) tests/suite.sh soak

bench: servers ## Run the benchmarks
	cd bench && go test -run '^$$' -bench . -benchmem ./...

servers: ## Make sure that there is a redis-server or valkey-server, installing one if need be
	@tests/ensure-redis.sh
