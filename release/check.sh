#!/usr/bin/env bash
# check.sh: checks what goreleaser has left in dist/: that all is there and sums up, that the programs are static and know their
# version, and that the packages have what they should, as far as there is a dpkg-deb and an rpm to look into them.
set -euo pipefail
cd "$(dirname "$0")/../dist"

fail() { echo "release/check.sh: $*" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

version=$(sed -n 's/.*"version":"\([^"]*\)".*/\1/p' metadata.json)
commit=$(sed -n 's/.*"commit":"\([^"]*\)".*/\1/p' metadata.json)
host=$(go env GOARCH)
[ -n "$version" ] && [ -n "$commit" ] || fail "metadata.json has no version or no commit"

sha256sum --quiet -c SHA256SUMS
for system in linux darwin windows; do
  for arch in amd64 arm64; do
    archive=holdfast_${version}_${system}_$arch.tar.gz
    [ "$system" != windows ] || archive=${archive%.tar.gz}.zip
    for file in "$archive" "holdfast_${version}_${system}_$arch.cdx.json"; do
      grep -q "  $file\$" SHA256SUMS || fail "SHA256SUMS has no $file"
    done
    grep -q '"pkg:golang/github.com/redis/go-redis/v9@' "holdfast_${version}_${system}_$arch.cdx.json" || fail "the list for $system/$arch does not name go-redis"
    program=$(echo holdfast_${system}_"$arch"*/holdfast*)
    go version -m "$program" >"$scratch/build"
    for setting in "GOOS=$system" "GOARCH=$arch" CGO_ENABLED=0 -trimpath=true; do
      grep -q -- "$setting\$" "$scratch/build" || fail "$program was not built with $setting"
    done
  done
done

# knows PROGRAM: it runs, and says what it is.
knows() {
  local said
  said=$("$1" version --json)
  [[ $said == *"\"version\":\"$version\",\"commit\":\"$commit\","* ]] || fail "$1 says $said, not $version, $commit"
}

mkdir "$scratch/archive"
tar -xzf "holdfast_${version}_linux_$host.tar.gz" -C "$scratch/archive" --strip-components=1
knows "$scratch/archive/holdfast"
for file in LICENSE CHANGELOG.md man/holdfast-run.1.gz completions/holdfast.bash systemd/holdfast-ui.service; do
  [ -s "$scratch/archive/$file" ] || fail "the archive has no $file"
done
if command -v chroot >/dev/null && [ "$(id -u)" = 0 ]; then
  # It needs nothing else, not even a file system.
  mkdir "$scratch/empty" && cp "$scratch/archive/holdfast" "$scratch/empty/"
  chroot --userspec=65532:65532 "$scratch/empty" /holdfast version >/dev/null || fail "the program is not static"
else
  echo "NOT CHECKED: whether the program runs in an empty file system (that takes root and a chroot)"
fi

# holds LIST: a package's files, as a list with permissions, owners and names.
holds() {
  local pattern
  for pattern in '-rwxr-xr-x .*/usr/bin/holdfast' '-rw------- .*/etc/holdfast/holdfast.env' '-rw------- .*/etc/holdfast/ui.env' 'drwxr-xr-x .*/etc/holdfast/jobs/?' \
    '/usr/lib/systemd/system/holdfast@.service' '/usr/lib/systemd/system/holdfast@.timer' '/usr/lib/systemd/system/holdfast-ui.service' \
    '/usr/share/man/man1/holdfast.1.gz' '/usr/share/man/man1/holdfast-run.1.gz' '/usr/share/bash-completion/completions/holdfast' \
    '/usr/share/zsh/[a-z-]*/_holdfast' '/usr/share/fish/vendor_completions.d/holdfast.fish' '/usr/share/doc/holdfast/copyright'; do
    grep -Eq -- "^.*$pattern\$" "$1" || fail "$1 has no $pattern"
  done
}

if command -v dpkg-deb >/dev/null; then
  for arch in amd64 arm64; do
    deb=holdfast_${version}_linux_$arch.deb
    grep -q "  $deb\$" SHA256SUMS || fail "SHA256SUMS has no $deb"
    dpkg-deb -c "$deb" | sed 's# \./# /#' >"$scratch/files of $deb"
    holds "$scratch/files of $deb"
    [ "$(dpkg-deb -f "$deb" Architecture)" = "$arch" ] || fail "$deb is for $(dpkg-deb -f "$deb" Architecture)"
    [ "$arch" != "$host" ] || { dpkg-deb -x "$deb" "$scratch/deb" && knows "$scratch/deb/usr/bin/holdfast"; }
    dpkg-deb -e "$deb" "$scratch/control-$arch"
    grep -qx /etc/holdfast/ui.env "$scratch/control-$arch/conffiles" || fail "$deb would overwrite /etc/holdfast/ui.env"
  done
  bash -n "$scratch/deb/usr/share/bash-completion/completions/holdfast"
  gunzip -c "$scratch/deb/usr/share/man/man1/holdfast.1.gz" | grep -q "\"holdfast ${version//-/.}" || fail "the manual is of another version"
else
  echo "NOT CHECKED: the debs, since there is no dpkg-deb"
fi
if command -v rpm >/dev/null; then
  for arch in amd64 arm64; do
    rpm=holdfast_${version}_linux_$arch.rpm
    grep -q "  $rpm\$" SHA256SUMS || fail "SHA256SUMS has no $rpm"
    rpm -qplv "$rpm" >"$scratch/files of $rpm"
    holds "$scratch/files of $rpm"
    rpm -qpc "$rpm" | grep -qx /etc/holdfast/ui.env || fail "$rpm would overwrite /etc/holdfast/ui.env"
  done
else
  echo "NOT CHECKED: the rpms, since there is no rpm"
fi
echo "checked: $version, $(wc -l <SHA256SUMS) files in dist/"
