package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/printable"
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

// tellOfNamesake warns of a lock of the run's name that is held when the run, with --key or --redisson, is about to take
// another: people may take the two for one. What fails here is not told.
func (r *runner) tellOfNamesake(ctx context.Context, l *locker) {
	own := r.ownKey()
	if !r.isForeign() || own == r.key {
		return
	}
	flag := "--key"
	if r.flags.Changed("redisson") {
		flag = "--redisson"
	}
	ctx, cancel := context.WithTimeout(ctx, namesakeTime)
	defer cancel()
	held, err := l.clients[0].Mutex(r.name).Holder(ctx)
	by := ""
	switch {
	case errors.Is(err, holdfast.ErrWrongType): // by runs with --shared and the like
	case err != nil:
		return
	default:
		by = " by " + r.describeOne(held)
	}
	r.voice.note("warning: %s without %s, key %s, is held%s; with %s it is another lock, and the two do not keep each other out",
		r.title(), flag, printable.Line(own, maxShown), by, flag)
}

// namesakeTime is how long a run waits for the answer whether a lock of its name is held.
const namesakeTime = 500 * time.Millisecond

// ownKey is the key of the lock of the name, without --key and --redisson; "" if there is none.
func (o *jobOptions) ownKey() string {
	space, err := keys.NewSpace(cmp.Or(o.prefix, "holdfast:"))
	if err != nil {
		return ""
	}
	set, err := space.Name(o.name)
	if err != nil {
		return ""
	}
	return set.Lock
}

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
