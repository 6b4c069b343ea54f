#!/usr/bin/env bash
# suite.sh STEP...: runs the steps, all of them even when one fails, then says
# in one line each how they went. It fails when one has failed. The Makefile
# calls it, and sets the versions that it uses.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
root=$PWD
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

summary=()
failed=0

run() { # run LABEL FOLDER COMMAND...
  local label=$1 folder=$2 began=$SECONDS verdict=ok
  shift 2
  echo "--- $label"
  if ! (cd "$folder" && "$@"); then
    verdict=FAIL
    failed=1
  fi
  summary+=("$(printf '%-4s  %4ds  %s' "$verdict" $((SECONDS - began)) "$label")")
}

each() { # each COMMAND...: in every module of go.work
  local folder name
  while read -r folder; do
    name=${folder#"$root"}
    run "$* (in ${name:-/})" "$folder" "$@"
  done <<<"$modules"
}

format() {
  local files
  files=$(gofmt -l .) || return 1
  [ -z "$files" ] || { printf 'not formatted with gofmt:\n%s\n' "$files"; return 1; }
}

# The adapter's go.mod names the oldest go-redis that is supported. go.work would hide
# it behind the newest that any module asks for.
goredis_oldest() {
  local version
  version=$(GOWORK=off go list -m -f '{{.Version}}' github.com/redis/go-redis/v9) || return 1
  [ "$version" = "$GOREDIS_OLDEST" ] || { echo "go.mod asks for go-redis $version, not $GOREDIS_OLDEST"; return 1; }
  GOWORK=off go test -race $TESTFLAGS ./adapters
}

goredis_newest() {
  cp go.mod go.sum "$scratch" &&
    GOWORK=off go get -modfile="$scratch/go.mod" "github.com/redis/go-redis/v9@$GOREDIS_NEWEST" &&
    GOWORK=off go mod tidy -modfile="$scratch/go.mod" &&
    GOWORK=off go test -race $TESTFLAGS -modfile="$scratch/go.mod" ./adapters
}

modules=$(go list -m -f '{{.Dir}}') || exit 1
for step in "$@"; do
  case $step in
    format) run "gofmt" . format ;;
    vet) each go vet ./... ;;
    staticcheck) each go run "honnef.co/go/tools/cmd/staticcheck@$STATICCHECK" ./... ;;
    tidy) each env GOWORK=off go mod tidy -diff ;;
    portable)
      each env GOOS=windows go vet ./...
      each env GOOS=darwin go vet ./...
      ;;
    test) each go test -race $TESTFLAGS ./... ;;
    goredis)
      run "go test with go-redis $GOREDIS_OLDEST (in /tests)" tests goredis_oldest
      run "go test with go-redis $GOREDIS_NEWEST (in /tests)" tests goredis_newest
      ;;
    soak) run "go test for $HOLDFAST_SOAK (in /tests)" tests go test -race -count=1 -v $TESTFLAGS -timeout 0 ./processes ;;
    *) echo "suite.sh: no step $step" >&2; exit 2 ;;
  esac
done
printf '\n'
printf '%s\n' "${summary[@]}"
exit "$failed"
