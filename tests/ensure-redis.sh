#!/usr/bin/env bash
# ensure-redis.sh: installs a server to test with, if there is none.
#
# It does nothing if HOLDFAST_TEST_SERVERS names servers, all of which must exist, or if
# redis-server or valkey-server is in PATH. Otherwise it installs one with the system's package
# manager, as root or with a sudo that asks no password. A service that the
# package starts does not matter: tests start servers of their own.
set -uo pipefail
. "$(dirname "$0")/packages.sh"

IFS=, read -ra named <<<"${HOLDFAST_TEST_SERVERS:-}"
for entry in ${named[@]+"${named[@]}"}; do
  read -r path <<<"${entry#*=}"
  if [ "${entry#*=}" = "$entry" ] || ! command -v "$path" >/dev/null; then
    echo "ensure-redis.sh: HOLDFAST_TEST_SERVERS: \"$entry\" is not NAME=PATH, with the path of a server" >&2
    exit 1
  fi
done

present() {
  [ -n "${HOLDFAST_TEST_SERVERS:-}" ] || command -v redis-server valkey-server >/dev/null
}

packages='apt-get redis-server
dnf valkey
dnf redis
apk valkey
apk redis
pacman valkey
brew redis'

ensure "redis-server and no valkey-server in PATH" && exit
cat >&2 <<END

The tests need a real Redis or Valkey server, and none could be installed.
Install one of these packages, so that redis-server or valkey-server is in PATH:

$(by_hand)

or name servers that you have:  HOLDFAST_TEST_SERVERS=redis-8.0=/path/to/redis-server make test
END
exit 1
