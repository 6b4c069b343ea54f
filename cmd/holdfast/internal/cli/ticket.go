package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/signals"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/ticketfile"
)

// ticketFlags are the flags of acquire, renew and release, between which a ticket stands for the lock.
type ticketFlags struct {
	jobFlags
	ticket ticketfile.Place
	origin *ticketfile.Origin // of the ticket that was read, if that is known
	ttl    time.Duration      // for which the ticket keeps the lock
	asJSON bool
}

// defaultTicketTTL is how long a lock is kept for a script that does not say so.
const defaultTicketTTL = time.Minute

// defineTicket defines the flags that all three have. ticket and fd are the texts of --ticket and --ticket-fd.
func (o *ticketFlags) defineTicket(f *pflag.FlagSet, ticket, fd string) {
	f.StringVar(&o.ticket.File, "ticket", "", ticket)
	f.IntVar(&o.ticket.FD, "ticket-fd", 0, fd)
	f.BoolVar(&o.asJSON, "json", false, "print the outcome as one line of JSON on standard output")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print only errors")
	o.lacks = "whose locks have no tickets: name one server, or use holdfast run"
	o.define(f, onlyOne)
	o.defineStrict("Strict mode, as for holdfast run; the same for all that use the lock")
}

// checkTicket refuses flags that make no sense. forWriting says that the ticket is to be written.
func (o *ticketFlags) checkTicket(forWriting bool) error {
	changed := o.flags.Changed
	switch {
	case changed("ticket") == changed("ticket-fd"):
		return exitcode.Usagef("want --ticket FILE or --ticket-fd N: where the ticket is; see holdfast help %s", o.flags.Name())
	case changed("ticket") && o.ticket.File == "":
		return exitcode.Usagef("--ticket is empty")
	case changed("ticket"):
	case o.ticket.FD < 0 || o.ticket.FD > 1<<20:
		return exitcode.Usagef("--ticket-fd %d: want the number of an open file descriptor", o.ticket.FD)
	case o.ticket.FD == 2:
		return exitcode.Usagef("--ticket-fd 2: the ticket is a secret, and standard error is for messages")
	case forWriting && o.ticket.FD == 0, !forWriting && o.ticket.FD == 1:
		return exitcode.Usagef("--ticket-fd %d: choose another file descriptor", o.ticket.FD)
	case forWriting && o.ticket.FD == 1 && o.asJSON:
		return exitcode.Usagef("--ticket-fd 1 and --json: both go to standard output")
	}
	return checkTTL(o.ttl)
}

// checkTicketServers refuses servers and times that tickets do not allow.
func (o *ticketFlags) checkTicketServers(s *connect.Servers) error {
	if err := o.checkOne(s); err != nil {
		return err
	}
	return o.checkMaxTTL(s, o.ttl)
}

// ticketReport is what --json prints: how it went.
type ticketReport struct {
	Name     string      `json:"name,omitempty"`
	Server   string      `json:"server,omitempty"` // empty if no server was asked
	Outcome  string      `json:"outcome"`          // acquired, renewed, released, busy, lost, interrupted or failed
	ExitCode int         `json:"exit_code"`
	Fence    uint64      `json:"fence,omitempty"`
	TTL      int64       `json:"ttl_ms,omitempty"`
	Expires  *time.Time  `json:"expires,omitempty"` // not before, by this machine's clock
	Ticket   string      `json:"ticket,omitempty"`  // the file
	Waited   int64       `json:"waited_ms,omitempty"`
	Holder   *job.Holder `json:"holder,omitempty"` // who holds the lock instead
	Error    string      `json:"error,omitempty"`
}

// keepsFor notes that the ticket keeps the lock for ttl, counted from began.
func (r *ticketReport) keepsFor(ttl time.Duration, began time.Time) {
	expires := began.Add(ttl)
	r.TTL, r.Expires = ttl.Milliseconds(), &expires
}

// with opens the servers and calls f, whose context a signal ends, and reports how it went. If f succeeds, a signal changes
// nothing any more.
func (o *ticketFlags) with(ctx context.Context, stdout, stderr io.Writer, f func(context.Context, *question, *ticketReport) *exitcode.Error) error {
	q := newQuestion(&o.jobFlags, stdout, stderr)
	closeAll, err := o.openFor(q.Run, o.checkTicketServers)
	if err != nil {
		return err
	}
	defer closeAll()
	r := &ticketReport{Name: o.name, Server: q.Servers.Addr(), Ticket: o.ticket.File}
	ctx, stop := signals.Context(ctx)
	defer stop()
	exit := f(ctx, q, r)
	if exit == nil {
		return nil
	}
	var sig signals.Error
	if errors.As(context.Cause(ctx), &sig) && exit.Code != exitcode.Lost {
		exit.Code, r.Outcome = exitcode.OfLibrary(sig).Code, "interrupted"
		if exit.Err == context.Canceled { // and nothing is known besides
			exit.Err = fmt.Errorf("%s before the server answered; run holdfast %s again", sig.Signal, o.flags.Name())
		}
	}
	return o.report(q, r, exit)
}

