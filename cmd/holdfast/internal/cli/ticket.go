package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exitcode"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/lockstatus"
)

const acquireHelp = `Acquires the lock NAME for a shell script, writes a ticket that stands for it, prints the
fence, and exits. The lock is held for --ttl, and for longer if holdfast renew is run in
time; holdfast release gives it up. Nobody renews it in between: holdfast run does, and
ends the job if the lock is lost, so use it if the job can be one command.

  ticket=$(mktemp -du)                             # a name, and no file
  fence=$(holdfast acquire --wait 1m --ttl 10m --ticket "$ticket" orders) || exit
  trap 'holdfast release --ticket "$ticket"' EXIT
  ./first.sh
  holdfast renew --ttl 10m --ticket "$ticket" || exit   # 79: it is lost
  ./second.sh

Whoever has the ticket can release the lock, or take it: keep it secret. Only the owner of
the file can read it. It never replaces another file. If the exit code is not 0, there is no
ticket, and the lock is not held. If holdfast is killed with -9, or the machine dies, the
lock stays held for --ttl at most.
`

const renewHelp = `Keeps a lock that holdfast acquire has acquired for at least --ttl from now. Run it well
before the time is over. If the lock is lost, the exit code is 79: somebody else may hold
it, so stop working with what it guards. After another error, try again while there is time.
The server and the prefix must be those of holdfast acquire.

  holdfast renew --ttl 10m --ticket "$ticket" || exit
`

const releaseHelp = `Releases a lock that holdfast acquire has acquired, hands it to the next waiter, and
removes the ticket. The server and the prefix must be those of holdfast acquire.

  trap 'holdfast release --ticket "$ticket"' EXIT

If the lock was lost before, the ticket is removed, too, and the exit code is 79: somebody
else may have held the lock while the script still worked. After another error the ticket
stays, unless it is used up: run the command again. If only the reply was lost, the second
run may report a lost lock that the first one released.
`

// ticketFlags are the flags of acquire, renew and release, between which a ticket in a file stands for the lock.
type ticketFlags struct {
	serverFlags
	file string
}

// defineTicket defines the flags that all three have. about is the text of --ticket.
func (o *ticketFlags) defineTicket(f *pflag.FlagSet, about string) {
	o.ttl, o.role = time.Minute, "locker"
	o.lacks = "whose locks have no tickets: name one server, or use holdfast run"
	f.StringVar(&o.file, "ticket", "", about)
	o.define(f)
	o.defineJSON()
	o.defineStrict()
}

func (o *ticketFlags) check() error {
	if o.file == "" {
		return exitcode.Usagef("want --ticket FILE: where the ticket is; see holdfast help %s", o.flags.Name())
	}
	return checkTTL(o.ttl)
}

// acquireFlags are the flags of holdfast acquire.
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
		r := &outcome{Name: f.Arg(0), Ticket: o.file}
		return o.do(ctx, stdout, stderr, r, func(ctx context.Context, locks *connect.Locks) error {
			return o.acquire(ctx, stdout, locks.Client(), r)
		})
	}
}

// acquire acquires the lock, detaches it, and writes the ticket. If it fails, the lock is released.
func (o *acquireFlags) acquire(ctx context.Context, stdout io.Writer, client *holdfast.Client, r *outcome) error {
	if err := checkFree(o.file); err != nil { // rather than after a long wait
		return err
	}
	// The lock is renewed until there is a ticket.
	lock := client.Mutex(r.Name, holdfast.TTL(min(15*time.Second, o.ttl)), meta(o.meta), o.patience())
	lease, err := lock.Acquire(ctx)
	if err != nil {
		return o.refused(r, err)
	}
	began := time.Now()
	ticket, err := lease.Detach(ctx, o.ttl)
	if err != nil {
		return o.kept(err, lease.Release(context.Background()))
	}
	if err := ctx.Err(); err != nil {
		return o.kept(err, giveBack(client, ticket))
	}
	if err := writeTicket(o.file, ticket); err != nil {
		err = fmt.Errorf("the ticket of lock %q was not written: %w", r.Name, err)
		return &exitcode.Error{Code: exitcode.CannotCreate, Err: o.kept(err, giveBack(client, ticket))}
	}
	r.Outcome, r.Fence = "acquired", lease.Fence()
	r.keepsFor(o.ttl, began)
	if err := o.print(stdout, r, strconv.FormatUint(r.Fence, 10)+"\n"); err != nil {
		return errors.Join(err, giveBack(client, ticket), os.Remove(o.file))
	}
	return nil
}

func (o *acquireFlags) patience() holdfast.WaitOption {
	if o.try || o.flags.Changed("wait") {
		return holdfast.Wait(o.wait)
	}
	return holdfast.Options()
}

// refused says who holds the lock.
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

