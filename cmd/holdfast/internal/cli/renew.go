package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/ticketfile"
)

const renewHelp = `Usage: holdfast renew [flags] --ticket FILE
       holdfast renew [flags] --ticket-fd N

Keeps a lock that holdfast acquire has acquired for longer: for at least --ttl from now.
Run it well before that time is over. If the lock is lost, the exit code is 79: somebody
else may hold it, so stop working with what it guards.

  holdfast renew --ttl 10m --ticket "$ticket" || exit

After another error the ticket is as valid as before: try again while there is time.

Flags:
{flags}

The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379.
It must be the one of holdfast acquire, with the same --prefix.

JSON: name, server, outcome (renewed, lost, interrupted or failed), exit_code, ttl_ms,
  expires, ticket (the file), error.

Exit codes: 0 renewed, 64 wrong usage, 66 no ticket there, 69 unavailable, 77 refused,
78 wrong configuration, 79 the lock is lost, 130 interrupted (INT; also 129, 131, 143).
`

func renew(f *pflag.FlagSet) action {
	o := &ticketFlags{ttl: defaultTicketTTL}
	f.Var((*seconds)(&o.ttl), "ttl", "keep the lock for at least `DUR` from now; never for less than before")
	o.defineTicket(f, "read the ticket from `FILE`", "read the ticket from the open file descriptor `N`")
	return o.withTicket(func(ctx context.Context, q *question, r *ticketReport, t holdfast.Ticket) *exitcode.Error {
		began := time.Now()
		if err := q.Locks.Client().ExtendTicket(ctx, t, o.ttl); err != nil {
			exit, _ := o.ticketFailure(ctx, q, err)
			return exit
		}
		r.Outcome = "renewed"
		r.keepsFor(o.ttl, began)
		o.noteRenewal(q, t, began.Add(o.ttl))
		return o.tell(q, r)
	})
}

// noteRenewal updates the expiry in the ticket's file.
func (o *ticketFlags) noteRenewal(q *question, t holdfast.Ticket, expires time.Time) {
	if o.origin == nil || !expires.After(o.origin.Expires) {
		return
	}
	o.origin.Expires = expires
	if err := o.ticket.Update(ticketfile.Content{Ticket: t, Origin: o.origin}); err != nil {
		q.Console.Warnf("the lock is renewed, but the ticket does not say so: %v", err)
	}
}

// withTicket returns an action that reads the ticket and calls f.
func (o *ticketFlags) withTicket(f func(context.Context, *question, *ticketReport, holdfast.Ticket) *exitcode.Error) action {
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := o.checkTicket(false); err != nil {
			return err
		}
		t, err := o.read(stderr)
		if err != nil {
			return o.withoutTicket(stdout, stderr, err)
		}
		return o.with(ctx, stdout, stderr, func(ctx context.Context, q *question, r *ticketReport) *exitcode.Error { return f(ctx, q, r, t) })
	}
}

// tell prints the report, with --json.
func (o *ticketFlags) tell(q *question, r *ticketReport) *exitcode.Error {
	if !o.asJSON {
		return nil
	}
	if err := printJSON(q.Streams.Out, r); err != nil {
		return exitcode.As(err)
	}
	return nil
}