// report tells of a failure, and returns how to exit.
func (o *ticketFlags) report(q *question, r *ticketReport, exit *exitcode.Error) error {
	if exit.Err != nil {
		q.Console.Error(exit.Err)
		r.Error = q.Console.Redact(exit.Err.Error())
	}
	if r.ExitCode = exit.Code; r.Outcome == "" {
		r.Outcome = "failed"
		if exit.Code == exitcode.Lost {
			r.Outcome = "lost"
		}
	}
	if o.asJSON {
		_ = printJSON(q.Streams.Out, r) // what failed first decides on the exit code
	}
	return &exitcode.Error{Code: exit.Code}
}

// withoutTicket reports that the ticket cannot be read, or has no place, before a server is asked.
func (o *ticketFlags) withoutTicket(stdout, stderr io.Writer, err error) error {
	var exit *exitcode.Error
	if !errors.As(err, &exit) || exit.Code == exitcode.Usage {
		return err
	}
	return o.report(newQuestion(&o.jobFlags, stdout, stderr), &ticketReport{Name: o.name, Ticket: o.ticket.File}, exit)
}

// claim opens the ticket's file descriptor, and refuses to write over a file.
func (o *ticketFlags) claim(forWriting bool) error {
	err := o.ticket.Claim(forWriting)
	switch {
	case err == nil:
		return nil
	case o.ticket.File == "":
		return exitcode.Usagef("--ticket-fd: %w", err)
	}
	return &exitcode.Error{Code: exitcode.CannotCreate, Err: fmt.Errorf("the ticket cannot be written: %w", err)}
}

// read returns the ticket, and notes its origin. It is called before a server is asked.
func (o *ticketFlags) read(stderr io.Writer) (holdfast.Ticket, error) {
	if err := o.claim(false); err != nil {
		return holdfast.Ticket{}, err
	}
	c, exposed, err := o.ticket.Read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("there is no ticket %s: it was released, or never acquired", o.ticket.File)
	case err == nil && exposed:
		newQuestion(&o.jobFlags, nil, stderr).Console.Warnf("other users can read the ticket %s, and whoever has it can take the lock: chmod 600 it", o.ticket.File)
	}
	if err != nil {
		return holdfast.Ticket{}, &exitcode.Error{Code: exitcode.NoInput, Err: err}
	}
	o.name, o.origin = c.Ticket.Name(), c.Origin
	return c.Ticket, nil
}

// originTime bounds how long the command waits for the server's run id.
const originTime = 5 * time.Second

// runID returns the run id of the server that has the lock, or "".
func (o *ticketFlags) runID(ctx context.Context, q *question) string {
	ctx, cancel := context.WithTimeout(ctx, originTime)
	defer cancel()
	return q.Servers.All[0].RunID(ctx, o.keyOf(o.name))
}

// ticketFailure is Run.Failure with advice about the ticket. If the server says that the lock is lost, certain reports whether
// that is beyond doubt, so that the ticket is of no more use. Until a ticket expires, only the server that issued it knows, and
// a server with another run id may be a different one, or the same one after a restart.
func (o *ticketFlags) ticketFailure(ctx context.Context, q *question, err error) (exit *exitcode.Error, certain bool) {
	exit = q.Failure(err)
	if !errors.Is(err, holdfast.ErrLost) {
		return exit, false
	}
	lost := fmt.Sprintf("lock %q on %s is lost: the ticket has expired, or was released", o.name, q.Servers.Addr())
	switch from := o.origin; {
	case from == nil:
		exit.Err = fmt.Errorf("%s, or is of another server; somebody else may hold the lock", lost)
	case !time.Now().Before(from.Expires), from.RunID != "" && from.RunID == o.runID(ctx, q):
		exit.Err = fmt.Errorf("%s; somebody else may hold the lock", lost)
	case from.Server != q.Servers.Addr():
		exit.Err = fmt.Errorf("%s does not have lock %q under this ticket, which is of %s and lasts until %s: if that is another server, name it with --redis; "+
			"if not, the lock is lost, and somebody else may hold it", q.Servers.Addr(), o.name, from.Server, from.Expires.Local().Format(time.DateTime))
		return exit, false
	default:
		exit.Err = fmt.Errorf("%s does not have lock %q under this ticket, which lasts until %s: if that address is now another server's than when the ticket was written, "+
			"reach that one; if not, the lock is lost, and somebody else may hold it", q.Servers.Addr(), o.name, from.Expires.Local().Format(time.DateTime))
		return exit, false
	}
	return exit, true
}
