#!/usr/bin/env bash
# image.sh [VERSION]: builds the image holdfast:VERSION of deploy/Dockerfile for this machine, and runs it. Where there is no
# docker, it does what docker would, as far as that goes: it runs the build step on the files that docker would send, and the
# program alone in an empty file system, as the image's user. Nothing is pushed.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "release/image.sh: $*" >&2; exit 1; }
export VERSION=${1:-0.0.0-image} COMMIT
VERSION=${VERSION#v}
COMMIT=$(git rev-parse HEAD)
want="holdfast $VERSION (go"

if docker info >/dev/null 2>&1; then
  DOCKER_BUILDKIT=1 docker build -f deploy/Dockerfile -t "holdfast:$VERSION" --build-arg VERSION --build-arg COMMIT .
  said=$(docker run --rm "holdfast:$VERSION" version)
  [[ $said == "$want"* ]] || fail "the image says $said"
  docker run --rm --read-only --cap-drop=ALL "holdfast:$VERSION" help >/dev/null
  echo "built holdfast:$VERSION: $said"
  exit
fi

echo "NOT TRIED: docker, which is not here: neither the base images nor what puts the image together"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/src" "$scratch/root"
comm -23 <(git ls-files | sort) <(git ls-files -ci --exclude-from=deploy/Dockerfile.dockerignore | sort) | tar -cf - -T - | tar -xf - -C "$scratch/src"

# The Dockerfile's only RUN, on one line, without its mounts.
run=$(sed -e ':a' -e '/\\$/{N;s/\\\n//;ba}' deploy/Dockerfile | sed -n 's/^RUN //p')
[ "$(wc -l <<<"$run")" = 1 ] || fail "there is more than one RUN, or none: $run"
run=$(sed "s/--mount=[^ ]*//g; s# /out/# $scratch/out/#" <<<"$run")
export TARGETOS=linux TARGETARCH
TARGETARCH=$(go env GOARCH)
(cd "$scratch/src" && sh -ec "$run")

user=$(sed -n 's/^USER //p' deploy/Dockerfile)
[[ $user =~ ^[1-9][0-9]*:[1-9][0-9]*$ ]] || fail "USER $user: want numbers, which Kubernetes can see not to be root"
entry=$(sed -n 's/^ENTRYPOINT \["\(.*\)"\]$/\1/p' deploy/Dockerfile)
mkdir -p "$scratch/root/$(dirname "$entry")"
cp "$scratch/out/holdfast" "$scratch/root/$entry"
if [ "$(id -u)" = 0 ]; then
  said=$(chroot --userspec="$user" "$scratch/root" "$entry" version)
else
  echo "NOT TRIED: the program in an empty file system, which takes root"
  said=$("$scratch/root/$entry" version)
fi
[[ $said == "$want"*"commit ${COMMIT:0:12}"* ]] || fail "the program says $said, not $want..."
echo "built as in the image, in $(find "$scratch/src" -type f | wc -l) files: $said"
