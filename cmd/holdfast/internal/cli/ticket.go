package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
	"github.com/holdfast-go/holdfast/transfer"
)

// ticketFlags are the flags that acquire, renew and release have in common.
type ticketFlags struct {
	serverFlags
	place ticketPlace
	from  string // the address of the server that gave the ticket; "" if unknown
}

// defineTicket defines the flags. about describes --ticket.
func (o *ticketFlags) defineTicket(f *pflag.FlagSet, about string) {
	o.ttl, o.role = time.Minute, "locker"
	o.lacks = "whose locks have no tickets: name one server, or use holdfast run"
	f.StringVar((*string)(&o.place), "ticket", "", about)
	o.define(f)
	o.defineJSON()
	o.defineStrict()
}

func (o *ticketFlags) check() error {
	if o.place == "" {
		return exitcode.Usagef("want --ticket FILE: where the ticket is; see holdfast help %s", o.flags.Name())
	}
	return checkTTL(o.ttl)
}

type acquireFlags struct {
	ticketFlags
	try  bool
	wait time.Duration
	meta []string
}

func acquire(f *pflag.FlagSet) action {
	o := &acquireFlags{}
	o.defineTicket(f, "write the ticket to `FILE`, which must not exist")
	f.Var((*seconds)(&o.ttl), "ttl", "keep the lock for `DUR` unless it is renewed")
	f.BoolVarP(&o.try, "try", "n", false, "do not wait if the lock is held")
	f.VarP((*seconds)(&o.wait), "wait", "w", "wait at most `DUR`; 0 is the same as --try (default no limit)")
	f.StringArrayVar(&o.meta, "meta", nil, "a note `K=V` that is shown with the holder; may be repeated")
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := chooseOne(f, "try", "wait"); err != nil {
			return err
		}
		if err := checkMeta(o.meta); err != nil {
			return err
		}
		if err := o.check(); err != nil {
			return err
		}
		if o.place.isStdout() && o.json {
			return exitcode.Usagef("--ticket %s and --json: both go to standard output", o.place)
		}
		r := &outcome{Name: f.Arg(0), Ticket: string(o.place)}
		return o.do(ctx, stdout, stderr, r, func(ctx context.Context, locks *connect.Locks) error {
			return o.acquire(ctx, stdout, locks.Client(), r)
		})
	}
}

// acquire acquires the lock, detaches it, and writes the ticket. After an error it releases the lock.
func (o *acquireFlags) acquire(ctx context.Context, stdout io.Writer, client *holdfast.Client, r *outcome) error {
	if err := o.place.check(); err != nil {
		return exitcode.Errorf(exitcode.CannotCreate, "the ticket cannot be written: %w", err)
	}
	// The library renews the lock until there is a ticket.
	lock := client.Mutex(r.Name, holdfast.TTL(min(15*time.Second, o.ttl)), meta(o.meta), o.patience())
	lease, err := lock.Acquire(ctx)
	if err != nil {
		return whenInterrupted(ctx, o.refused(r, err), fmt.Sprintf("while waiting for lock %q on %s; there is no ticket", r.Name, r.Server))
	}
	began := time.Now()
	ticket, err := transfer.Detach(ctx, lease, o.ttl)
	if err != nil {
		return o.kept(err, lease.Release(context.Background()))
	}
	if err = ctx.Err(); err == nil {
		err = o.place.write(ctx, ticket, r.Server)
	}
	if err != nil {
		return o.unwritten(ctx, r, err, giveBack(client, ticket))
	}
	r.Outcome, r.Fence = "acquired", lease.Fence()
	r.keepsFor(o.ttl, began)
	text := strconv.FormatUint(r.Fence, 10) + "\n"
	if o.place.isStdout() {
		text = ""
	}
	if err := o.print(stdout, r, text); err != nil {
		return errors.Join(err, giveBack(client, ticket), o.place.remove())
	}
	return nil
}

// unwritten returns the error for a ticket that could not be written. kept is the error of the lock's release.
func (o *acquireFlags) unwritten(ctx context.Context, r *outcome, err, kept error) error {
	what := "the lock was released"
	if kept != nil && !errors.Is(kept, holdfast.ErrLost) {
		what = fmt.Sprintf("the lock was not released, and expires within %s: %v", o.ttl, kept)
	}
	code := exitcode.CannotCreate
	if sig := context.Cause(ctx); errors.As(sig, new(terminal.SignalError)) {
		code = exitcode.OfLibrary(sig).Code
	}
	return exitcode.Errorf(code, "the ticket of lock %q was not written to %s: %w; %s", r.Name, o.place, err, what)
}

func (o *acquireFlags) patience() holdfast.WaitOption {
	if o.try || o.flags.Changed("wait") {
		return holdfast.Wait(o.wait)
	}
	return holdfast.Options()
}

