package cli

import (
	"fmt"
	"io"
)

func electHelp(w io.Writer) {
	fmt.Fprintf(w, `Usage: holdfast elect [flags] NAME -- CMD [ARG...]
       holdfast elect [flags] NAME --leader
       holdfast elect [flags] NAME --watch

Campaigns in the election NAME, and runs CMD while it leads: one CMD at a time on all
machines. Whoever campaigns waits in line; the next leads when the leader resigns, dies,
or cannot reach the server.

  holdfast elect scheduler -- ./scheduler            # lead, or stand by
  holdfast elect --again scheduler -- ./scheduler    # start it again when it has ended
  holdfast elect scheduler --leader                  # who leads?
  holdfast elect scheduler --watch --json            # a line for each change

Flags:
%s
Times are written 90s or 1m30s; a plain number means seconds. The server is the first of
--redis, HOLDFAST_REDIS, REDIS_URL, %s; holdfast help run tells of URLs.

Terms:
  A term begins with the election, and CMD with it: with HOLDFAST_NAME, HOLDFAST_FENCE (a
  number that rises from term to term) and HOLDFAST_TTL_MS in its environment. If the
  term cannot be renewed, CMD and all of its processes are ended before another can lead:
  TERM --kill-after before the term runs out, KILL just before it does, as with holdfast
  run; then holdfast campaigns again. It does so, too, while the server cannot be reached;
  only a server that it has never reached is an error.
  When CMD has ended by itself, holdfast resigns, and exits with its code. With --again it
  campaigns again, behind those who wait, a second after the term began at the earliest;
  but not if INT or QUIT, as of ^C, ended CMD, or it could not be executed.
  INT, TERM, HUP and QUIT are passed on to CMD; when it has ended, holdfast resigns, and
  campaigns no more. Who waits leads at once.
  --terms N ends it after N terms, with the exit code of the last.

Who leads:
  --leader prints who leads, --watch prints it now and whenever it changes: it is told by
  leaders, and polls nobody; of a quorum it asks the nodes once a second. What is printed may be over by then; only CMD is sure to
  lead. One that died is missed when its term is over, by --ttl at most. --json makes each
  a line of JSON on standard output: time, name, key, server and leader, which is null or has
  owner, host, pid, fence, meta, since, ttl_ms and waiters.
  They look at the lock of NAME, whose key they print if nobody leads, and --json always. A
  run with --key or --redisson holds another lock, whatever its NAME, and is not seen.

Report (--json with CMD): as that of holdfast run, with terms, how many there were; of the
  last term, where it is of one.

Exit codes:
  CMD's own in its last term; 128+N when signal N killed it; 0 for --leader, if somebody
  leads, and 1 if nobody does. Otherwise those of holdfast run:
   %d  wrong usage                        %d  the last term (--terms) was lost and CMD ended
   %d  server unreachable, or no use     %d  --max-runtime was over
   %d  credentials or ACL refused        %d  CMD cannot be executed
   %d  wrong configuration               %d  CMD not found
   %d  the keeper process died           %d  interrupted while campaigning or watching (INT;
   %d  the system cannot start processes       also 129 HUP, 131 QUIT, 143 TERM)
`, newElectOptions().flags.FlagUsages(), defaultRedis,
		exitUsage, exitLost,
		exitUnavailable, exitOvertime,
		exitRefused, exitNotRunnable,
		exitConfig, exitNotFound,
		exitInternal, exitSignal+2,
		exitSystem)
}
