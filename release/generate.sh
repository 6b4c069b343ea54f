#!/usr/bin/env bash
# generate.sh VERSION: writes what packages have beside the program to release/generated: manual pages and completions, which
# the command makes itself.
set -euo pipefail
cd "$(dirname "$0")/.."

to=release/generated
rm -rf "$to"
mkdir -p "$to/man" "$to/completions"
go build -buildvcs=false -o "$to/holdfast" \
  -ldflags "-X github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli.stampedVersion=${1:?VERSION}" ./cmd/holdfast
"$to/holdfast" man --dir "$to/man"
gzip -9n "$to"/man/*
"$to/holdfast" completion bash >"$to/completions/holdfast.bash"
"$to/holdfast" completion zsh >"$to/completions/_holdfast"
"$to/holdfast" completion fish >"$to/completions/holdfast.fish"
rm "$to/holdfast"
