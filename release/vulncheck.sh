#!/usr/bin/env bash
# vulncheck.sh: looks for known vulnerabilities in what the modules of users call, with the versions that their go.mod ask for,
# and in the standard library of the Go that runs it. It fails if there is one. It asks the Go vulnerability database, or the
# one that $VULNDB names. If that cannot be reached, or govulncheck itself cannot be had, it says so, and exits with 3.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

govulncheck=golang.org/x/vuln/cmd/govulncheck@${GOVULNCHECK:?call make vulncheck}
database=${VULNDB:-https://vuln.go.dev}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

GOBIN=$scratch GOFLAGS='' go install "$govulncheck" 2>"$scratch/said" || {
  cat "$scratch/said" >&2
  echo "release/vulncheck.sh: NOT CHECKED: $govulncheck cannot be had: see GOPROXY" >&2
  exit 3
}

failed=
export GOWORK=off
for module in $(release/modules.sh); do
  echo "--- $module"
  (cd "$module" && "$scratch/govulncheck" -db "$database" ./...) 2>&1 | tee "$scratch/said"
  [ "${PIPESTATUS[0]}" = 0 ] || failed=1
  if grep -qE '^(govulncheck: fetching vulnerabilities|creating client:)' "$scratch/said"; then
    cat >&2 <<END
release/vulncheck.sh: NOT CHECKED: the database $database cannot be reached from here. Run this where it can be. Or fetch
https://vuln.go.dev/vulndb.zip there, unpack it here, and name the folder: make vulncheck VULNDB=file:///path/to/folder
END
    exit 3
  fi
done
[ -z "$failed" ] || { echo "release/vulncheck.sh: see above: update what is vulnerable, or Go itself" >&2; exit 1; }
echo "no known vulnerability, as of $(date -u +%F)"
