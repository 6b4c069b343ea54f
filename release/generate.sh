#!/usr/bin/env bash
# generate.sh writes what packages have beside the program to release/generated: completions, which the command makes itself.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf release/generated
mkdir -p release/generated/completions
go run ./cmd/holdfast completion bash >release/generated/completions/holdfast.bash
