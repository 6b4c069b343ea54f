#!/usr/bin/env bash
# suite.sh STEP... | soak TIME: runs all steps, even if one fails, and then prints a line with the result of each, and
# the complaints of those that failed again. It fails if a step has failed. The Makefile calls it, and sets the versions that
# it uses.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
root=$PWD
scratch=$(mktemp -d) || exit 1
behind=
trap '[ -z "$behind" ] || kill -- -"$behind" 2>/dev/null; rm -rf "$scratch"' EXIT

summary=()
failed=0

# complaints FILE: what does not compile, and the failed tests, in a step's output. Of each test it has the first lines of what it
# printed and the last, where the reason is, without what servers and clients logged; then comes its package. If there is none of this,
# it prints the last lines of the output.
complaints() {
  awk '
    function show(  i) {
      for (i = 1; i <= n; i++) if (i <= 12 || i > n - 15) print line[i]; else if (i == 13) print "[...]"
      n = 0
    }
    /^ *--- FAIL|^panic:|DATA RACE|^# / { show(); inside = 1 }
    /^ *--- (PASS|SKIP)|^(ok|FAIL|PASS|\?)/ { show(); inside = 0 }
    /^FAIL\t/
    /^ *--- FAIL|^ +[a-z_]+\.go:[0-9]+: / { of_server = /^ +server\.go:/ }
    /^[0-9][0-9][0-9][0-9]\/[0-9][0-9]\/[0-9][0-9] / { next }
    inside && !of_server { line[++n] = $0 }
    END { show() }' "$1" | cut -c1-400 | head -200 >"$scratch/complaints"
  [ -s "$scratch/complaints" ] || tail -15 "$1" >"$scratch/complaints"
  cat "$scratch/complaints"
}

run() { # run LABEL FOLDER COMMAND...
  local label=$1 folder=$2 began=$SECONDS verdict=ok
  shift 2
  echo "--- $label"
  if ! (cd "$folder" && "$@") 2>&1 | tee "$scratch/step"; then
    verdict=FAIL
    failed=1
    { echo "--- $label"; complaints "$scratch/step"; } >>"$scratch/failures"
  fi
  summary+=("$(printf '%-4s  %4ds  %s' "$verdict" $((SECONDS - began)) "$label")")
}

# run_behind LABEL FOLDER COMMAND...: run, while other steps go on, in a
# process group that can be ended as a whole. One at a time; await_behind ends it.
run_behind() {
  local folder=$2
  behind_label=$1 behind_began=$SECONDS
  shift 2
  set -m
  (cd "$folder" && "$@") >"$scratch/behind" 2>&1 &
  behind=$!
  set +m
}

# Its time is counted from its beginning until now.
await_behind() {
  local verdict=ok
  [ -n "$behind" ] || return 0
  echo "--- $behind_label"
  if ! wait "$behind"; then
    verdict=FAIL
    failed=1
    { echo "--- $behind_label"; complaints "$scratch/behind"; } >>"$scratch/failures"
  fi
  behind=
  cat "$scratch/behind"
  summary+=("$(printf '%-4s  %4ds  %s' "$verdict" $((SECONDS - behind_began)) "$behind_label")")
}

# The workspaces: tests/bench/go.work and integrations/go.work say why there are three.
workspaces=(. tests/bench integrations)

# modules FOLDER: the folders of the modules of the workspace there.
modules() { (cd "$1" && go list -m -f '{{.Dir}}'); }

# In one call for all modules, the go command loads and compiles what they share once.
each_workspace() { # each_workspace COMMAND...
  local folder
  for folder in "${workspaces[@]}"; do
    run "$* (in $folder)" "$folder" "$@" $(modules "$folder" | sed 's|$|/...|')
  done
}

tidy() {
  local folder module failed=0
  for folder in "${workspaces[@]}"; do
    for module in $(modules "$folder"); do
      (cd "$module" && GOWORK=off go mod tidy -diff) || failed=1
    done
  done
  return "$failed"
}

