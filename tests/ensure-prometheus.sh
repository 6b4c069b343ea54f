#!/usr/bin/env bash
# ensure-prometheus.sh: unpacks, if possible, a Prometheus for the test of the dashboard and the alerts.
#
# It does nothing if HOLDFAST_TEST_PROMETHEUS names the folder of prometheus and
# promtool, or if both are in PATH. Otherwise it unpacks the package of Debian or
# Ubuntu into the user's cache: nothing is installed, so that no service starts. It
# updates the list of packages before that, if it may: as root, or with a sudo that
# asks no password. If none is available it says so and succeeds, and that test is
# skipped.
set -uo pipefail
. "$(dirname "$0")/packages.sh"
cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/holdfast-prometheus # the same as in tests/command/prometheus_test.go

present() {
  [ -n "${HOLDFAST_TEST_PROMETHEUS:-}" ] && return
  command -v prometheus >/dev/null && command -v promtool >/dev/null && return
  [ -x "$cache/usr/bin/prometheus" ] && [ -x "$cache/usr/bin/promtool" ]
}

unpack() {
  local scratch done=1
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return
  as_root apt-get update -q # a list that is old or empty may name a package that the mirrors do not have
  scratch=$(mktemp -d) || return
  (cd "$scratch" && apt-get download -q prometheus && dpkg-deb -x prometheus_*.deb unpacked) &&
    mkdir -p "$cache" && cp -R "$scratch/unpacked/." "$cache" && done=0
  rm -rf "$scratch"
  return "$done"
}

present && exit
echo "${0##*/}: no Prometheus: unpacking the system's package" >&2
unpack >&2 && present && exit
cat >&2 <<END

!!! The dashboard and the alerts are NOT TESTED with a Prometheus: there is none, and the system's
!!! package was not to be had. Put prometheus and promtool into PATH, or name their folder:

  HOLDFAST_TEST_PROMETHEUS=/path/to/bin make nightly

END
exit 0
