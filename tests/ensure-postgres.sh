#!/usr/bin/env bash
# ensure-postgres.sh: makes sure, if it can, that there is a PostgreSQL to test
# fences with.
#
# It does nothing when HOLDFAST_TEST_POSTGRES names one or when one is found.
# Otherwise it installs one with the system's package manager, as root or with
# a sudo that asks no password. A service that the package starts is of no
# concern: tests start servers of their own. When none can be had it says so and
# succeeds: those tests are skipped then.
set -uo pipefail

present() {
  local bin
  [ -n "${HOLDFAST_TEST_POSTGRES:-}" ] && return
  command -v postgres >/dev/null && return
  # As tests/postgres/binary.go.
  for bin in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* \
    /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin; do
    [ -x "$bin/initdb" ] && [ -x "$bin/postgres" ] && return
  done
  return 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_server() {
  if command -v apt-get >/dev/null; then
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends postgresql
  elif command -v dnf >/dev/null; then
    as_root dnf install -qy postgresql-server
  elif command -v apk >/dev/null; then
    as_root apk add --no-progress postgresql
  elif command -v pacman >/dev/null; then
    as_root pacman -S --noconfirm postgresql
  elif command -v brew >/dev/null; then
    brew install --quiet postgresql
  else
    echo "ensure-postgres.sh: no package manager that it knows" >&2
    return 1
  fi
}

present && exit 0
echo "ensure-postgres.sh: no PostgreSQL found: installing one" >&2
install_server >&2
hash -r
present && exit 0
cat >&2 <<'END'

!!! Fences in PostgreSQL are NOT TESTED: there is no PostgreSQL, and none could be
!!! installed. Install one of these packages:

  Debian, Ubuntu:  apt-get install postgresql
  Fedora, RHEL:    dnf install postgresql-server
  Alpine:          apk add postgresql
  Arch:            pacman -S postgresql
  macOS:           brew install postgresql

or name the folder of its programs:  HOLDFAST_TEST_POSTGRES=/path/to/bin make test

END
exit 0
