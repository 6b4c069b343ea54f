// Package holdfastgocron lets schedulers of github.com/go-co-op/gocron in several processes share their jobs: with a Locker,
// one process does each run of a job; with an Elector, one process does all of them.
package holdfastgocron

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/once"
)

// ErrDone says that another scheduler has done the run already.
var ErrDone = errors.New("holdfastgocron: the job was done in this window")

// Locker is a gocron.Locker, for gocron.WithDistributedLocker and gocron.WithDistributedJobLocker. A job of gocron is a
// once.Job of its name: the lock is renewed while the job runs, and a scheduler whose clock is late does not run it again.
type Locker struct {
	locks  *holdfast.Client
	window once.Window
	opts   []once.Option
}

// NewLocker returns a Locker. A job is done once in a window: use once.Every with a time that is longer than the clocks of
// the hosts differ, and shorter than the time from the end of a run to the start of the next. Jobs with other periods want
// Lockers of their own, with gocron.WithDistributedJobLocker. The options are those of once.New.
//
// Give each job a name with gocron.WithName, since it is the lock's. Without one gocron takes that of the Go function, which
// changes with the code, and which several jobs can share.
func NewLocker(locks *holdfast.Client, window once.Window, opts ...once.Option) *Locker {
	return &Locker{locks, window, opts}
}

// Lock begins a run of the job, unless another scheduler runs it now, or has done so in this window: the error matches
// holdfast.ErrHeld or ErrDone then. After any error gocron skips the run, and passes the error to gocron.AfterLockError only.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	r := &run{finish: make(chan struct{}), over: make(chan struct{})}
	began := make(chan struct{})
	go func() {
		defer close(r.over)
		var completion once.Completion
		completion, r.err = once.New(l.locks, key, l.window, l.opts...).TryDo(ctx, func(context.Context, *holdfast.Lease) (string, error) {
			close(began)
			<-r.finish // gocron calls the job meanwhile
			return "", nil
		})
		if r.err == nil && !completion.Here {
			r.err = fmt.Errorf("%w: %q by %s at %s", ErrDone, key, completion.Identity, completion.Time)
		}
	}()
	select {
	case <-began:
		return r, nil
	case <-r.over:
		return nil, r.err
	}
}

// run is a run of a job that goes on.
type run struct {
	once   sync.Once
	finish chan struct{} // closed when the job has returned
	over   chan struct{} // closed when its completion is recorded and the lock is released
	err    error         // read after over
}

// Unlock records that the run is complete, and releases the lock, even if ctx has ended. The run counts whether or not the job
// returned an error, which gocron does not tell. If the lock was lost meanwhile, the run does not count, and the error matches
// holdfast.ErrLost. gocron ignores what Unlock returns; the client's Config.Logger and Observers learn of a loss.
func (r *run) Unlock(context.Context) error {
	r.once.Do(func() { close(r.finish) })
	<-r.over
	return r.err
}
