// Package transfer hands a held lock from one process to another, which goes on with it under a new fence.
package transfer

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/option"
)

// Ticket carries a detached lease to another process: Detach makes it, and Adopt takes the lock over. It is a secret: it gives its bearer
// the lock. The zero Ticket is for no lock.
type Ticket struct {
	// fmt prints unexported fields of other types without calling their methods. It does not follow the second pointer, so
	// it does not show the secret then either.
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

// MarshalText returns the ticket, with its secret, as text to hand over: at most 2 KiB of letters, digits, dots, dashes and
// underscores. Package json uses it too, even for a ticket inside another value, so do not log tickets as JSON. The zero Ticket
// is holdfast.ErrInvalid.
func (t Ticket) MarshalText() ([]byte, error) {
	if t.t == nil {
		return nil, fmt.Errorf("%w: the ticket is empty", holdfast.ErrInvalid)
	}
	return []byte(t.engine().Text()), nil
}

// UnmarshalText reads what MarshalText wrote, in this process or another. Anything else is holdfast.ErrInvalid, which does not show the
// text, and leaves t as it was.
func (t *Ticket) UnmarshalText(text []byte) error {
	read, err := engine.ParseTicket(string(text))
	if err != nil {
		return access.Error(err)
	}
	*t = newTicket(read)
	return nil
}

// String names the lock, without the secret; so do fmt and slog.
func (t Ticket) String() string {
	if t.t == nil {
		return "transfer.Ticket(none)"
	}
	return fmt.Sprintf("transfer.Ticket(%q)", t.engine().Lock)
}

// Format prints String.
func (t Ticket) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, t.String()) }

// LogValue returns String.
func (t Ticket) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Detach ends the lease here, with holdfast.ErrReleased, and keeps the lock held for at least ttl, until somebody with the ticket adopts
// it, usually another process. In between nobody holds the lock, and nobody else gets it; Status names the old holder. If nobody adopts it
// in time, it is free. The ttl is from 1 ms to Config.MaxTTL; the lock is held for as long as the lease would have lasted, at least. Extend
// keeps it longer.
//
// It is for a lease of a Mutex or MutexKey, acquired once: one that is nested (Reentrant), that of a job or an election, and all other kinds
// of locks are holdfast.ErrInvalid, before anything is sent. Neither MaxHold nor MaxRenewals bounds the ticket.
//
// Detach stops renewing and asks the server to keep the lock, for at most Config.RetryTimeout or until ctx ends. If the lease is lost or
// released meanwhile, it returns what Lease.Err does. After any other error, such as ErrReplicas, there is no ticket, and the lease goes on
// as before; the server may keep the lock for ttl if the process dies then.
func Detach(ctx context.Context, lease *holdfast.Lease, ttl time.Duration) (Ticket, error) {
	t, err := engine.Detach(ctx, access.Lease(lease), ttl)
	if err != nil {
		return Ticket{}, access.ErrorOf(lease, err)
	}
	return newTicket(t), nil
}

// Adopt takes over the lock that a ticket stands for, under a new fence. The lease is like any other: it is renewed, and Release hands the
// lock to the next waiter. Its options are those given here and in the client's Config, not those of the lease that was detached. If the
// ticket had more time left than the TTL, the lease begins with that time, up to Config.MaxTTL.
//
// A ticket can be adopted once, by one caller, in any process. holdfast.ErrLost says that it is no longer valid: it was adopted, it has
// expired, or the lock was deleted. A ticket for another Config.Prefix, and an empty one, are ErrInvalid. A Strict server in quarantine is
// ErrQuarantine, and the ticket stays valid.
//
// Adopt retries while the server is unavailable, for at most Config.RetryTimeout or until ctx ends. ErrAmbiguous, which also accompanies
// ErrReplicas, says that the lock may have been adopted. If it was, it is released in the background. Trying again does no harm: ErrLost
// says that the ticket is used up. After any other error the ticket stays valid.
func Adopt(ctx context.Context, locks *holdfast.Client, t Ticket, opts ...holdfast.MutexOption) (*holdfast.Lease, error) {
	c := access.Client(locks)
	lease, err := c.Engine.Adopt(ctx, t.engine(), option.Resolve(option.Set{Given: c.Durable}, opts).Given...)
	if err != nil {
		return nil, access.Error(err)
	}
	return access.NewLease(lease).(*holdfast.Lease), nil
}

// Extend keeps a detached lock held for at least ttl from now: 1 ms to Config.MaxTTL, or it is holdfast.ErrInvalid. It never shortens the
// time left. The ticket stays valid, even after an error, unless the error matches ErrLost: then it was adopted, it has expired, or the lock
// was deleted.
func Extend(ctx context.Context, locks *holdfast.Client, t Ticket, ttl time.Duration) error {
	c := access.Client(locks)
	return access.Error(c.Engine.ExtendTicket(ctx, t.engine(), ttl, c.Durable...))
}
