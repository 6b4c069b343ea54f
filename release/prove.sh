#!/usr/bin/env bash
# prove.sh [VERSION]: proves that a release can be installed. In a clone it tags VERSION, v0.0.0-proof unless one is
# given, and serves the modules as a proxy would. Then, with an empty module cache, it installs the command, runs
# its demo, and builds and runs a program of a user's. Modules of others come from GOPROXY.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:-v0.0.0-proof}
path=github.com/holdfast-go/holdfast
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT

git clone -q . "$scratch/clone"
git -C "$scratch/clone" config user.name release
git -C "$scratch/clone" config user.email release@localhost
"$scratch/clone/release/tag.sh" "$version" | grep '^tagged'
modules=$(release/modules.sh)
(cd tests && go run ./cmd/proxy "$scratch/clone" "$scratch/proxy" "$version" $modules)

began=$SECONDS
export GOPROXY="file://$scratch/proxy,$(go env GOPROXY)" GONOSUMDB="$path,$path/*" GOFLAGS=-modcacherw GOWORK=off
export GOMODCACHE=$scratch/cache GOBIN=$scratch/bin
cd "$scratch"
go install "$path/cmd/holdfast@$version"
bin/holdfast version | tee version.txt
grep -q "^holdfast ${version#v} " version.txt || { echo "prove.sh: the command does not know its version" >&2; exit 1; }
bin/holdfast demo >demo.txt || { cat demo.txt; exit 1; }
tail -n 3 demo.txt

mkdir user && cd user
cat >main_test.go <<'GO'
package user

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

func Test(t *testing.T) {
	err := holdfasttest.New(t).Mutex("m").Do(t.Context(), func(ctx context.Context, l *holdfast.Lease) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
}
GO
go mod init example.com/user 2>/dev/null
for module in $("$OLDPWD/clone/release/modules.sh"); do
  go get "$path${module#.}@$version" 2>get.txt || { cat get.txt; exit 1; }
done
go mod tidy 2>/dev/null
go test .
echo "installed, demonstrated and used in $((SECONDS - began)) s"