// refused adds who holds the lock to an acquire's error.
func (o *acquireFlags) refused(r *outcome, err error) error {
	var held *holdfast.HeldError
	if !errors.As(err, &held) {
		return err
	}
	if h := held.Holder; !h.IsZero() {
		holder := lockstatus.NewHolder(h)
		r.Holder = &holder
	}
	return exitcode.Errorf(exitcode.Busy, "%w, on %s; holdfast show %s says more", err, r.Server, shellWord(r.Name))
}

// whenInterrupted returns err, or what to say instead if a signal has ended ctx.
func whenInterrupted(ctx context.Context, err error, when string) error {
	var sig terminal.SignalError
	if !errors.As(context.Cause(ctx), &sig) || !errors.Is(err, context.Canceled) {
		return err
	}
	return exitcode.Interrupted(sig.Signal, when, err)
}

// kept adds the error of the lock's release to err.
func (o *ticketFlags) kept(err, release error) error {
	if release == nil || errors.Is(release, holdfast.ErrLost) {
		return err
	}
	return fmt.Errorf("%w; the lock was not released, and expires within %s: %v", err, o.ttl, release)
}

// giveBack releases a lock whose ticket was not handed out.
func giveBack(client *holdfast.Client, t transfer.Ticket) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	lease, err := transfer.Adopt(ctx, client, t)
	if err == nil {
		err = lease.Release(ctx)
	}
	return err
}

func renew(f *pflag.FlagSet) action {
	o := &ticketFlags{}
	o.defineTicket(f, "read the ticket from `FILE`")
	f.Var((*seconds)(&o.ttl), "ttl", "keep the lock for at least `DUR` from now; never for less than before")
	return o.withTicket(func(ctx context.Context, client *holdfast.Client, t transfer.Ticket, r *outcome) error {
		began := time.Now()
		if err := transfer.Extend(ctx, client, t, o.ttl); err != nil {
			err, _ = o.lost(r, err)
			return err
		}
		r.Outcome = "renewed"
		r.keepsFor(o.ttl, began)
		return nil
	})
}

func release(f *pflag.FlagSet) action {
	o := &ticketFlags{}
	o.defineTicket(f, "read the ticket from `FILE`, and remove the file")
	return o.withTicket(func(ctx context.Context, client *holdfast.Client, t transfer.Ticket, r *outcome) error {
		lease, err := transfer.Adopt(ctx, client, t)
		certain := true
		switch {
		case err == nil:
			// The ticket is used up. If a signal interrupted the release now, the lock would stay until it expires.
			if err = lease.Release(context.Background()); err != nil && !errors.Is(err, holdfast.ErrLost) {
				err = fmt.Errorf("%w; the lock expires by itself", err)
			}
		case errors.Is(err, holdfast.ErrLost):
			err, certain = o.lost(r, err)
		default:
			return err
		}
		if r.Outcome = "released"; certain {
			return errors.Join(err, o.remove())
		}
		if !o.place.isDescriptor() {
			err = exitcode.Errorf(exitcode.Lost, "%w; the ticket %s is kept: remove it if the lock is lost", err, o.place)
		}
		return err
	})
}

func (o *ticketFlags) remove() error {
	if err := o.place.remove(); err != nil {
		return exitcode.Errorf(exitcode.CannotCreate, "the ticket was not removed: %w", err)
	}
	return nil
}

// lost adds to ErrLost what it means. certain is false if another server may know the ticket.
func (o *ticketFlags) lost(r *outcome, err error) (_ error, certain bool) {
	because := "the ticket has expired, or was released"
	switch {
	case !errors.Is(err, holdfast.ErrLost):
		return err, false
	case o.from == "":
		because += ", or is of another server"
	case o.from != r.Server:
		return exitcode.Errorf(exitcode.Lost, "%s does not have lock %q under this ticket, which is of %s: if that is another server, "+
			"name it with --redis; if not, the lock is lost, and somebody else may hold it", r.Server, r.Name, o.from), false
	}
	return exitcode.Errorf(exitcode.Lost, "lock %q on %s is lost: %s; somebody else may hold the lock", r.Name, r.Server, because), true
}

// withTicket returns an action that reads the ticket, calls f, which completes the outcome, and prints that.
func (o *ticketFlags) withTicket(f func(context.Context, *holdfast.Client, transfer.Ticket, *outcome) error) action {
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := o.check(); err != nil {
			return err
		}
		r := &outcome{Ticket: string(o.place)}
		return o.do(ctx, stdout, stderr, r, func(ctx context.Context, locks *connect.Locks) error {
			t, from, exposed, err := o.place.read()
			if err != nil {
				return &exitcode.Error{Code: exitcode.NoInput, Err: err}
			}
			if exposed {
				o.console.Warnf("other users can read the ticket %s, and whoever has it can take the lock: chmod 600 it", o.place)
			}
			r.Name, o.from = t.Name(), from
			if err := f(ctx, locks.Client(), t, r); err != nil {
				return whenInterrupted(ctx, err, "before the server answered; run holdfast "+o.flags.Name()+" again")
			}
			return o.print(stdout, r, "")
		})
	}
}