// kept adds to an error that the lock could not be released either.
func (o *ticketFlags) kept(err, release error) error {
	if release == nil || errors.Is(release, holdfast.ErrLost) {
		return err
	}
	return fmt.Errorf("%w; the lock was not released, and expires within %s: %v", err, o.ttl, release)
}

// giveBack releases a lock whose ticket nobody else has.
func giveBack(client *holdfast.Client, t holdfast.Ticket) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	lease, err := client.Adopt(ctx, t)
	if err == nil {
		err = lease.Release(ctx)
	}
	return err
}

func renew(f *pflag.FlagSet) action {
	o := &ticketFlags{}
	o.defineTicket(f, "read the ticket from `FILE`")
	f.Var((*seconds)(&o.ttl), "ttl", "keep the lock for at least `DUR` from now; never for less than before")
	return o.withTicket(func(ctx context.Context, client *holdfast.Client, t holdfast.Ticket, r *outcome) error {
		began := time.Now()
		if err := client.ExtendTicket(ctx, t, o.ttl); err != nil {
			return o.lost(r, err)
		}
		r.Outcome = "renewed"
		r.keepsFor(o.ttl, began)
		return nil
	})
}

func release(f *pflag.FlagSet) action {
	o := &ticketFlags{}
	o.defineTicket(f, "read the ticket from `FILE`, and remove the file")
	return o.withTicket(func(ctx context.Context, client *holdfast.Client, t holdfast.Ticket, r *outcome) error {
		lease, err := client.Adopt(ctx, t)
		switch {
		case err == nil:
			// The ticket is used up: from here on a signal would only leave the lock to expire.
			if err = lease.Release(context.Background()); err != nil && !errors.Is(err, holdfast.ErrLost) {
				err = fmt.Errorf("%w; the lock expires by itself", err)
			}
		case !errors.Is(err, holdfast.ErrLost):
			return err
		}
		r.Outcome = "released"
		return errors.Join(o.lost(r, err), o.remove())
	})
}

func (o *ticketFlags) remove() error {
	if err := os.Remove(o.file); err != nil {
		return exitcode.Errorf(exitcode.CannotCreate, "the ticket was not removed: %w", err)
	}
	return nil
}

// lost says what it means if the server does not know the ticket.
func (o *ticketFlags) lost(r *outcome, err error) error {
	if !errors.Is(err, holdfast.ErrLost) {
		return err
	}
	return exitcode.Errorf(exitcode.Lost, "lock %q on %s is lost: the ticket has expired, or was released, or is of another server; "+
		"somebody else may hold the lock", r.Name, r.Server)
}

// withTicket returns an action that reads the ticket and calls f, which completes the outcome.
func (o *ticketFlags) withTicket(f func(context.Context, *holdfast.Client, holdfast.Ticket, *outcome) error) action {
	return func(ctx context.Context, _ io.Reader, stdout, stderr io.Writer) error {
		if err := o.check(); err != nil {
			return err
		}
		r := &outcome{Ticket: o.file}
		return o.do(ctx, stdout, stderr, r, func(ctx context.Context, locks *connect.Locks) error {
			t, exposed, err := readTicket(o.file)
			if err != nil {
				return &exitcode.Error{Code: exitcode.NoInput, Err: err}
			}
			if exposed {
				o.console.Warnf("other users can read the ticket %s, and whoever has it can take the lock: chmod 600 it", o.file)
			}
			r.Name = t.Name()
			if err := f(ctx, locks.Client(), t, r); err != nil {
				return err
			}
			return o.print(stdout, r, "")
		})
	}
}

// checkFree refuses to write a ticket over a file, whatever it is, or into a folder that does not exist.
func checkFree(name string) error {
	_, err := os.Lstat(name)
	switch {
	case err == nil:
		err = fmt.Errorf("%s exists: if it is a ticket, holdfast release --ticket FILE releases the lock and removes the file", name)
	case errors.Is(err, fs.ErrNotExist):
		if _, err = os.Stat(filepath.Dir(name)); err == nil {
			return nil
		}
	}
	return exitcode.Errorf(exitcode.CannotCreate, "the ticket cannot be written: %w", err)
}

// writeTicket writes a new file, which only its owner can read. After an error there is none.
func writeTicket(name string, t holdfast.Ticket) error {
	text, err := t.MarshalText()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(name)
	}
	return err
}

// readTicket reads a ticket, and reports whether other users can read it.
func readTicket(name string) (t holdfast.Ticket, exposed bool, err error) {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t, false, fmt.Errorf("there is no ticket %s: it was released, or never acquired", name)
	case err != nil:
		return t, false, err
	case !info.Mode().IsRegular():
		return t, false, fmt.Errorf("%s is not a regular file", name)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return t, false, err
	}
	if t.UnmarshalText([]byte(strings.TrimSpace(string(text)))) != nil {
		return t, false, fmt.Errorf("%s has no ticket", name)
	}
	return t, runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0, nil
}
