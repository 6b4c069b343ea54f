#!/usr/bin/env bash
# apidiff.sh: compares the API of all modules that users import with that of the last release, by tag. It prints what has
# changed, and fails if that is incompatible and the version that is being worked on ("next" in the command's version.go) does
# not allow it: from v1 on, only another major version does; before, another minor version.
set -euo pipefail
cd "$(dirname "$0")/.."

apidiff=golang.org/x/exp/cmd/apidiff@${APIDIFF:?call make apidiff}
path=github.com/holdfast-go/holdfast
# Tags of releases are on no branch: git describe does not find them.
last=$(git -c versionsort.suffix=- tag --list 'v[0-9]*' --sort=-version:refname | sed -n 1p)
next=v$(sed -n 's/^const next = "\(.*\)"$/\1/p' cmd/holdfast/internal/cli/version.go)
if [ -z "$last" ]; then
  echo "nothing to compare with: there is no tag of a release yet"
  exit
fi

# The commit before the tag's is the same with go.mod files by which modules find each other in the checkout.
git diff --quiet "$last^" "$last" -- ':!*go.mod' || { echo "release/apidiff.sh: $last was not made by release/tag.sh" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
git clone -q --no-checkout . "$scratch/last"
git -C "$scratch/last" checkout -q --detach "$last^"

export GOWORK=off
modules() { "$1/release/modules.sh" | grep -vx ./cmd/holdfast; }
incompatible=
for module in $(modules "$scratch/last"); do
  name=$path${module#.}
  if [ ! -f "$module/go.mod" ]; then
    printf '%s\nIncompatible changes:\n- the module is gone\n\n' "$name"
    incompatible=1
    continue
  fi
  (cd "$scratch/last/$module" && go run "$apidiff" -m -w "$scratch/old" "$name" 2>"$scratch/said") || { cat "$scratch/said" >&2; exit 1; }
  (cd "$module" && go run "$apidiff" -m "$scratch/old" "$name" >"$scratch/changes" 2>"$scratch/said") || { cat "$scratch/said" >&2; exit 1; }
  [ ! -s "$scratch/changes" ] || { echo "$name"; cat "$scratch/changes"; echo; }
  ! grep -q '^Incompatible changes' "$scratch/changes" || incompatible=1
done
comm -13 <(modules "$scratch/last" | sort) <(modules . | sort) | sed "s#^\.#new module: $path#"

if [ -z "$incompatible" ]; then
  echo "no incompatible change since $last"
  exit
fi
IFS=.- read -r last_major last_minor _ <<<"$last"
IFS=.- read -r next_major next_minor _ <<<"$next"
if [ "$next_major" != "$last_major" ] || [ "$next_major" = v0 ] && [ "$next_minor" != "$last_minor" ]; then
  echo "incompatible changes since $last, which $next may have: CHANGELOG.md has to say what users do about them"
  exit
fi
echo "release/apidiff.sh: incompatible changes since $last, which $next must not have" >&2
exit 1
