package cli

const electHelp = `Usage: holdfast elect [flags] NAME -- CMD [ARG...]
       holdfast elect [flags] NAME --leader
       holdfast elect [flags] NAME --watch
       holdfast elect [flags] NAME --http ADDRESS

Campaigns in the election NAME, and runs CMD while it leads: one CMD at a time on all
machines. Candidates wait in a queue; the next one leads when the leader resigns, dies,
or cannot reach the server.

  holdfast elect scheduler -- ./scheduler            # lead, or stand by
  holdfast elect --again scheduler -- ./scheduler    # start it again after it has ended
  holdfast elect scheduler --leader                  # who leads?
  holdfast elect scheduler --watch --json            # a line for each change
  holdfast elect scheduler --http 127.0.0.1:4040     # for a program that asks

Flags:
{flags}

Times are written 90s or 1m30s; a plain number means seconds. The server is the first of
--redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379; holdfast help run describes URLs.

Terms:
  A term begins with the election. CMD starts with HOLDFAST_NAME, HOLDFAST_FENCE (a number
  that rises from term to term) and HOLDFAST_TTL_MS in its environment. If the term cannot
  be renewed, CMD and all of its processes are ended before another candidate can lead:
  TERM --kill-after before the term ends, KILL just before it ends, as with holdfast run.
  Then holdfast campaigns again, even while the server cannot be reached. Only a server
  that it has never reached is an error.
  When CMD has ended by itself, holdfast resigns, and exits with CMD's exit code. With
  --again it campaigns again, behind other candidates and at least a second after the term
  began, unless INT or QUIT, as from ^C, ended CMD, or CMD could not be executed.
  INT, TERM, HUP and QUIT are passed on to CMD. When CMD has ended, holdfast resigns and
  exits, and the next candidate leads at once.
  With --terms N it exits after N terms, with the exit code of the last.

Who leads:
  --leader prints who leads. --watch prints it now and after every change: leaders announce
  changes, so nothing is polled, except that the nodes of a quorum are asked once a second.
  What is printed may already be out of date; only CMD knows that it leads. If a leader
  dies, this is noticed when its term ends, after --ttl at most. --json prints a line of
  JSON on standard output: time, name, key, server, and leader, which is null or has identity,
  host, pid, meta, mode, grant, fence, since, ttl_ms and waiters; and candidates, the first
  1,000 of those that wait, each with identity, host, pid, meta, mode and since, in their order.
  They look at the lock of NAME, whose key is printed if nobody leads, and always with
  --json. A run with --key or --redisson holds another lock, whatever its NAME, and is not
  seen.

HTTP:
  With --http, holdfast campaigns for a program beside it, in any language, or for a
  readiness probe, until a signal ends it. GET /leader answers 200 while it leads, and 503
  otherwise, and never 200 after the term: JSON with name, leading, fence and ttl_ms, how
  long it leads even if the server no longer answers. GET /status answers 200, and adds
  time, key, server, since, leader, candidates (as for --leader) and seen, when it last
  heard of these. An answer may be out of date when it is read: ask before each step, take
  less than ttl_ms for it, and give resources the fence.
  Without a host in ADDRESS it is 127.0.0.1. Anybody who can reach the address can ask; it
  says nothing secret and changes nothing. Requests for another host name than localhost
  are refused (421), unless --http-host allows the name: otherwise a web page could ask
  through its visitor's browser.
  When told to end, it answers 503 for --drain, resigns, and exits. Ask more often than that.

Report (--json with CMD): as for holdfast run, and terms, the number of terms. What is about
  one term is about the last.

Exit codes:
  CMD's own in its last term; 128+N if signal N killed it. For --leader, 0 if somebody
  leads, and 1 if nobody does. Otherwise as for holdfast run:
   64  wrong usage                        79  the last term (--terms) was lost and CMD ended
   69  server unavailable or unusable    124  --max-runtime was over
   77  credentials or ACL refused        126  CMD cannot be executed
   78  wrong configuration               127  CMD not found
   70  the keeper process died           130  interrupted while campaigning or watching (INT;
   71  the system cannot start processes       also 129 HUP, 131 QUIT, 143 TERM)
`
