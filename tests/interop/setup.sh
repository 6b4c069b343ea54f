#!/usr/bin/env bash
# setup.sh java|python|typescript: fetches what the programs of that folder need, compiles them,
# and prints their folder, which is in the user's cache. Programs that exist are not compiled
# again.
#
# It exits with 3, and says why, if a program or a package that it needs is not available: then there
# is nothing to test with. For ten minutes after that it does not try again. Any other code that is
# not 0 is a failure, such as a program that does not compile.
set -uo pipefail
cd "$(dirname "$0")/${1:?java, python or typescript}" || exit 1

missing= # where it is written down that something was not to be had

unavailable() {
  echo "$*" >&2
  [ -z "$missing" ] || echo "$*" >"$missing"
  exit 3
}

needs() {
  local program
  for program; do
    command -v "$program" >/dev/null || unavailable "there is no $program"
  done
}

# fetch MINUTES COMMAND...: runs it, and shows what it says only if it fails.
fetch() {
  local minutes=$1 said
  shift
  said=$(timeout "$((minutes * 60))" "$@" 2>&1 </dev/null) && return
  echo "$said" | tail -n 5 >&2
  return 1
}

# unpack makes Maven put the libraries into lib, from its cache or else from its repository.
unpack() {
  local maven=(mvn -q -B -f "$PWD/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$made/lib")
  "${maven[@]}" -o >/dev/null 2>&1 </dev/null || fetch 4 "${maven[@]}"
}

make_java() {
  unpack || unavailable "Maven did not get the libraries"
  javac -d "$made/classes" -cp "$made/lib/*" Rival.java >&2
}

make_python() {
  fetch 3 python3 -m venv "$made/venv" || unavailable "python3 cannot make a venv"
  # The programs need exactly these files.
  fetch 2 "$made/venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements.txt ||
    unavailable "pip did not get the packages"
  "$made/venv/bin/python" -c 'import redis' >&2
}

# The tests compile the programs, among them wrong ones.
make_typescript() {
  cp "${packages[@]}" "$made"
  (cd "$made" && fetch 4 npm ci --ignore-scripts --no-audit --no-fund) || unavailable "npm did not get the packages"
  node "$made/node_modules/typescript/bin/tsc" --version >/dev/null
}

packages=() # files that say what is needed, in other folders
case $1 in
  java) needs java javac mvn flock timeout ;;
  python) needs python3 flock timeout ;;
  typescript)
    needs node npm flock timeout
    [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || unavailable "node is older than 20"
    packages=(../../../examples/typescript/package.json ../../../examples/typescript/package-lock.json)
    ;;
  *) echo "setup.sh: $1 is not java, python or typescript" >&2; exit 2 ;;
esac
cache=${XDG_CACHE_HOME:-$HOME/.cache}/holdfast-interop
mkdir -p "$cache" || exit 1
contents=$(cat ./* ../setup.sh "${packages[@]}" | sha256sum | cut -c 1-16)
version=$(java --version 2>&1; python3 --version 2>&1; node --version 2>&1)
made=$cache/$1-$contents-$(echo "$version" | sha256sum | cut -c 1-8)

exec 9>"$made.lock" || exit 1
flock -w 400 9 || unavailable "another test has been setting up for too long"
if [ ! -e "$made/ready" ]; then
  recent=$(find "$made.missing" -mmin -10 2>/dev/null)
  [ -z "$recent" ] || unavailable "$(cat "$recent")"
  missing=$made.missing
  rm -rf "$made"
  mkdir "$made" || exit 1
  "make_$1" || exit
  touch "$made/ready"
fi
echo "$made"