# What users build has to build on their systems.
portable() { # portable SYSTEM
  GOOS=$1 go vet $(modules . | grep -vE '/(tests|examples)$' | sed 's|$|/...|')
}

format() {
  local files
  files=$(gofmt -l .) || return 1
  [ -z "$files" ] || { printf 'not formatted with gofmt:\n%s\n' "$files"; return 1; }
}

# Collecting garbage less often saves a quarter of the processor time of tests in virtual time.
export GOGC=${GOGC:-400}
# Otherwise every program with the race detector sleeps for a second before it ends.
export GORACE=${GORACE:-atexit_sleep_ms=0}

# The tests that a person waits for: without the race detector, which would double the time; on one
# server; without tests that testing.Short skips, and without packages that are slow to build or to run.
# They are one call of the go command, so that it builds some packages while others wait.
quick() {
  go test -short -vet=off -p 4 $TESTFLAGS $(quick_packages)
}

quick_packages() {
  go list ./... ./holdfastgoredis/... ./holdfastotel/... ./holdfastrueidis/... ./holdfastvalkey/... ./holdfasttest/... ./cmd/holdfast/... ./examples/rehearsal
  (cd tests && go list ./adapters ./behaviour ./cmd/ratchet ./command ./scripts ./virtual ./internal/... | grep -vE '/internal/(campaign|clockshim|postgres)')
}

# What the gate tests beyond that, on one server. Of documents it checks what can be checked without running anything.
rest() {
  go test -short -vet=off -p 4 $TESTFLAGS ./dataloss ./documents/... ./faults ./quorum ./mutants ./internal/campaign
}

# bubbles FOLDER: the packages of the module there with tests in bubbles of testing/synctest. They run on one
# processor: Go 1.26's race detector crashes when two timers of a bubble fire in parallel, since both use the
# bubble's one race context. Those of tests/security see to that themselves.
bubbles() {
  (cd "$1" && go list -f '{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}' ./... |
    awk '/[[ ]testing\/synctest[] ]/ { print $1 }' | grep -vE "$alone|/tests/security\$")
}

raced() {
  local folder
  go test -race -cpu 1 -short -vet=off -p 2 $TESTFLAGS $(for folder in $(modules .); do bubbles "$folder"; done | grep -v '/simulation$')
}

# worlds: those of testdata/seeds. tests/simulation/README.md says how the build makes them repeat.
worlds() {
  local list
  list=$(go run ./simulation/replay "$scratch/replay") && go test -short -tags replay -overlay="$list" -vet=off $TESTFLAGS ./simulation
}

# In everything, tests that load the machine, or count what exists, run one at a time after the others.
alone='/tests/(leaks|processes|internal/campaign|cmd/campaign)$'

# packages FOLDER PATTERN: the packages of the module there that match.
packages() {
  (cd "$1" && go list ./... | grep -E "$2")
}

