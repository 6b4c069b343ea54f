#!/usr/bin/env bash
# ensure-interop.sh: builds, if possible, the programs in other languages that share locks with ours
# (tests/interop). It installs no language: if one is missing, or a package is not available, it says
# so and succeeds, and those tests are skipped. It fails if a program does not compile.
set -uo pipefail
cd "$(dirname "$0")/interop" || exit 1

needs() {
  case $1 in
    java) echo "a JDK of version 17 or later, and Maven" ;;
    python) echo "Python 3.9 or later, with venv and pip" ;;
    typescript) echo "Node.js 20 or later, with npm" ;;
  esac
}

failed=0
for language in java python typescript; do
  ./setup.sh "$language" >/dev/null
  case $? in
    0) ;;
    3) printf '\n!!! Locks shared with programs in %s are NOT TESTED: see above. They need\n!!! %s.\n\n' "$language" \
      "$(needs "$language")" >&2 ;;
    *) failed=1 ;;
  esac
done
exit "$failed"
