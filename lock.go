package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/option"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// Lock can be acquired, which gives a Lease. It is immutable and free to make; nothing is sent before it is used.
type Lock struct {
	lockHandle
	wait option.Limit
}

type lockHandle = printable.Handle[engine.Lock]

func (l *Lock) e() engine.Lock { return printable.Of(l.lockHandle) }

func newLock(e engine.Lock, wait option.Limit) *Lock { return &Lock{printable.NewHandle(e), wait} }

// Acquire waits until it has the lock, the Wait limit passes or ctx ends. Waiters are served in order: the processes in the
// order in which they came, and the goroutines of one process in the order of their calls. A free lock costs one round trip; a
// waiter sleeps until it is handed the lock. After an error the caller has no lock and no place in the queue; what may still be
// on its way is taken back in the background.
//
// When ctx ends, the error is ctx's. If its deadline has passed while others hold the lock, the error is also a *HeldError;
// asking the server who that is delays the return by at most 50 ms or three round trips. If the server was not answering, the
// error also matches ErrUnavailable and is a *ServerError; in quarantine it matches ErrQuarantine, too. ErrUnavailable is
// returned before the deadline if that leaves no time for another try. Wait says which error follows its limit. What the
// server, or the way to it, does not allow is a *ServerError; a bad name or option is ErrInvalid, before anything is sent;
// after Client.Close it is ErrClosed.
//
// A ctx that was made from a lease's (Lease.Context, or f's of Do) carries that lease. An acquire that would wait for the lease
// that its ctx carries returns ErrDeadlock at once. So do readers within a lease of either side: a writer that is queued in
// between would block both. A Reentrant lock is acquired again instead; more permits of a Semaphore are taken if it has that
// many. A Multi returns ErrDeadlock if this is so for any of its locks.
//
// If callers with such contexts wait for each other's leases in a circle, in one process or in several, the last to come returns a
// *DeadlockError after a second or two, and the others go on. It may be told again when it begins again. A caller in no circle is
// never told. Circles are not found if they include a lock of another server or Prefix or of a Quorum, more than 16 locks, a Multi
// that polls, or a wait behind others in a queue who do not wait within the circle; docs/GUARANTEES.md has the rest.
func (l *Lock) Acquire(ctx context.Context) (*Lease, error) {
	if l.wait == option.NoWait {
		ctx = exec.Hasty(ctx)
	}
	return newLease(l.e().AcquireBy(ctx, l.wait.End()))
}

// TryAcquire takes the lock if it is free and nobody is queued for it; otherwise it returns a *HeldError at once, in Strict
// mode ErrQuarantine when nothing is granted yet. It ignores Wait. If the server refuses connections, TryAcquire and an Acquire
// with Wait(0) return ErrUnavailable at once; other acquires retry for Config.RetryTimeout. Other errors are those of Acquire.
func (l *Lock) TryAcquire(ctx context.Context) (*Lease, error) {
	return newLease(l.e().TryAcquire(exec.Hasty(ctx)))
}

// Do acquires the lock, calls f and releases the lock, even if f panics. f's context is made from ctx and ends, with a cause,
// before the lease can: at its deadline at the latest, before anybody else can have the lock.
//
// Do returns f's error joined with the release's, which matches ErrLost if the lease was lost while f ran. If only f fails, or
// f returns the cause of its context (context.Cause), f's error is returned as it is. Errors of acquiring are those of Acquire; f was not
// called then. An ErrHeld of a lock that f acquires has that lock's HeldError.Name.
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
func (l *Lock) Name() string { return l.e().Name() }

// Status says who holds the lock and who waits for it. It changes nothing.
func (l *Lock) Status(ctx context.Context) (Status, error) { return statusOf(ctx, l.e()) }
