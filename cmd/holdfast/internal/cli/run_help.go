package cli

const runHelp = `Usage: holdfast run [flags] NAME -- CMD [ARG...]

Runs CMD while holding the lock NAME, and releases the lock when all processes of CMD
have ended. CMD runs without a shell, unless -c is given. It has holdfast's standard
input, output and error. Write -- before a NAME that begins with a dash:
  holdfast run -- -NAME -- CMD

Flags:
{flags}

Times are written 90s or 1m30s; a plain number means seconds.

Server:
  The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379.
  Other users can read a password on a command line: put it into HOLDFAST_REDIS.
  With rediss:// the server's certificate is verified against the system's authorities.
  These parameters can be added to the URL, separated by &, as in
  rediss://HOST:PORT?tls_ca=FILE:
    tls_ca=FILE           trust these authorities instead, in PEM
    tls_cert=FILE         this client's certificate, in PEM, if the server requires one,
    tls_key=FILE          and its key
    tls_server_name=NAME  the name in the server's certificate, if it is not HOST
    skip_verify=true      do not verify the certificate, and warn about it

Several servers:
  --redis for each server, or a list of URLs separated by spaces or commas, makes a
  quorum: the lock is held while a majority of the servers agree. A minority of them may
  be down, which is reported, and if one of them loses its data, the lock still has only
  one holder. Use 3 or 5 standalone servers that holdfast init has admitted, the same for
  all runs of NAME. Each is used in Strict mode, with --max-ttl. A server gets 5 to 50ms
  to answer, or the time of several round trips (--node-timeout).
    export HOLDFAST_REDIS="redis://a:6379 redis://b:6379 redis://c:6379"
    holdfast init && holdfast run nightly -- ./draw.sh
  A quorum has only plain runs: no --shared, --exclusive, --slots, --owner, --also, --key
  or --redisson. It keeps no record of jobs: no --once.

Several locks:
  --also NAME, which may be repeated, makes the run hold further locks, all or none. Two
  runs never wait for each other, in whatever order they name the locks. HOLDFAST_FENCE is
  the highest of their fences. HOLDFAST_FENCES is a JSON object with the fence of each lock,
  and of the locks of the jobs that this run is in: give a resource the fence of the lock
  that guards it.

Runs beside each other:
  A plain run is the only run of NAME. Runs with --shared run beside each other, runs with
  --exclusive run alone: they are the readers and writers of a read-write lock. With
  --slots N, at most N runs run at once, on all machines together; with --weight W a run
  takes W of the slots. holdfast resize changes N while some are running.
  Runs are served in the order in which they come: a shared run that comes while an
  exclusive run waits runs after it.
  --owner ID is for the steps of one job, on whatever machine. While one of them runs,
  other steps with the same ID run beside it, ahead of all waiters, and runs with another
  ID wait. So a step can run a script that runs other steps without waiting for itself. A
  plain run is refused (exit code 64) within a job that holds the lock NAME.
  All runs of a NAME must be plain ones, or have --shared or --exclusive, or --slots with
  the same N, or --owner. Another one is refused (exit code 78) while they run, and does
  not disturb them. A plain run is not an --exclusive one, because other programs can share
  its lock, and they know no readers. Runs with --key or --redisson hold another lock: see
  below.

Other programs:
  With --key KEY, the lock is that of programs that use SET KEY token NX PX ttl and a
  script that compares and deletes; with --redisson NAME, it is that of getLock(NAME) of
  Redisson, in Java. All programs that share a lock must use the same form.
  A run with --key or --redisson holds that lock instead of the lock of NAME; NAME is only
  used in messages. So it runs beside runs of NAME without that flag, or with another KEY,
  and beside the leader of an election NAME.

Once:
  With --once 12h, CMD runs only if no run of NAME with --once has succeeded, with exit
  code 0, in the last 12 hours by the server's clock, on any machine. Otherwise holdfast
  exits with 0. The time must be longer than the machines' clocks differ, and shorter than
  the time from the end of one run to the start of the next. With --once-key, CMD runs
  only if no run with the same KEY has succeeded, which is remembered for DUR:
    holdfast run --once 1440h --once-key "$(date +%F)" nightly -- ./draw.sh
  If a run fails, or its machine dies, CMD may run again: the next run that waits begins.
  In a crontab write \% for %.
  holdfast once NAME says which run succeeded last.
  One server, a Cluster, or a master behind Sentinel keeps the record; a quorum does not.

Environment of CMD:
  HOLDFAST_NAME, HOLDFAST_FENCE (the fencing token, a number that rises with every grant),
  HOLDFAST_TTL_MS and, with a prefix, HOLDFAST_PREFIX are set. HOLDFAST_REDIS is removed,
  and so is REDIS_URL if holdfast uses it: if a job needs REDIS_URL, give holdfast --redis
  or HOLDFAST_REDIS. A holdfast in CMD must be given one of these, too: it is refused (exit
  code 78) rather than use another server.
  Shared runs beside each other have the same fence, and so have the runs of one owner. The
  fences of runs with --slots tell which run began later, but a resource must not refuse
  the lower one, whose run may still be running.

When the lock is lost:
  If the lock cannot be renewed, CMD is ended before anybody else can get the lock: TERM to
  all of its processes --kill-after before the lease expires, and KILL just before it
  expires (by up to 0.5s). If the server says that the lock is gone, TERM is sent at once,
  and KILL --kill-after later or before the lease would have expired, whichever is first.
  --on-lost=kill sends only KILL. --on-lost=notify sends USR1 to CMD instead of TERM, and
  lets it continue; --on-lost=ignore only prints a message. If the lock is lost before CMD
  has begun, CMD is not run, whatever --on-lost says. If holdfast was stopped or killed,
  its job is ended all the same.

Processes:
  On Linux no process that CMD started survives it, even if it called setsid, or if
  holdfast is killed with -9. Processes that still run after CMD has ended get TERM, and
  KILL after --kill-after; the lock is held until then. There are two exceptions: processes
  of other users, which holdfast may not kill (it waits for them), and processes that CMD
  started if holdfast and its keeper process are killed with -9 at the same time. holdfast
  needs the /proc of its own PID namespace, and otherwise refuses to run (exit code 71). As
  the first process of a container it reaps orphans.
  On other Unix systems this holds for CMD's process group while holdfast lives; on Windows
  it holds only for CMD.
  INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on to CMD's process group. It also
  gets TERM if an operator asks for the lock (holdfast revoke).
  On a terminal CMD is in the foreground, and ^Z also stops holdfast. A job that is stopped
  for longer than its lease is ended.

Report (--json): name, server, outcome (ran, busy, skipped, done, tries, lost,
  overtime, interrupted or failed), exit_code, fence, fences (with --also), nodes (of a
  quorum: those that agreed), started, ended, waited_ms, ran_ms, held_ms, holder (of
  several, the one that has held the lock longest), run (with --once: the one that
  counts), error. A FILE that is a pipe must have a reader.

Metrics (--metrics-file): a file for the textfile collector of node_exporter, written when
  the run ends, also if it did not get the lock; a file for each NAME of a host. Its gauges
  have the label lock, which is NAME: holdfast_run_end_time_seconds, _success_time_seconds
  (of the last success, which later failures keep; with --once on any machine), _exit_code,
  _outcome (1 for the run's outcome, among all), _lost (1 if the lock was lost),
  _wait_seconds, _hold_seconds and _command_seconds.

Exit codes:
  CMD's own; 128+N if signal N killed it
   64  wrong usage                        79  the lock was lost and CMD ended
   69  server unavailable or unusable    124  --max-runtime was over
   75  the lock is held (-E)             126  CMD cannot be executed
   77  credentials or ACL refused        127  CMD not found
   78  wrong configuration               130  interrupted while waiting (INT; also 129
   70  the keeper process died                HUP, 131 QUIT, 143 TERM)
   71  the system cannot start processes  80  --max-tries runs have failed
`
