package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// Lease is a lock that is held until it is released or lost. It renews itself, unless the lock has NoRenew. Err, Done and Context
// tell when it is over. It is safe for concurrent use.
type Lease struct {
	leaseHandle
}

type leaseHandle = printable.Handle[engine.Lease]

func (l *Lease) e() engine.Lease { return printable.Of(l.leaseHandle) }

// newLease returns the result of the engine's acquire. The facade is an allocation of 16 bytes: to avoid it, the engine would have
// to know this type.
func newLease(e engine.Lease, err error) (*Lease, error) {
	if err != nil {
		return nil, leave(err)
	}
	return &Lease{printable.NewHandle(e)}, nil
}

// Err returns nil while the lease is held; then a *LostError, ErrReleased or ErrClosed. It compares clocks itself, so it
// is right even in a process that was paused past the deadline and, on Linux, on a machine that was suspended. It
// sends nothing.
func (l *Lease) Err() error { return l.leave(l.e().Err()) }

// Context returns a context that ends with parent or with the lease, whichever is first. If the lease ends it, its cause
// (context.Cause) is Err. It carries the lease: with it a Reentrant lock can be acquired again, while any other lock returns
// ErrDeadlock if it would wait for the lease.
func (l *Lease) Context(parent context.Context) context.Context {
	ctx, end := l.scope(parent)
	if parent.Done() != nil {
		// The lease is not to remember a context that ended with its parent.
		context.AfterFunc(ctx, func() { end(nil) })
	}
	return ctx
}

// scope returns the context of work under the lease, and what ends that.
func (l *Lease) scope(parent context.Context) (_ context.Context, end context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(engine.Within(parent, l.e()))
	forget := l.e().WhenOver(func(err error) { cancel(l.leave(err)) })
	return ctx, func(cause error) {
		forget()
		cancel(cause)
	}
}

// Done returns a channel that is closed when the lease ends: at the deadline at the latest.
func (l *Lease) Done() <-chan struct{} { return l.e().Done() }

// Revoked returns a channel that is closed when somebody asks the holder to let go, with holdfast revoke or
// inspect.Inspector.Revoke. The lease goes on until it is released. Goroutines of this process that share the grant, or pass it
// on, are asked together. The client learns of it by push, a second after the grant at the earliest, and not at all without a
// subscription (Poll, Config.PollInterval, an ACL that forbids it).
func (l *Lease) Revoked() <-chan struct{} { return l.e().Revoked() }

// Fence returns a number above those of all earlier leases of the lock; of Multi, the highest of Fences. A resource that
// refuses writes with a lower fence than it has seen is safe from late holders: see package fence. Fences go on rising after
// the server has lost its data, unless the server's clock went back too.
//
// Readers that hold an RWMutex together have the same fence, and so have the leases of an owner, and nested leases (Reentrant).
// Of a Semaphore it tells which of two grants was later, but not that the earlier one is over.
func (l *Lease) Fence() uint64 { return l.e().Token() }

// Fences returns the fence of each lock that the lease holds, by name: of one, or, with Multi, of several. Give a resource
// the fence of the lock that guards it.
func (l *Lease) Fences() map[string]uint64 { return l.e().Tokens() }

// IsShared reports whether others may hold the lock with the same fence: whether the lease is a reader's, of an RWMutex.
// Guards let such leases in beside each other.
func (l *Lease) IsShared() bool { return l.e().IsShared() }

// Deadline returns the local time, with a monotonic reading, until which the lease is certainly held unless it is renewed or
// released: when it was last asked for, plus its TTL, less 1% and 2 ms for drift. A lock that was handed over begins with a
// claim of about 1.5 s, which the first renewal makes a TTL after 5 ms; Extend waits for that.
func (l *Lease) Deadline() time.Time { return l.e().Deadline() }

// Extend makes the lease last at least ttl from now: 1 ms to Config.MaxTTL, or it is ErrInvalid. It does not go beyond MaxHold,
// and never makes the server keep the lock for less than before, though Deadline, reckoned anew, may be a fraction of a
// millisecond earlier. Renewals go on as before. After ErrLost the lease is over; after another error it lasts as long as
// before, or longer.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	return l.leave(l.e().Extend(ctx, ttl))
}

// Release gives the lock up: to the first in the queue, if there is one. It works after ctx has ended, for as long as
// Config.RetryTimeout; the deadline of a ctx that has not ended bounds how long the call waits. A second call returns nil, and
// one while another is under way has that one's outcome. ErrLost says that the lease had been lost before. After
// ErrUnavailable, or when ctx's deadline has passed, the release goes on in the background; called again, Release returns
// ErrAmbiguous if the lock is no longer the lease's, most likely because an earlier try has released it.
//
// The lease is over from the moment of the call, whatever it returns. A lock that is held together, by readers of this process
// or by nested leases (Reentrant), stays held until the last of them is released.
func (l *Lease) Release(ctx context.Context) error { return l.leave(l.e().Release(ctx)) }

// Name returns the lock's name; of Multi, all names, with commas between them.
func (l *Lease) Name() string { return l.e().Name() }

// Identity returns the name that people see as the holder's.
func (l *Lease) Identity() string { return l.e().Owner() }

// leave is leave for an error of this lease, which knows its fence.
func (l *Lease) leave(err error) error {
	if err == nil {
		return nil
	}
	err = leave(err)
	var lost *LostError
	if errors.As(err, &lost) && lost.Fence == 0 {
		lost.Fence = l.e().Tokens()[lost.Name]
	}
	return err
}
