package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// Lock can be acquired, which gives a Lease. It is immutable and free to make; nothing is sent before it is used.
type Lock struct {
	e    engine.Lock
	wait waitLimit
}

// Acquire waits until it has the lock, the Wait limit passes or ctx ends. Waiters are served in order: the processes in
// the order in which they came, and the goroutines of one process in the order of their calls. A free lock costs one round
// trip; a waiter sleeps until it is handed the lock.
//
// When ctx ends, the error is ctx's. If its deadline has passed while others hold the lock, the error is also a *HeldError. To name
// the holder, Acquire asks the server, which delays its return by at most 50 ms or three round trips. If the client knows that the
// server was not answering, the error also matches ErrUnavailable and is a *ServerError; if it knows that a Strict server was in
// quarantine, it matches ErrQuarantine, too. If the server does not answer and ctx's deadline leaves no time for another try,
// ErrUnavailable is returned before the deadline. Wait says which error is returned when its limit passes. What the server, or the way to it, does not allow is a
// *ServerError; a bad name or option is ErrInvalid, before anything is sent; after Client.Close it is ErrClosed. After an
// error the caller has no lock and no place in the queue; what may still be on its way is taken back in the background.
//
// A ctx that was made from a lease's (Lease.Context, or f's of Do) carries that lease. If the lease is still held and is one
// of this lock, of the same Client, the acquire would wait for itself: it returns ErrDeadlock at once. This includes readers
// within a lease of either side, because a reader within a reader waits for itself once a writer is queued between them. A
// Reentrant lock is acquired again instead. Permits of a Semaphore can be taken while others are held, as long as it has that
// many. A Multi returns ErrDeadlock if this is so for any of its locks.
func (l *Lock) Acquire(ctx context.Context) (*Lease, error) {
	if l.wait == noWait {
		ctx = exec.Hasty(ctx)
	}
	return newLease(l.e.AcquireBy(ctx, l.wait.end()))
}

// TryAcquire takes the lock if it is free and nobody is queued for it; otherwise it returns a *HeldError at once, in Strict
// mode ErrQuarantine when nothing is granted yet. It ignores Wait. If the server refuses connections, TryAcquire and an Acquire
// with Wait(0) return ErrUnavailable at once; other acquires retry for Config.RetryTimeout. Other errors are those of Acquire,
// including ErrDeadlock.
func (l *Lock) TryAcquire(ctx context.Context) (*Lease, error) {
	return newLease(l.e.TryAcquire(exec.Hasty(ctx)))
}

// Do acquires the lock, calls f and releases the lock, even if f panics. f's context is made from ctx and ends, with a
// cause, before the lease can: at its deadline at the latest, before anybody else can have the lock.
//
// Do returns f's error joined with the release's: one that matches ErrLost if the lease was lost while f ran. If only f
// fails, or if f returns the cause of its context (context.Cause), wrapped or not, f's error is returned as it is. Errors of
// acquiring are those of Acquire; f was not called then. An ErrHeld of f's own is told apart by HeldError.Name, if it comes from a
// lock with another name. If f uses a lock of the same name, on another
// server or under another Config.Prefix, let f note that it was called.
func (l *Lock) Do(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	return do(ctx, l.Acquire, f)
}

// TryDo is Do, but returns a *HeldError at once when the lock is held.
func (l *Lock) TryDo(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	return do(ctx, l.TryAcquire, f)
}

func do(ctx context.Context, acquire func(context.Context) (*Lease, error), f func(context.Context, *Lease) error) (err error) {
	lease, err := acquire(ctx)
	if err != nil {
		return err
	}
	work, end := lease.scope(ctx)
	defer func() {
		released := lease.Release(ctx)
		end(ErrReleased)
		err = join(err, released)
	}()
	return f(work, lease)
}

// Name returns the lock's name; of Multi, all names, with commas between them.
func (l *Lock) Name() string { return l.e.Name() }

// Status says who holds the lock and who waits for it. It changes nothing.
func (l *Lock) Status(ctx context.Context) (Status, error) { return statusOf(ctx, l.e) }

// String names the lock, for people.
func (l *Lock) String() string { return l.e.String() }
