package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/console"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/ticketfile"
)

// acquireFlags are the flags and arguments of holdfast acquire.
type acquireFlags struct {
	ticketFlags
	try      bool
	wait     time.Duration
	busyCode int
}

const acquireHelp = `Usage: holdfast acquire [flags] --ticket FILE NAME
       holdfast acquire [flags] --ticket-fd N NAME

Acquires the lock NAME for a shell script, writes a ticket that stands for it, prints the
fence, and exits. The lock is held for --ttl, and for longer if holdfast renew is run in
time; holdfast release gives it up. Nobody renews it in between: holdfast run does, and
ends the job if the lock is lost, so use it if the job can be one command.

  export HOLDFAST_REDIS=redis://redis:6379
  ticket=$(mktemp -du)                             # a name, and no file
  fence=$(holdfast acquire --wait 1m --ttl 10m --ticket "$ticket" orders) || exit
  trap 'holdfast release --ticket "$ticket"' EXIT
  ./first.sh
  holdfast renew --ttl 10m --ticket "$ticket" || exit   # 79: it is lost
  ./second.sh

Flags:
{flags}

Times are written 90s or 1m30s; a plain number means seconds. The server is the first of
--redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379; holdfast help run describes URLs.

Ticket:
  Whoever has the ticket can release the lock, or take it: keep it secret. The file is
  new, only its owner can read it, and it exists only when it is complete. It is never
  written over another file, nor through a symbolic link. The ticket is never in the
  arguments of a program, nor in its environment, nor in a message. A file descriptor
  may be a pipe or a file, but not a terminal; with --ticket-fd 1 the fence is not printed:
    ticket=$(holdfast acquire --ticket-fd 1 orders)
    holdfast release --ticket-fd 3 3<<<"$ticket"
  If the exit code is not 0, there is no ticket, and the lock is not held: if it cannot be
  written, or a signal comes before, the lock is released. If holdfast is killed with -9,
  or the machine dies, the lock stays held for --ttl at most.
  The file also says which server gave the ticket, and until when it lasts: holdfast release
  does not remove it because another server does not know the lock.
  Others see the process of holdfast acquire, which has ended, as the holder: use --meta to
  say whose the lock is.

JSON: name, server, outcome (acquired, busy, interrupted or failed), exit_code, fence,
  ttl_ms, expires, ticket (the file), waited_ms, holder, error. It has no secret.

Exit codes:
    0  acquired, and the ticket is       75  the lock is held (-E)
       written                           77  credentials or ACL refused
   64  wrong usage                      78  wrong configuration
   69  server unavailable              130  interrupted (INT; also 129, 131, 143)
   73  the ticket cannot be written
`

func acquire(f *pflag.FlagSet) action {
	o := &acquireFlags{ticketFlags: ticketFlags{ttl: defaultTicketTTL}}
	f.Var((*seconds)(&o.ttl), "ttl", "keep the lock for `DUR` unless it is renewed")
	f.BoolVarP(&o.try, "try", "n", false, "do not wait if the lock is held")
	f.VarP((*seconds)(&o.wait), "wait", "w", "wait at most `DUR`; 0 is the same as --try (default: no limit)")
	f.IntVarP(&o.busyCode, "conflict-exit-code", "E", exitcode.Busy, "exit code `N` if the lock is held")
	f.StringArrayVar(&o.meta, "meta", nil, "a note `K=V` that is shown with the holder; may be repeated")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print what happens to the lock")
	o.defineTicket(f, "write the ticket to `FILE`, which must not exist, for its owner only", "write the ticket to the open file descriptor `N`, and close it")
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := o.check(); err != nil {
			return err
		}
		if err := o.claim(true); err != nil {
			return o.withoutTicket(stdout, stderr, err)
		}
		return o.with(ctx, stdout, stderr, o.acquire)
	}
}

func (o *acquireFlags) check() error {
	switch {
	case o.try && o.flags.Changed("wait"):
		return exitcode.Usagef("--try and --wait: choose one")
	case o.quiet && o.verbose:
		return exitcode.Usagef("--quiet and --verbose: choose one")
	case o.busyCode < 0 || o.busyCode > 255:
		return exitcode.Usagef("--conflict-exit-code %d: want 0 to 255", o.busyCode)
	}
	o.name = o.flags.Arg(0)
	if err := checkMeta(o.meta); err != nil {
		return err
	}
	// The lock is renewed until there is a ticket.
	o.job.TTL = min(15*time.Second, o.ttl)
	return o.checkTicket(true)
}

