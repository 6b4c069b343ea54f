package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
)

const releaseHelp = `Usage: holdfast release [flags] --ticket FILE
       holdfast release [flags] --ticket-fd N

Releases a lock that holdfast acquire has acquired, hands it to the next waiter, and
removes the file of the ticket. If the lock was lost before, the file is removed, too, and
the exit code is 79: somebody else may have held the lock while the script still worked.
The file stays if the ticket still lasts, and another server may be the one that gave it:
the message says which server that was.

  trap 'holdfast release --ticket "$ticket"' EXIT

After another error the file stays, unless the ticket is used up: run the command again. If
only the reply was lost, the second run may report a lost lock that the first one released.

Flags:
{flags}

The server is the first of --redis, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379.
It must be the one of holdfast acquire, with the same --prefix.

JSON: name, server, outcome (released, lost, interrupted or failed), exit_code, ticket
  (the file), error.

Exit codes: 0 released, 64 wrong usage, 66 no ticket there, 69 unavailable, 77 refused,
78 wrong configuration, 79 the lock was lost before, 130 interrupted (INT; also 129, 131,
143).
`

func release(f *pflag.FlagSet) action {
	o := &ticketFlags{ttl: defaultTicketTTL}
	o.defineTicket(f, "read the ticket from `FILE`, and remove the file", "read the ticket from the open file descriptor `N`")
	return o.withTicket(func(ctx context.Context, q *question, r *ticketReport, t holdfast.Ticket) *exitcode.Error {
		lease, err := q.Locks.Client().Adopt(ctx, t)
		switch {
		case errors.Is(err, holdfast.ErrAmbiguous):
			return &exitcode.Error{Code: exitcode.Unavailable, Err: fmt.Errorf("%w; if lock %q was released, holdfast release says next time that it is lost", err, o.name)}
		case err != nil:
			exit, certain := o.ticketFailure(ctx, q, err)
			if certain {
				return o.used(exit)
			}
			if errors.Is(err, holdfast.ErrLost) && o.ticket.File != "" {
				exit.Err = fmt.Errorf("%w; the ticket %s is kept: remove it if the lock is lost", exit.Err, o.ticket.File)
			}
			return exit
		}
		// The ticket is used up: from here on a signal would only leave the lock to expire.
		if err := lease.Release(context.Background()); err != nil && !errors.Is(err, holdfast.ErrLost) {
			exit := q.Failure(err)
			exit.Err = fmt.Errorf("%w; the lock expires by itself", exit.Err)
			return o.used(exit)
		} else if err != nil {
			return o.used(q.Failure(err))
		}
		r.Outcome = "released"
		if exit := o.used(nil); exit != nil {
			return exit
		}
		return o.tell(q, r)
	})
}

// used removes the file of a ticket that is used up, and returns how to exit.
func (o *ticketFlags) used(exit *exitcode.Error) *exitcode.Error {
	err := o.ticket.Remove()
	switch {
	case err == nil:
		return exit
	case exit == nil:
		return &exitcode.Error{Code: exitcode.CannotCreate, Err: fmt.Errorf("lock %q is released, but the ticket was not removed: %w", o.name, err)}
	}
	exit.Err = errors.Join(exit.Err, fmt.Errorf("the ticket was not removed: %w", err))
	return exit
}
