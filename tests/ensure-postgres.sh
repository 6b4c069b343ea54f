#!/usr/bin/env bash
# ensure-postgres.sh: installs, if possible, a PostgreSQL for the tests of fences.
#
# It does nothing if HOLDFAST_TEST_POSTGRES names one, or if it finds one.
# Otherwise it installs one with the system's package manager, as root or with
# a sudo that asks no password. A service that the package starts does not
# matter: tests start servers of their own. If none is available it says so and
# succeeds, and those tests are skipped.
set -uo pipefail
. "$(dirname "$0")/packages.sh"

present() {
  local bin
  [ -n "${HOLDFAST_TEST_POSTGRES:-}" ] && return
  command -v postgres >/dev/null && return
  # The same as in tests/internal/postgres/binary.go.
  for bin in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* \
    /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin; do
    [ -x "$bin/initdb" ] && [ -x "$bin/postgres" ] && return
  done
  return 1
}

packages='apt-get --no-install-recommends postgresql
dnf postgresql-server
apk postgresql
pacman postgresql
brew postgresql'

ensure "PostgreSQL" && exit
cat >&2 <<END

!!! Fences in PostgreSQL are NOT TESTED: there is no PostgreSQL, and none could be
!!! installed. Install one of these packages:

$(by_hand)

or name the folder of its programs:  HOLDFAST_TEST_POSTGRES=/path/to/bin make nightly

END
exit 0