// acquire acquires the lock, detaches it, and puts the ticket in its place. If it fails, the lock is released.
func (o *acquireFlags) acquire(ctx context.Context, q *question, r *ticketReport) *exitcode.Error {
	began := time.Now()
	lease, err := o.obtain(ctx, q)
	r.Waited = time.Since(began).Milliseconds()
	var sig signals.Error
	switch {
	case err == nil:
	case errors.As(context.Cause(ctx), &sig) && errors.Is(err, context.Canceled) && (!errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrQuarantine)):
		return &exitcode.Error{Code: exitcode.Signal, Err: fmt.Errorf("%s while waiting for lock %q; there is no ticket", sig.Signal, o.name)}
	default:
		return o.refused(q, r, err)
	}
	// Before the lock is detached, so that a full disk costs no more than a release.
	pending, err := o.ticket.Reserve()
	if err != nil {
		return o.unwritten(err, lease.Release(context.Background()))
	}
	defer pending.Drop()
	origin := &ticketfile.Origin{Server: r.Server, RunID: o.runID(ctx, q)}
	detaching := time.Now()
	ticket, err := lease.Detach(ctx, o.ttl)
	if err != nil {
		if kept := lease.Release(context.Background()); kept != nil && !errors.Is(kept, holdfast.ErrLost) {
			err = fmt.Errorf("%w; the lock was not released, and expires within %s", err, o.ttl)
		}
		return q.Failure(err)
	}
	if err = ctx.Err(); err == nil {
		origin.Expires = detaching.Add(o.ttl)
		err = pending.Write(ctx, ticketfile.Content{Ticket: ticket, Origin: origin})
	}
	if err != nil {
		return o.unwritten(err, giveBack(q, ticket))
	}
	r.Outcome, r.Fence = "acquired", lease.Fence()
	r.keepsFor(o.ttl, detaching)
	q.Console.Detailf("acquired %q on %s, fence %d; the ticket is in %s", o.name, r.Server, r.Fence, &o.ticket)
	if err := o.tell(q, r); err != nil {
		exit := exitcode.As(err)
		return &exitcode.Error{Code: exit.Code, Err: errors.Join(cmp.Or(exit.Err, error(syscall.EPIPE)), giveBack(q, ticket), o.ticket.Remove())}
	}
	return nil
}

// obtain waits for the lock. On a terminal it says what it waits for.
func (o *acquireFlags) obtain(ctx context.Context, q *question) (*holdfast.Lease, error) {
	var bound holdfast.WaitOption = holdfast.Options()
	if o.wait > 0 {
		bound = holdfast.Wait(o.wait)
	}
	lock := q.Locks.Mutex(o.name, o.option(), bound)
	if o.try || o.flags.Changed("wait") && o.wait == 0 {
		return lock.TryAcquire(ctx)
	}
	if q.Console.Verbose() || console.IsTerminal(q.Streams.Err) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		tell := time.AfterFunc(time.Second, func() {
			if status, err := lock.Status(ctx); err == nil && status.Held() {
				q.Console.Notef("waiting for lock %q, held by %s; %d waiting", o.name, job.Describe(status.Holders[0], status.Key), status.Waiting)
			}
		})
		defer tell.Stop()
	}
	return lock.Acquire(ctx)
}

// refused returns how to exit if the lock was not acquired.
func (o *acquireFlags) refused(q *question, r *ticketReport, err error) *exitcode.Error {
	var held *holdfast.HeldError
	if !errors.As(err, &held) {
		return q.Failure(err)
	}
	by := "others, who wait for it"
	if h := held.Holder; h.Foreign || h.Identity != "" || h.PID != 0 {
		by, r.Holder = job.Describe(h, o.keyOf(o.name)), job.NewHolder(h, 0)
	}
	r.Outcome = "busy"
	if o.quiet {
		return &exitcode.Error{Code: o.busyCode}
	}
	after := ""
	if o.wait > 0 {
		after = fmt.Sprintf("after --wait %s, ", o.wait)
	}
	return &exitcode.Error{Code: o.busyCode, Err: fmt.Errorf("%slock %q on %s is held by %s; holdfast show %s says more", after, o.name, r.Server, by, shellWord(o.name))}
}

// unwritten returns how to exit if the ticket was not written; kept is the error of releasing the lock.
func (o *acquireFlags) unwritten(err, kept error) *exitcode.Error {
	what := "the lock was released"
	if kept != nil && !errors.Is(kept, holdfast.ErrLost) {
		what = fmt.Sprintf("the lock was not released, and expires within %s: %v", o.ttl, kept)
	}
	return &exitcode.Error{Code: exitcode.CannotCreate, Err: fmt.Errorf("the ticket of lock %q was not written to %s: %w; %s", o.name, &o.ticket, err, what)}
}

// giveBackTime is how long giveBack tries.
const giveBackTime = 5 * time.Second

// giveBack releases a lock whose ticket nobody else has.
func giveBack(q *question, t holdfast.Ticket) error {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTime)
	defer cancel()
	lease, err := q.Locks.Client().Adopt(ctx, t)
	if err == nil {
		err = lease.Release(ctx)
	}
	return err
}

// tell prints the fence, or the report. If the ticket is on standard output, it prints nothing.
func (o *acquireFlags) tell(q *question, r *ticketReport) error {
	if !o.asJSON && o.ticket.File == "" && o.ticket.FD == 1 {
		return nil
	}
	return printResult(q.Streams.Out, o.asJSON, r, strconv.FormatUint(r.Fence, 10)+"\n")
}
