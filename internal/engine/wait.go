package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/exec"
)

// AcquireBy is Acquire that stops waiting at end, unless end is zero. It then returns a *HeldError, in Strict mode an
// error that matches exec.ErrQuarantine if nothing is granted yet, and one that matches exec.ErrUnavailable if the server
// has not answered what it was asked last. A lock that is granted while the waiter leaves is returned.
func (l *Lock) AcquireBy(ctx context.Context, end time.Time) (*Lease, error) {
	if end.IsZero() {
		return l.Acquire(ctx)
	}
	l.c.tasks.Begin()
	defer l.c.tasks.End()
	asking, cancel := l.asking(ctx, end)
	defer cancel()
	lease, err := l.acquire(asking, end)
	switch {
	case err == errTimeUp:
		return l.withheld(ctx)
	case err != nil && asking.Err() != nil && ctx.Err() == nil:
		return nil, l.unanswered(err)
	}
	return lease, err
}

// asking returns the context of requests that are sent until end, if that is not zero: they are answered a little later.
func (l *Lock) asking(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end.Add(l.c.server.Patience()))
}

// errTimeUp says that a waiter has left because it was not to wait any longer.
var errTimeUp = errors.New("not acquired in time")

// timeUp returns a channel that is sent to at end; nil if that is zero.
func timeUp(end time.Time) (_ <-chan time.Time, stop func() bool) {
	if end.IsZero() {
		return nil, func() bool { return true }
	}
	timer := time.NewTimer(time.Until(end))
	return timer.C, timer.Stop
}

// isOver reports whether end has come, if it is not zero.
func isOver(end time.Time) bool { return !end.IsZero() && !time.Now().Before(end) }

// awaitLast ends the wait of a waiter whose time is up. Before the first in the queue leaves, the server is asked once
// more: a grant that is on its way to it is not to be wasted.
func (wq *waitQueue) awaitLast(ctx context.Context, w *waiter) (*Lease, error) {
	wq.mu.Lock()
	var looked <-chan struct{}
	if wq.acquirer != nil && wq.head() == w {
		looked = wq.acquirer.lookOnceMore()
	}
	wq.mu.Unlock()
	if looked != nil {
		select {
		case r := <-w.results:
			return r.lease, r.err
		case <-looked:
		case <-ctx.Done():
		}
	}
	wq.mu.Lock()
	if w.place == nil {
		wq.mu.Unlock()
		r := <-w.results
		return r.lease, r.err
	}
	defer wq.mu.Unlock()
	wq.withdraw(w)
	switch {
	case wq.lastFailure != nil:
		return nil, wq.lastFailure
	case !wq.unansweredSince.IsZero() && ctx.Err() != nil:
		return nil, wq.c.server.Unheard(ctx, "acquire", w.l.name, wq.unansweredSince)
	}
	return nil, errTimeUp
}

// withdraw takes a waiter that has not been served out of the queue. Guarded by the queue.
func (wq *waitQueue) withdraw(w *waiter) {
	wq.remove(w)
	if acq := wq.acquirer; acq != nil && acq.leaving == nil && wq.waiting() == 0 {
		acq.leaving = wq.c.departing.begin(w.l.keys.Queue)
	}
}

// lookOnceMore has the server asked once more, for a waiter whose time is up. What it returns is closed when that has
// ended, and the waiter was served if the lock was granted. Guarded by the queue.
func (acq *acquirer) lookOnceMore() <-chan struct{} {
	if acq.lastLook == nil {
		acq.lastLook = make(chan struct{})
	}
	acq.wake()
	return acq.lastLook
}

// withheld asks why a lock was not granted in time. In Strict mode only a try tells, which can be granted the lock.
func (l *Lock) withheld(ctx context.Context) (*Lease, error) {
	asking, cancel := context.WithTimeout(ctx, l.c.server.Patience())
	defer cancel()
	if l.c.cfg.Strict && l.quorum == nil {
		lease, err := l.try(asking)
		if err != nil && asking.Err() != nil && ctx.Err() == nil {
			err = l.unanswered(err)
		}
		return lease, err
	}
	h, err := l.Holder(asking)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil: // it has answered the waiter
		h = Holder{}
	}
	return nil, &HeldError{Name: l.name, Holder: h}
}

// unanswered returns the error of an acquire whose own time ended, and not its caller's context, before the server
// answered.
func (l *Lock) unanswered(err error) error {
	var failure *exec.Failure
	var short *QuorumError
	switch {
	case errors.As(err, &failure) && err == error(failure):
		own := *failure
		own.Ended = nil
		return &own
	case errors.As(err, &short) && err == error(short):
		own := *short
		own.ended = nil
		return &own
	case errors.Is(err, context.DeadlineExceeded):
		return &exec.Failure{
			Op: "acquire", Name: l.name, Server: l.c.server.Addr(), Kind: exec.ErrUnavailable, Ambiguous: true,
			Err: fmt.Errorf("no answer for %s", l.c.server.Patience().Round(time.Millisecond)),
		}
	}
	return err
}
