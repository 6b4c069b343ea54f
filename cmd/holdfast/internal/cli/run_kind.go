package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// choose decides which lock to run under, the mutex of the name unless flags ask for
// another kind, and how to get it.
func (r *runner) choose(locks *locker) {
	r.lock = r.kind(locks)
	r.take = r.lock.Acquire
	switch {
	case r.try || r.waitSet && r.wait == 0:
		r.take = r.lock.TryAcquire
	case r.waitSet:
		r.take = func(ctx context.Context) (*holdfast.Lease, error) {
			ctx, cancel := context.WithDeadline(ctx, r.begun.Add(r.wait))
			defer cancel()
			return r.lock.Acquire(ctx)
		}
	}
}

func (r *runner) kind(l *locker) *holdfast.Lock {
	options, locks := r.options(), l.clients[0]
	switch {
	case l.quorum != nil && r.nodeTimeout != 0:
		return l.quorum.Mutex(r.name, append(options, holdfast.NodeTimeout(r.nodeTimeout))...)
	case l.quorum != nil:
		return l.quorum.Mutex(r.name, options...)
	case r.once != 0:
		r.job = locks.Once(r.name, r.window(), append(options, r.tries()...)...)
		return r.job.Lock()
	case r.shared:
		return locks.RWMutex(r.name, options...).Reader()
	case r.exclusive:
		return locks.RWMutex(r.name, options...).Writer()
	case r.slots != 0:
		weight := holdfast.Weight(max(int(r.weight), 1))
		return locks.Semaphore(r.name, int(r.slots), append(options, weight)...).Lock
	case len(r.also) > 0:
		return locks.Multi(append([]string{r.name}, r.also...), options...)
	}
	return locks.Mutex(r.name, options...)
}

// readWrite reports whether the lock is a read-write lock.
func (o *runOptions) readWrite() bool { return o.shared || o.exclusive }

// isShared reports whether several may hold the lock.
func (o *runOptions) isShared() bool { return o.readWrite() || o.slots != 0 || o.owner != "" }

// isForeign reports whether other programs share the lock.
func (o *runOptions) isForeign() bool { return o.flags.Changed("key") || o.flags.Changed("redisson") }

// failure is that of an acquire, with what to do about it where that is a matter of
// flags.
func (r *runner) failure(err error) *exitError {
	exit := failure(err)
	exit.err = r.servers.explain(err)
	if of := quorumFailure(err); of != nil {
		exit.err = of
		return exit
	}
	switch {
	case errors.Is(err, holdfast.ErrPermits):
		exit.err = fmt.Errorf("%w; give --slots the number that the others give it, or set it for all with holdfast resize", err)
	case errors.Is(err, holdfast.ErrWrongType) && r.isForeign():
		exit.err = fmt.Errorf("%w; all programs keep it in one form: --key is for a string, --redisson for the hash of Redisson's RLock", err)
	case errors.Is(err, holdfast.ErrWrongType):
		exit.err = fmt.Errorf("%w; if another run holds it: all runs of a NAME are plain ones, or all with --shared or --exclusive, or all with --slots, or all with --owner", err)
	}
	return exit
}
