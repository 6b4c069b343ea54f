package holdfast

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Ticket carries a detached lease to another process: Lease.Detach makes it, and Client.Adopt takes the lock over. It is a
// secret: it gives its bearer the lock. The zero Ticket is for no lock.
type Ticket struct {
	// Behind two pointers fmt does not show the secret of a ticket that is an unexported field of something else, which it
	// prints without calling methods.
	t **engine.Ticket
}

func newTicket(t *engine.Ticket) Ticket { return Ticket{&t} }

// engine returns the ticket, or nil if it is empty.
func (t Ticket) engine() *engine.Ticket {
	if t.t == nil {
		return nil
	}
	return *t.t
}

// Name returns the lock's name, or the key of a MutexKey.
func (t Ticket) Name() string {
	if t.t == nil {
		return ""
	}
	return t.engine().Lock
}

// MarshalText returns the ticket as text, secret included, to be handed over: at most 2 KiB of letters, digits, dots, dashes
// and underscores. Package json writes a ticket so, too, also within something else: beware of logging that as JSON. The
// zero Ticket is ErrInvalid.
func (t Ticket) MarshalText() ([]byte, error) {
	if t.t == nil {
		return nil, fmt.Errorf("%w: the ticket is empty", ErrInvalid)
	}
	return []byte(t.engine().Text()), nil
}

// UnmarshalText reads what MarshalText wrote, in this process or another. Anything else is ErrInvalid, which does not show
// the text, and leaves t as it was.
func (t *Ticket) UnmarshalText(text []byte) error {
	read, err := engine.ParseTicket(string(text))
	if err != nil {
		return leave(err)
	}
	*t = newTicket(read)
	return nil
}

// String names the lock, without the secret; so do fmt and slog.
func (t Ticket) String() string {
	if t.t == nil {
		return "holdfast.Ticket(none)"
	}
	return fmt.Sprintf("holdfast.Ticket(%q)", t.engine().Lock)
}

// Format prints String.
func (t Ticket) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, t.String()) }

// LogValue returns String.
func (t Ticket) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Detach ends the lease here, with ErrReleased, and keeps the lock held for ttl at least, until whoever gets the ticket
// adopts it: another process, most often. In between nobody believes they hold the lock, and nobody else gets it. If nobody
// adopts it in time, it is free. The ttl is from 1 ms to Config.MaxTTL; the lock is never held for less than the lease would
// have lasted. Client.ExtendTicket keeps it longer.
//
// It is for a lease of a Mutex or MutexKey, acquired once: one that is nested (Reentrant), that of a job (Once) or a term
// (Election), and all other kinds of locks are ErrInvalid, before anything is sent. Neither MaxHold nor MaxRenewals bounds
// the ticket.
//
// Detach stops renewing first, and asks the server to keep the lock, for at most Config.RetryTimeout or until ctx ends. If
// the lease is lost or released meanwhile, it returns what Err does. After any other error there is no ticket, and the lease
// goes on and is renewed as before; the server may keep the lock for ttl if the process dies then. Config.MinReplicas and
// Fsync apply: ErrReplicas says that too few have it.
func (l *Lease) Detach(ctx context.Context, ttl time.Duration) (Ticket, error) {
	t, err := engine.Detach(ctx, l.e, ttl)
	if err != nil {
		return Ticket{}, l.leave(err)
	}
	return newTicket(t), nil
}

// Adopt takes over the lock that a ticket stands for, under a new fence, above the detached lease's. The lease is like any
// other: it is renewed, and Release serves those who wait. Its options are its own, not those of the lease that was
// detached, and so are those of c's Config. If the ticket had more time left than the TTL, the lease begins with that,
// though no longer than Config.MaxTTL.
//
// A ticket is adopted once, by one caller, in whatever process. ErrLost says that it is no longer valid: it was adopted, it has
// expired, or the lock was deleted. A ticket for another Config.Prefix, and an empty one, are ErrInvalid. Adopt does not
// wait: when a Strict server grants nothing yet, it returns ErrQuarantine, and the ticket is as good as before.
//
// Adopt asks again while the server is not available, for at most Config.RetryTimeout or until ctx ends; however often it
// asks, the lock is adopted once. After ErrAmbiguous, which comes with ErrReplicas, too, the lock was perhaps adopted: then it
// is given back in the background, and others get it. To try again does no harm; ErrLost tells that the ticket is used up.
// After any other error the ticket is as good as before.
func (c *Client) Adopt(ctx context.Context, t Ticket, opts ...Option) (*Lease, error) {
	return newLease(c.e.Adopt(ctx, t.engine(), resolve(options{given: c.common}, opts).given...))
}

// ExtendTicket keeps a detached lock held for at least ttl from now, 1 ms to Config.MaxTTL. It never shortens that. The
// ticket stays valid, also after an error, unless that matches ErrLost: then it was adopted, it has expired, or the lock was
// deleted.
func (c *Client) ExtendTicket(ctx context.Context, t Ticket, ttl time.Duration) error {
	return leave(c.e.ExtendTicket(ctx, t.engine(), ttl, c.common...))
}
