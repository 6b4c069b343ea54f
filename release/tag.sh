#!/usr/bin/env bash
# tag.sh VERSION: makes a release. In a commit of its own, which is on no branch, every module of
# users' names the others by that version, without replace directives: with them "go install MODULE@VERSION"
# refuses a module. Then each module gets its tag. Nothing is pushed.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:-}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || { echo "usage: release/tag.sh vX.Y.Z[-PRE]" >&2; exit 2; }
[ -z "$(git status --porcelain)" ] || { echo "release/tag.sh: there are changes that are not committed" >&2; exit 1; }
! git rev-parse -q --verify "refs/tags/$version" >/dev/null || { echo "release/tag.sh: there is a tag $version already" >&2; exit 1; }

path=github.com/holdfast-go/holdfast
modules=$(release/modules.sh)
here=$(git symbolic-ref -q --short HEAD || git rev-parse HEAD)
trap 'git checkout -q -f "$here"' EXIT
git checkout -q --detach

for module in $modules; do
  edits=()
  while read -r required; do
    edits+=("-dropreplace=$required" "-require=$required@$version")
  done < <(go mod edit -json "$module/go.mod" | sed -n 's|.*"Path": "\('"$path"'[^"]*\)".*|\1|p' | sort -u | grep -vx "$path${module#.}")
  [ ${#edits[@]} -eq 0 ] || go mod edit "${edits[@]}" "$module/go.mod"
done
git commit -q -a -m "Release $version" --allow-empty
for module in $modules; do
  tag=$version
  [ "$module" = . ] || tag=${module#./}/$version
  git tag -a -m "Release $version" "$tag"
  echo "tagged $tag"
done
echo "To publish: git push origin $version $(for module in $modules; do [ "$module" = . ] || printf '%s ' "${module#./}/$version"; done)"
