package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast"
)

// lock returns the lock to run under: the mutex of the name, unless flags ask for
// another kind.
func (r *runner) lock(locks *holdfast.Client) *holdfast.Lock {
	switch {
	case r.once != 0:
		r.job = locks.Once(r.name, r.window(), append(r.options(), r.tries()...)...)
		return r.job.Lock()
	case r.shared:
		return locks.RWMutex(r.name, r.options()...).Reader()
	case r.exclusive:
		return locks.RWMutex(r.name, r.options()...).Writer()
	case r.slots != 0:
		return locks.Semaphore(r.name, int(r.slots), r.options()...).Lock
	}
	return locks.Mutex(r.name, r.options()...)
}

// readWrite reports whether the lock is a read-write lock.
func (o *runOptions) readWrite() bool { return o.shared || o.exclusive }

// isShared reports whether several may hold the lock.
func (o *runOptions) isShared() bool { return o.readWrite() || o.slots != 0 }

// failure is that of an acquire, with what to do about it where that is a matter of
// flags.
func (r *runner) failure(err error) *exitError {
	exit := failure(err)
	switch {
	case errors.Is(err, holdfast.ErrPermits):
		exit.err = fmt.Errorf("%w; give --slots the number that the others give it, or try again when none of them runs", err)
	case errors.Is(err, holdfast.ErrWrongType):
		exit.err = fmt.Errorf("%w; if another run holds it: all runs of a NAME are plain ones, or all with --shared or --exclusive, or all with --slots", err)
	}
	return exit
}

// count is a number from 1 on; 0 if none was given. maxSlots, the permits of a semaphore,
// bounds it.
type count int

const maxSlots = 1_000_000

func (c *count) String() string { return strconv.Itoa(int(*c)) }

func (c *count) Type() string { return "int" }

func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxSlots {
		return fmt.Errorf("want a number from 1 to %d", maxSlots)
	}
	*c = count(n)
	return nil
}
