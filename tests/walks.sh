#!/usr/bin/env bash
# walks.sh counts, for each walk of tests/cmd/walk, the functions of the library that run, and the files, packages
# and types that they are in. Adapters, with the driver that they share, and the embedded server do not count. "walks.sh -v"
# also lists the functions of the walk "acquire".
set -euo pipefail
cd "$(dirname "$0")"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -cover -covermode=atomic -coverpkg=github.com/holdfast-go/holdfast/... -o "$dir/walk" ./cmd/walk
printf '%-32s %9s %5s %8s %5s\n' walk functions files packages types
GOCOVERDIR=$dir "$dir/walk" | sort | while read -r walk; do
  mkdir -p "$dir/$walk"
  # On one processor the same goroutines wait and go on each time.
  GOMAXPROCS=1 GOCOVERDIR=$dir WALK_DIR="$dir/$walk" "$dir/walk" "$walk"
  go tool covdata func -i="$dir/$walk" >"$dir/functions"
  awk '
    $NF == "0.0%" || !/^github.com\/holdfast-go\/holdfast\// { next }
    /\/(tests|holdfasttest|holdfastgoredis|holdfastrueidis|internal\/adapter|internal\/pubsub|internal\/bounds|internal\/resp|internal\/printable)\// { next }
    { print }' "$dir/functions" >"$dir/passed"
  if [ "$walk $*" = "acquire -v" ]; then sed 's/^/passed /' "$dir/passed"; fi
  awk -v walk="$walk" '
    {
      file = $1; sub(/:.*/, "", file); pkg = file; sub(/\/[^\/]*$/, "", pkg)
      functions++; files[file]; packages[pkg]
      if ($2 ~ /\./) { type = $2; sub(/\..*/, "", type); types[pkg "." type] }
    }
    END { printf "%-32s %9d %5d %8d %5d\n", walk, functions, length(files), length(packages), length(types) }
  ' "$dir/passed"
done
