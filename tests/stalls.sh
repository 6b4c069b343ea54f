#!/usr/bin/env bash
# stalls.sh PACKAGE [FLAG...]: runs the tests of a package of this module, such as ./behaviour, under the
# race detector. Now and then all their processes, including servers, stand still together for two
# seconds, as on shared machines. For Linux, as root. Sentinels do not work on such a machine, so their
# tests fail.
#
# stalls.sh COMMAND...: does the same to any command, in the root of the repository: stalls.sh make test
set -euo pipefail
cd "$(dirname "$0")"
[ $# -gt 0 ] || { sed -n "s/^# //p" "${0##*/}" >&2; exit 2; }

if [ -d /sys/fs/cgroup/freezer ]; then
  group=/sys/fs/cgroup/freezer/holdfast-tests-$$
  state=$group/freezer.state still=FROZEN moving=THAWED
else
  group=/sys/fs/cgroup/holdfast-tests-$$
  state=$group/cgroup.freeze still=1 moving=0
fi
mkdir "$group" 2>/dev/null && [ -e "$state" ] || { echo "stalls.sh: no control group can be made and frozen here: is this Linux, and root?" >&2; exit 2; }

end() {
  echo "$moving" >"$state"
  xargs -r kill -KILL <"$group/cgroup.procs" 2>/dev/null || true # of an interrupted run
  for _ in {1..50}; do rmdir "$group" 2>/dev/null && break; sleep 0.1; done
}
trap end EXIT

case $1 in
  ./*) command=(go test -race -count=1 "$@") ;;
  *) command=("$@") && cd .. ;;
esac
(echo "$BASHPID" >"$group/cgroup.procs" && exec "${command[@]}") &
tests=$!
stalls=0
while sleep $((4 + RANDOM % 9)); kill -0 "$tests" 2>/dev/null; do
  echo "$still" >"$state"
  sleep 2.1
  echo "$moving" >"$state"
  stalls=$((stalls + 1))
done
verdict=0
wait "$tests" || verdict=$?
echo "they stood still $stalls times"
exit "$verdict"
