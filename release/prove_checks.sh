#!/usr/bin/env bash
# prove_checks.sh: proves that apidiff.sh and vulncheck.sh find what they look for: in a clone with a tag and changes to the API,
# and with a database that has a vulnerability in what the command calls.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "release/prove_checks.sh: $*" >&2; cat "$scratch/said" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

git clone -q . "$scratch/clone"
cd "$scratch/clone"
git tag -l | xargs -r git tag -d >/dev/null
git config user.name release
git config user.email release@localhost
version() { sed -i "s/^const next = .*/const next = \"$1\"/" cmd/holdfast/internal/cli/version.go; }

# says TEXT: apidiff.sh succeeds and says that. refuses TEXT: it fails and says that.
says() { release/apidiff.sh >"$scratch/said" 2>&1 && grep -qF -- "$1" "$scratch/said" || fail "apidiff.sh does not succeed with: $1"; }
refuses() { ! release/apidiff.sh >"$scratch/said" 2>&1 && grep -qF -- "$1" "$scratch/said" || fail "apidiff.sh does not fail with: $1"; }

says 'there is no tag of a release yet'
printf 'package holdfast\n\n// Proof is there to be removed.\nfunc Proof(int) {}\n' >proof.go
printf 'package holdfastgoredis\n\n// Proof is there to be changed.\nfunc Proof(int) {}\n' >holdfastgoredis/proof.go
git add . && git commit -q -m "Add what is to go"
release/tag.sh v0.1.0-rc.1 >/dev/null
release/tag.sh v0.1.0 >/dev/null
version 0.1.1
says 'no incompatible change since v0.1.0'
printf '\n// More is new.\nfunc More() {}\n' >>proof.go
says '- More: added'
sed -i 's/int/string/' holdfastgoredis/proof.go
refuses '- Proof: changed from func(int) to func(string)'
git checkout -q holdfastgoredis
rm proof.go
refuses '- Proof: removed'
refuses 'since v0.1.0, which v0.1.1 must not have'
version 0.2.0
says 'since v0.1.0, which v0.2.0 may have'
git checkout -q .
git rm -rq holdfastvalkey
version 0.1.1
refuses 'the module is gone'
echo "apidiff.sh finds additions, changes, removals, and judges them by the version"
cd "$OLDPWD"

# database NAME FUNCTION: a database with one entry, for a function of go-redis in all its versions.
database() {
  local module=github.com/redis/go-redis/v9 at=2026-01-01T00:00:00Z
  mkdir -p "$scratch/$1/index" "$scratch/$1/ID"
  echo "{\"modified\":\"$at\"}" >"$scratch/$1/index/db.json"
  echo "[{\"path\":\"$module\",\"vulns\":[{\"id\":\"GO-2026-0001\",\"modified\":\"$at\"}]}]" >"$scratch/$1/index/modules.json"
  echo "[{\"id\":\"GO-2026-0001\",\"modified\":\"$at\"}]" >"$scratch/$1/index/vulns.json"
  cat >"$scratch/$1/ID/GO-2026-0001.json" <<END
{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"$at","published":"$at","summary":"Made up for a proof","details":"Made up for a proof.",
"affected":[{"package":{"name":"$module","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
"ecosystem_specific":{"imports":[{"path":"$module","symbols":["$2"]}]}}],"database_specific":{"url":"https://example.com","review_status":"REVIEWED"}}
END
}
# check DATABASE: runs vulncheck.sh, and returns its exit code in $code.
check() { code=0; VULNDB=$1 release/vulncheck.sh >"$scratch/said" 2>&1 || code=$?; }

database called NewClient
check "file://$scratch/called"
[ $code = 1 ] && grep -q GO-2026-0001 "$scratch/said" || fail "vulncheck.sh exits with $code, and does not find a vulnerability in what the command calls"
database other NewRing
check "file://$scratch/other"
[ $code = 0 ] && grep -q 'no known vulnerability' "$scratch/said" || fail "vulncheck.sh exits with $code for a vulnerability in what nobody calls"
check http://127.0.0.1:9
[ $code = 3 ] && grep -q 'NOT CHECKED' "$scratch/said" || fail "vulncheck.sh exits with $code without a database"
echo "vulncheck.sh finds what is called, passes over what is not, and says when it cannot know"