everything() {
  local folder name inside chosen
  # Those in virtual time need not be alone.
  run_behind "go test -race -cpu 1, behind the others (in /tests)" tests go test -race -cpu 1 -vet=off -p 1 $TESTFLAGS -timeout 40m $(bubbles tests)
  for folder in $(for folder in "${workspaces[@]}"; do modules "$folder"; done); do
    name=${folder#"$root"}
    if [ "$name" = /tests/bench ]; then # which does not need both processors
      await_behind
      run_behind "go test -race, over rueidis, on one server, behind the others (in /tests/topology)" tests rueidis
    fi
    inside=$(bubbles "$folder")
    chosen=$(packages "$folder" . | grep -vE "$alone" | grep -vxF "${inside:-none}")
    [ -z "$chosen" ] || run "go test -race (in ${name:-/})" "$folder" go test -race -vet=off -p 3 $TESTFLAGS $chosen
    [ -z "$inside" ] || [ "$name" = /tests ] || run "go test -race -cpu 1 (in ${name:-/})" "$folder" go test -race -cpu 1 -vet=off -p 3 $TESTFLAGS $inside
    chosen=$(packages "$folder" "$alone")
    [ -z "$chosen" ] || run "go test -race, one at a time (in ${name:-/})" "$folder" go test -race -vet=off -p 1 $TESTFLAGS $chosen
  done
  await_behind
}

# The adapters differ most when servers are replaced. The other tests of both adapters are in tests/adapters.
rueidis() {
  HOLDFAST_TEST_ADAPTER=rueidis HOLDFAST_TEST_SERVERS='' go test -race -vet=off $TESTFLAGS ./topology
}

# The adapter's go.mod names the oldest go-redis that is supported. Tests in the workspace run with the newest
# that any of its modules asks for. As long as that is the oldest, they are the test with it.
goredis_oldest() {
  local version
  version=$(GOWORK=off go list -m -f '{{.Version}}' github.com/redis/go-redis/v9) || return 1
  [ "$version" = "$GOREDIS_OLDEST" ] || { echo "go.mod asks for go-redis $version, not $GOREDIS_OLDEST"; return 1; }
  version=$(go list -m -f '{{.Version}}' github.com/redis/go-redis/v9) || return 1
  [ "$version" != "$GOREDIS_OLDEST" ] || { echo "the workspace has it, and its tests have run with it"; return; }
  GOWORK=off go test -race -vet=off $TESTFLAGS ./adapters
}

# The tests of the other adapters are the same with any go-redis.
goredis_newest() {
  cp go.mod go.sum "$scratch" &&
    GOWORK=off go get -modfile="$scratch/go.mod" "github.com/redis/go-redis/v9@$GOREDIS_NEWEST" &&
    GOWORK=off go mod tidy -modfile="$scratch/go.mod" &&
    GOWORK=off go test -race -vet=off $TESTFLAGS -modfile="$scratch/go.mod" -skip '/^(rueidis|valkey)$' ./adapters
}

# The findings of campaigns are kept here.
kept=$root/.soak

# seconds TIME: 90s, 30m or 1h, as a number of seconds.
seconds() {
  [[ $1 =~ ^([1-9][0-9]*)([smh])$ ]] || { echo "suite.sh: SOAK=$1: want a time such as 30m" >&2; exit 2; }
  case ${BASH_REMATCH[2]} in
    s) echo "${BASH_REMATCH[1]}" ;;
    m) echo $((BASH_REMATCH[1] * 60)) ;;
    h) echo $((BASH_REMATCH[1] * 3600)) ;;
  esac
}

# tell COMMAND...: runs it, and keeps what it prints for the report.
tell() {
  mkdir -p "$kept"
  "$@" 2>&1 | tee -a "$kept/output"
  return "${PIPESTATUS[0]}"
}

# hunt MODE TIME [LOCK]: a campaign.
hunt() {
  local lock=${3:-mutex}
  run "campaign of the $lock, $1 mode, $2" tests tell go run ./cmd/campaign -subject "$lock" -mode "$1" -for "$2" -dir "$kept/$1"
}

# longer TIME FLAGS PACKAGE [ARGUMENT...]: the tests of a package at their full length.
longer() {
  local time=$1 flags=$2 package=$3
  shift 3
  run "go test $package at full length" tests tell env HOLDFAST_SOAK="$time" go test $flags -count=1 -v -timeout 0 "$package" "$@"
}

# The summary lines of the parts of a soak, and the reports of campaigns.
report() {
  printf '\n=== what the soak has shown ===\n'
  grep -E '^ +[a-z_]+_test\.go:[0-9]+: (mutants|strict|[0-9.]+ h simulated|[0-9]+ cycles|[0-9]+ processes|[0-9]+ grants)' "$kept/output" | sed -E 's/^ +[a-z_]+_test\.go:[0-9]+: //'
  grep -E '^(Mode |histories|operations|servers|kinds of|pairs of|violations|undecided|outside|stale)' "$kept/output"
}

