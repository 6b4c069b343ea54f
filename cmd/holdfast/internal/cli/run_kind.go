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

// choose decides how to get the lock.
func (r *runner) choose() {
	r.take = func(ctx context.Context) (*holdfast.Lease, error) { return r.lock().Acquire(ctx) }
	if r.try {
		r.take = func(ctx context.Context) (*holdfast.Lease, error) { return r.lock().TryAcquire(ctx) }
	}
	if r.once != 0 {
		r.take = r.begin
	}
}

// patience is how long the lock is waited for from now on; negative if that is not bounded.
func (r *runner) patience() time.Duration {
	switch {
	case r.try:
		return 0
	case r.waitSet:
		return max(time.Until(r.begun.Add(r.wait)), 0)
	}
	return -1
}

// lock is what to run under: the mutex of the name, unless flags ask for another kind.
func (r *runner) lock() *holdfast.Lock {
	locks, option := r.locks.clients[0], r.option()
	options := []holdfast.WaitOption{option}
	if wait := r.patience(); wait >= 0 {
		options = append(options, holdfast.Wait(wait))
	}
	switch {
	case r.locks.quorum != nil:
		return r.locks.quorum.Mutex(r.name, as[holdfast.QuorumOption](options)...)
	case r.shared:
		return locks.RWMutex(r.name, as[holdfast.RWMutexOption](options)...).Reader()
	case r.exclusive:
		return locks.RWMutex(r.name, as[holdfast.RWMutexOption](options)...).Writer()
	case r.slots != 0:
		return locks.Semaphore(r.name, int(r.slots), as[holdfast.SemaphoreOption](options)...).Permits(max(int(r.weight), 1))
	case len(r.also) > 0:
		return locks.Multi(append([]string{r.name}, r.also...), as[holdfast.MultiOption](options)...)
	case r.owner != "":
		return locks.OwnerMutex(r.name, r.owner, as[holdfast.MutexOption](options)...)
	case r.flags.Changed("key"):
		return locks.MutexKey(r.key, as[holdfast.MutexOption](options)...)
	case r.flags.Changed("redisson"):
		return locks.RedissonMutex(r.redisson, as[holdfast.MutexOption](options)...)
	}
	return locks.Mutex(r.name, as[holdfast.MutexOption](options)...)
}

// as returns options that fit several kinds of locks as those of one.
func as[Kind any](options []holdfast.WaitOption) []Kind {
	var kind []Kind
	for _, o := range options {
		kind = append(kind, any(o).(Kind))
	}
	return kind
}

// readWrite reports whether the lock is a read-write lock.
func (o *runOptions) readWrite() bool { return o.shared || o.exclusive }

// isShared reports whether several may hold the lock.
func (o *runOptions) isShared() bool { return o.readWrite() || o.slots != 0 || o.owner != "" }

// isForeign reports whether other programs share the lock.
func (o *runOptions) isForeign() bool { return o.flags.Changed("key") || o.flags.Changed("redisson") }

// tellOfNamesake warns of a lock of the run's name that is held when the run, with --key or --redisson, is about to take
// another: people may take the two for one. What fails here is not told.
func (r *runner) tellOfNamesake(ctx context.Context) {
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
	status, err := r.locks.clients[0].Mutex(r.name).Status(ctx)
	by := ""
	switch holder, held := status.Holder(); {
	case errors.Is(err, holdfast.ErrMismatch): // by runs with --shared and the like
	case err != nil, !held:
		return
	default:
		by = " by " + r.describeOne(holder)
	}
	r.voice.note("warning: %s without %s, key %s, is held%s; with %s it is another lock, and the two do not keep each other out",
		r.title(), flag, printable.Line(own, maxShown), by, flag)
}

// namesakeTime is how long a run waits for the answer whether a lock of its name is held.
const namesakeTime = 500 * time.Millisecond

// ownKey is the key of the lock of the name, without --key and --redisson; "" if there is none.
func (o *jobOptions) ownKey() string { return o.keyOf(o.name) }

// keyOf is the key of the lock of a name.
func (o *jobOptions) keyOf(name string) string {
	space, err := keys.NewSpace(cmp.Or(o.prefix, "holdfast:"))
	if err != nil {
		return ""
	}
	set, err := space.Name(name)
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
	var server *holdfast.ServerError
	switch {
	case errors.As(err, &server) && server.Code == "BADLIMIT":
		exit.err = fmt.Errorf("%w; give --slots the number that the others give it, or set it for all with holdfast resize", err)
	case errors.Is(err, holdfast.ErrMismatch) && r.isForeign():
		exit.err = fmt.Errorf("%w; all programs keep it in one form: --key is for a string, --redisson for the hash of Redisson's RLock", err)
	case errors.Is(err, holdfast.ErrMismatch):
		exit.err = fmt.Errorf("%w; if another run holds it: all runs of a NAME are plain ones, or all with --shared or --exclusive, or all with --slots, or all with --owner", err)
	}
	return exit
}
