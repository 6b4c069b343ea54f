#!/usr/bin/env bash
# ensure-chromium.sh: installs, if possible, a Chromium for the tests of the inspector.
#
# It does nothing if HOLDFAST_TEST_CHROMIUM names one, or if it finds one.
# Otherwise it installs one with the system's package manager, as root or with
# a sudo that asks no password. If none is available it says so and succeeds,
# and those tests are skipped.
set -uo pipefail
. "$(dirname "$0")/packages.sh"

present() {
  local name
  [ -n "${HOLDFAST_TEST_CHROMIUM:-}" ] && return
  # The same as in tests/ui/browser_test.go.
  for name in chromium chromium-browser google-chrome google-chrome-stable \
    '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome' /Applications/Chromium.app/Contents/MacOS/Chromium; do
    command -v "$name" >/dev/null && return
  done
  return 1
}

packages='apt-get --no-install-recommends chromium
apt-get --no-install-recommends chromium-browser
dnf chromium
apk chromium
pacman chromium
brew --cask chromium'

ensure "Chromium" && exit
cat >&2 <<END

!!! The inspector is NOT TESTED in a browser: there is no Chromium, and none could be
!!! installed. Install one of these packages:

$(by_hand)

or name the program:  HOLDFAST_TEST_CHROMIUM=/path/to/chromium make nightly

END
exit 0