soak() { # soak TIME
  local all
  all=$(seconds "$1") || exit
  mkdir -p "$kept" && : >"$kept/output"
  hunt default $((all / 4 + 5))s
  hunt strict $((all / 12 + 5))s
  hunt default $((all / 24 + 5))s redisson
  hunt default $((all / 12 + 5))s rwmutex
  hunt default $((all / 12 + 5))s semaphore
  hunt default $((all / 24 + 5))s owned
  hunt default $((all / 24 + 5))s carried
  hunt default $((all / 24 + 5))s multi
  hunt default $((all / 24 + 5))s nested
  hunt default $((all / 24 + 5))s once
  hunt default $((all / 24 + 5))s election
  hunt default $((all / 24 + 5))s latch
  hunt default $((all / 24 + 5))s barrier
  hunt strict $((all / 12 + 5))s quorum
  longer $((all / 4 + 5))s "" ./simulation -run 'Simulation|Broken|NoMistake'
  longer $((all / 60 + 5))s -race ./processes
  longer $((all / 60 + 5))s -race ./internal/campaign -run Storm
  longer "$1" "" ./dataloss -run 'Strict|Overlap' -parallel 12 # they wait, most of the time
  longer "$1" "" ./leaks
  longer "$1" "" ./topology
  longer "$1" "" ./security -run ALyingServer
  longer $((all / 30 + 5))s -race ./quorum -run UnderLoad
  longer $((all / 60 + 5))s "" ./interop
  longer "$1" "" ./mutants
  report
}

# explore: campaigns of every lock, a hundred simulated hours of random worlds, and the broken locks that the simulation has
# to find.
explore() {
  local lock
  mkdir -p "$kept" && : >"$kept/output"
  hunt default 60s
  hunt strict 40s
  for lock in redisson rwmutex semaphore owned carried multi nested once election latch barrier; do
    hunt default 25s "$lock"
  done
  hunt strict 30s quorum
  run "100 simulated hours, and broken locks" tests tell env HOLDFAST_SIMULATE_HOURS=100 go test -count=1 -v -timeout 0 -run 'Simulation|EveryForm|Broken|NoMistake' ./simulation
  report
}

# mutants: a hunt for each, once.
mutants() {
  run "mutants" tests tell env HOLDFAST_MUTANTS=all go test -count=1 -v -timeout 0 -run FoundOut ./mutants
}

if [ "${1-}" = soak ]; then
  soak "${2:?a time, such as 30m}"
  set --
fi
for step in "$@"; do
  case $step in
    check)
      run "gofmt" . format
      each_workspace go vet
      run "go vet for Windows" . portable windows
      each_workspace go run "honnef.co/go/tools/cmd/staticcheck@$STATICCHECK"
      run "go mod tidy -diff" . tidy
      run "ratchet" tests go run ./cmd/ratchet
      ;;
    quick) run "go test -short" . quick ;;
    gate)
      run_behind "go test -short of the rest, behind" tests rest
      run "go test -race -cpu 1 -short, in virtual time" . raced
      await_behind
      run "worlds that repeat" tests worlds
      run "models, if they or the scripts changed" . models/verify.sh changed
      ;;
    everything)
      run "go vet for macOS" . portable darwin
      everything
      ;;
    goredis)
      run "go test with go-redis $GOREDIS_OLDEST (in /tests)" tests goredis_oldest
      run "go test with go-redis $GOREDIS_NEWEST (in /tests)" tests goredis_newest
      ;;
    explore) explore ;;
    mutants) mutants ;;
    *) echo "suite.sh: no step $step" >&2; exit 2 ;;
  esac
done
if [ "$failed" = 1 ]; then
  printf '\n=== what failed ===\n'
  cat "$scratch/failures"
fi
printf '\n=== %d s ===\n' $SECONDS
printf '%s\n' "${summary[@]}"
exit "$failed"
