#!/usr/bin/env bash
# vulncheck.sh: looks for known vulnerabilities in what the modules of users call, with the versions that their go.mod ask for,
# and in the standard library of the Go that runs it. It fails if there is one. It asks the Go vulnerability database, or the
# one that $VULNDB names; if that cannot be reached, it says so, and exits with 3.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

govulncheck=golang.org/x/vuln/cmd/govulncheck@${GOVULNCHECK:?call make vulncheck}
database=${VULNDB:-https://vuln.go.dev}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

failed=
export GOWORK=off
for module in $(release/modules.sh); do
  echo "--- $module"
  (cd "$module" && go run "$govulncheck" -db "$database" ./...) 2>&1 | tee "$scratch/said"
  [ "${PIPESTATUS[0]}" = 0 ] || failed=1
  if grep -qE '^(govulncheck: fetching vulnerabilities|creating client:)' "$scratch/said"; then
    echo "release/vulncheck.sh: NOT CHECKED: the database $database cannot be reached from here. Set VULNDB to a mirror, or run" >&2
    echo "this where it can be." >&2
    exit 3
  fi
done
[ -z "$failed" ] || { echo "release/vulncheck.sh: see above: update what is vulnerable, or Go itself" >&2; exit 1; }
echo "no known vulnerability, as of $(date -u +%F)"
