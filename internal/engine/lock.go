package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/exec"
)

// Lock is something that can be acquired: on one server, on several as one, or by a majority of them.
type Lock interface {
	Name() string
	Key() string  // "" of several locks
	Form() string // what kind of lock it is, as whatis.lua says
	Limit() int   // permits of a semaphore, parties of a latch or barrier, as their user says; else 0
	Now() time.Time
	String() string

	// Acquire waits for the lock until ctx ends.
	Acquire(ctx context.Context) (Lease, error)
	// AcquireBy is Acquire that stops waiting at end, unless end is zero. It then returns a *HeldError, in Strict mode an
	// error that matches exec.ErrQuarantine if nothing is granted yet, and one that matches exec.ErrUnavailable if the
	// server has not answered what it was asked last. A lock that is granted while the waiter leaves is returned.
	AcquireBy(ctx context.Context, end time.Time) (Lease, error)
	// TryAcquire takes the lock if it is free and nobody is queued for it.
	TryAcquire(ctx context.Context) (Lease, error)
	// Holders returns who holds the lock, in no order.
	Holders(ctx context.Context) ([]Holder, error)
}

// Lease is a lock that is held: a hold's, or that of several locks.
type Lease interface {
	Name() string
	Owner() string
	String() string

	Err() error
	Context() context.Context
	// WhenOver calls f when the lease ends, or at once if it has, with what Err returns from then on. Whatever ends the
	// lease waits for f, which does not block and calls nothing of the lease but FenceOf. After forget, f is not called.
	WhenOver(f func(error)) (forget func())
	// Within returns ctx for callers that hold the lease, with which they may acquire the lock again if it is reentrant.
	Within(ctx context.Context) context.Context
	Token() uint64
	Tokens() map[string]uint64  // by the names of locks
	FenceOf(lock string) uint64 // the fence of one of the locks, by its name
	IsShared() bool
	Deadline() time.Time
	Extend(ctx context.Context, ttl time.Duration) error
	Release(ctx context.Context) error
}

// leased returns a lease of one of its kinds as a Lease, which is nil after an error.
func leased[L Lease](lease L, err error) (Lease, error) {
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// poll tries at an interval.
func poll[L any](ctx context.Context, c *Client, s *settings, end time.Time, try func(context.Context) (L, error)) (L, error) {
	var none L
	limit, stop := timeUp(end)
	defer stop()
	for n := 1; ; n++ {
		asked := time.Now()
		lease, err := try(ctx)
		if n > 1 && err != nil && ctx.Err() != nil && !c.server.IsSilent(asked) {
			if isOver(end) {
				return none, errTimeUp
			}
			return none, ctx.Err() // it was answered before
		}
		if !errors.Is(err, ErrHeld) && !errors.Is(err, exec.ErrQuarantine) {
			return lease, err
		}
		select {
		case <-time.After(jitter(s.pollInterval, 10)):
		case <-limit:
			return none, err
		case <-ctx.Done():
			if isOver(end) {
				return none, err
			}
			return none, ctx.Err()
		case <-c.closing:
			return none, exec.ErrClosed
		}
	}
}

// do calls f with a context that ends when ctx or the lease does, and releases the lease.
func do(ctx context.Context, lease Lease, f func(ctx context.Context) error) (err error) {
	work, cancel := context.WithCancelCause(lease.Within(ctx))
	stop := context.AfterFunc(lease.Context(), func() { cancel(context.Cause(lease.Context())) })
	defer func() {
		stop()
		released := lease.Release(ctx)
		cancel(ErrReleased)
		if released != nil {
			err = errors.Join(err, released)
		}
	}()
	return f(work)
}
