#!/usr/bin/env bash
# notes.sh VERSION: prints what CHANGELOG.md says of a version. It fails if that is nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:?vX.Y.Z}
notes=$(awk -v heading="## [${version#v}]" 'index($0, "## ") == 1 { within = index($0, heading) == 1; next } within' CHANGELOG.md)
[ -n "$notes" ] || { echo "release/notes.sh: CHANGELOG.md says nothing of ${version#v}: rename Unreleased" >&2; exit 1; }
printf '%s\n' "$notes"
