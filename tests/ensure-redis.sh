#!/usr/bin/env bash
# ensure-redis.sh: makes sure that there is a server to test with.
#
# It does nothing when HOLDFAST_TEST_SERVERS names servers or when redis-server
# or valkey-server is in PATH. Otherwise it installs one with the system's
# package manager, as root or with a sudo that asks no password. A service that
# the package starts is of no concern: tests start servers of their own.
set -uo pipefail

present() {
  [ -n "${HOLDFAST_TEST_SERVERS:-}" ] || command -v redis-server valkey-server >/dev/null
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_server() {
  if command -v apt-get >/dev/null; then
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy redis-server
  elif command -v dnf >/dev/null; then
    as_root dnf install -qy valkey || as_root dnf install -qy redis
  elif command -v apk >/dev/null; then
    as_root apk add --no-progress valkey || as_root apk add --no-progress redis
  elif command -v pacman >/dev/null; then
    as_root pacman -S --noconfirm valkey
  elif command -v brew >/dev/null; then
    brew install --quiet redis
  else
    echo "ensure-redis.sh: no package manager that it knows" >&2
    return 1
  fi
}

present && exit 0
echo "ensure-redis.sh: no redis-server and no valkey-server in PATH: installing one" >&2
install_server >&2
hash -r
present && exit 0
cat >&2 <<'END'

The tests need a real Redis or Valkey server, and none could be installed.
Install one of these packages, so that redis-server or valkey-server is in PATH:

  Debian, Ubuntu:  apt-get install redis-server
  Fedora, RHEL:    dnf install valkey
  Alpine:          apk add valkey
  Arch:            pacman -S valkey
  macOS:           brew install redis

or name servers that you have:  HOLDFAST_TEST_SERVERS=redis-8.0=/path/to/redis-server make test
END
exit 1
