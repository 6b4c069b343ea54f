#!/usr/bin/env bash
# goreleaser.sh snapshot | release VERSION [FLAG...] | check: runs goreleaser in the version that $GORELEASER names, with what it calls
# for the list of what a program is made of ($CYCLONEDX). Both come from the module proxy.
#
#   snapshot         builds everything into dist/ and publishes nothing; then release/check.sh looks at it
#   release VERSION  in a checkout of the tag: builds everything, and drafts a release on GitHub (GITHUB_TOKEN), or with
#                    --skip=publish does not
#   check            reads the configuration
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
install() {
  GOBIN=$tools GOFLAGS='' go install "$1" 2>"$tools/log" || {
    cat "$tools/log" >&2
    echo "release/goreleaser.sh: $1 cannot be had" >&2
    exit 1
  }
}
install "github.com/goreleaser/goreleaser/v2@${GORELEASER:?call make snapshot}"
install "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@${CYCLONEDX:?call make snapshot}"
export PATH=$tools:$PATH

case ${1-} in
  check) goreleaser check ;;
  snapshot)
    goreleaser release --snapshot --clean
    release/check.sh
    ;;
  release)
    version=${2:?vX.Y.Z}
    # Each module has a tag on this commit; goreleaser is to take the root's.
    export GORELEASER_CURRENT_TAG=$version
    release/notes.sh "$version" >"$tools/notes.md"
    goreleaser release --clean --release-notes "$tools/notes.md" "${@:3}"
    release/check.sh
    ;;
  *)
    echo "usage: release/goreleaser.sh snapshot | release VERSION [FLAG...] | check" >&2
    exit 2
    ;;
esac
