package cli

import (
	"fmt"
	"io"
)

func runHelp(w io.Writer) {
	fmt.Fprintf(w, `Usage: holdfast run [flags] NAME -- CMD [ARG...]
       holdfast run [flags] --last NAME

Runs CMD while holding the lock NAME, and gives the lock up when all of CMD's
processes have ended. CMD is executed as it is, without a shell; -c gives it to
one. It has holdfast's standard input, output and error.

Flags:
%s
Times are written 90s or 1m30s; a plain number means seconds.

Server:
  The first of --redis, HOLDFAST_REDIS, REDIS_URL, %s. Others can read
  a password on a command line: put it into HOLDFAST_REDIS.
  With rediss:// the server's certificate is verified, against the system's
  authorities. Parameters of the URL, as in rediss://HOST:PORT?tls_ca=FILE, with &
  between them:
    tls_ca=FILE           authorities to trust instead, in PEM
    tls_cert=FILE         this client's certificate, in PEM, where the server
    tls_key=FILE          wants one, and its key
    tls_server_name=NAME  the name in the server's certificate, if it is not HOST
    skip_verify=true      do not verify, and warn of it

Several servers:
  --redis for each, or a list with spaces or commas between the URLs, makes a quorum: the
  lock is held while a majority of these servers agrees, so that a minority of them may be
  down, which is said, and no loss of data on one makes two runs. 3 or 5 standalone
  servers, the same for all runs of NAME, which holdfast init has admitted; each is used
  in Strict mode, with --max-ttl. A server gets 5 to 50ms to answer, or several round
  trips (--node-timeout).
    export HOLDFAST_REDIS="redis://a:6379 redis://b:6379 redis://c:6379"
    holdfast init && holdfast run nightly -- ./draw.sh
  A quorum has plain runs only: no --shared, --exclusive, --slots, --owner, --also, --key,
  --redisson. It keeps no record of jobs: no --once, and nothing for --last to ask.

Several locks:
  --also NAME, which may be repeated, has the run hold further locks, all or none; no two
  runs wait for each other, whatever order they name them in. HOLDFAST_FENCES is a JSON
  object with the fence of each: give a resource that of the lock which guards it.
  HOLDFAST_FENCE is the highest of these.

Runs beside each other:
  A plain run is the only run of NAME. Runs with --shared run beside each other, runs
  with --exclusive alone: they are the readers and writers of a read-write lock. --slots
  N lets at most N run, on all machines together; with --weight W a run takes W of them.
  holdfast resize changes N while some run.
  Whoever comes first is served first: a shared run that comes while an exclusive one
  waits runs after it.
  --owner ID is for the steps of a job, on whatever machine: while one of them runs, others
  with the same ID run beside it, before all who wait, and runs with another ID wait. A
  step can so run a script that runs other steps, and they do not wait for each other.
  All runs of a NAME must be plain ones, or have --shared or --exclusive, or --slots with
  the same N, or --owner. Another one is refused (exit code %d) while they run, and they
  notice nothing. A plain run is not an --exclusive one because other programs can share
  its lock, and know no readers. Runs with --key or --redisson hold another lock: see below.

Other programs:
  With --key KEY, the lock is that of programs which use SET KEY token NX PX ttl and a
  script that compares and deletes; with --redisson NAME, that of getLock(NAME) of
  Redisson, in Java. All programs that share a lock use one of the two forms.
  A run with --key or --redisson holds that lock instead of the one of NAME, which is only
  what messages call it. So it runs beside runs of NAME without that flag, or with another
  KEY, and beside the leader of an election NAME. Such a run warns if the lock of NAME is
  held when it begins; runs without the flag look at their own lock only.

Once:
  --once 12h runs CMD only if no run of NAME with --once was completed, with exit code 0,
  in the last 12 hours by the server's clock, on any machine; otherwise holdfast exits
  with 0. The time is to be longer than the machines' clocks differ, and shorter than from
  the end of one run to the start of the next. With --once-key the window is what has the
  same KEY instead, and DUR how long that is remembered:
    holdfast run --once 1440h --once-key "$(date +%%F)" nightly -- ./draw.sh
  A run that fails, or whose machine dies, leaves the window open: who waits runs then.
  --last NAME prints which run was completed last, for 30 days after its window, or with
  --once-key the one of that KEY; with exit code 0, or 1 if none is known, or, where --once
  is given, none counts now. --json makes it a line of JSON on standard output: time, name,
  server, key and run, which is null or has completed, owner, host, pid, fence and try.
  The record is kept by one server, a Cluster, or a master behind Sentinel; not by a quorum.

Environment of CMD:
  HOLDFAST_NAME, HOLDFAST_FENCE (the fencing token, a number that rises with every
  grant) and HOLDFAST_TTL_MS are set. HOLDFAST_REDIS is taken away, and REDIS_URL if
  it is what holdfast used: a job that needs REDIS_URL itself keeps it when holdfast
  is given --redis or HOLDFAST_REDIS.
  Shared runs beside each other have one fence, and so have those of one owner. That of a run with --slots tells which
  of two began later, but a resource cannot refuse by it: the other may still run.

When the lock is lost:
  If the lock cannot be renewed, CMD is ended before the lock can be another's:
  TERM to all of its processes --kill-after before the lease runs out, KILL just
  before it does (by up to 0.5s). If the server says that the lock is gone, TERM
  comes at once, and KILL --kill-after later or before the lease would have run
  out, whichever is first. --on-lost=kill sends KILL alone. --on-lost=notify sends
  USR1 to CMD when TERM would have come, and lets it run on; --on-lost=ignore only
  says so. If the lock is lost before CMD has begun, CMD is not run, whatever --on-lost
  says. A job whose holdfast was stopped or killed is ended just the same.

Processes:
  On Linux nothing that CMD started survives it, not even with setsid or when
  holdfast is killed with -9. What still runs when CMD itself has ended gets TERM,
  and KILL after --kill-after; the lock is held until then. Exceptions: processes of
  other users, which holdfast may not kill (it waits for them), and what CMD started
  if holdfast and its keeper process are killed with -9 at the same time. This takes the
  /proc of the PID namespace that holdfast runs in: with another it refuses (exit code
  %d). As the first process of a container it reaps orphans.
  On other Unix systems this holds for CMD's process group and as long as holdfast
  lives; on Windows for CMD alone.
  INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on to CMD's process group.
  On a terminal CMD is in the foreground, and ^Z stops holdfast with it; a job that
  is stopped for longer than the lease is ended.

Report (--json): name, server, outcome (ran, busy, skipped, done, tries, lost,
  overtime, interrupted or failed), exit_code, fence, fences (with --also), nodes (of a
  quorum: those that agreed), started, ended, waited_ms, ran_ms, held_ms, holder (of
  several, the one who has held longest), run (with --once: the one that counts), error.

Exit codes:
  CMD's own; 128+N when signal N killed it
   %d  wrong usage                        %d  the lock was lost and CMD ended
   %d  server unreachable, or no use     %d  --max-runtime was over
   %d  the lock is held (-E)             %d  CMD cannot be executed
   %d  credentials or ACL refused        %d  CMD not found
   %d  wrong configuration               %d  interrupted while waiting (INT; also 129
   %d  the keeper process died                HUP, 131 QUIT, 143 TERM)
   %d  the system cannot start processes  %d  --max-tries runs have failed
`, newRunOptions().flags.FlagUsages(), defaultRedis, exitConfig, exitSystem,
		exitUsage, exitLost,
		exitUnavailable, exitOvertime,
		exitBusy, exitNotRunnable,
		exitRefused, exitNotFound,
		exitConfig, exitSignal+2,
		exitInternal, exitSystem, exitTries)
}
