package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/exec"
)

// asking returns the context of requests that are sent until end, if that is not zero: they are answered a little later.
func (c *Client) asking(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end.Add(c.server.Patience()))
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
func (wq *waitQueue) awaitLast(ctx context.Context, w *waiter) (*holdLease, error) {
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

// endLook tells waiters whose time is up that the server has been asked once more. Guarded by the queue.
func (acq *acquirer) endLook() {
	if acq.looking != nil {
		close(acq.looking)
		acq.looking = nil
	}
}

// AcquireBy implements Lock.
func (l *target) AcquireBy(ctx context.Context, end time.Time) (Lease, error) {
	if end.IsZero() {
		return leased(l.acquire(ctx, end))
	}
	return acquireBy(ctx, l.c, l.name, end, func(asking context.Context) (Lease, error) { return leased(l.acquire(asking, end)) }, func(asking context.Context) (Lease, error) {
		if l.c.cfg.Strict { // only a try tells that nothing is granted yet; it can be granted the lock
			return leased(l.try(asking))
		}
		return nil, heldBy(l.name)(l.Holder(asking))
	})
}

// held is AcquireBy for what is made of a target's leases.
func (l *target) held(ctx context.Context, end time.Time) (*holdLease, error) {
	lease, err := l.AcquireBy(ctx, end)
	if err != nil {
		return nil, err
	}
	return lease.(*holdLease), nil
}

// acquireBy acquires a lock until end. withheld tells why it was not granted in time.
func acquireBy(ctx context.Context, c *Client, name string, end time.Time, acquire, withheld func(asking context.Context) (Lease, error)) (Lease, error) {
	c.tasks.Begin()
	defer c.tasks.End()
	asking, cancel := c.asking(ctx, end)
	defer cancel()
	lease, err := acquire(asking)
	if err == errTimeUp {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, c.server.Patience())
		defer cancel()
		lease, err = withheld(asking)
	}
	switch {
	case err != nil && ctx.Err() != nil && asking.Err() != nil && errors.Is(err, ErrHeld):
		return nil, ctx.Err()
	case err != nil && asking.Err() != nil && ctx.Err() == nil:
		return nil, c.unanswered(name, err)
	}
	return lease, err
}

// heldBy returns the error of a lock that was not granted in time, once it was looked up who holds it. A server that
// does not answer that has answered the waiter.
func heldBy(name string) func(Holder, error) error {
	return func(h Holder, err error) error {
		if err != nil {
			h = Holder{}
		}
		return &HeldError{Name: name, Holder: h}
	}
}

// unanswered returns the error of an acquire whose own time ended, and not its caller's context, before the server
// answered.
func (c *Client) unanswered(name string, err error) error {
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
			Op: "acquire", Name: name, Server: c.server.Addr(), Kind: exec.ErrUnavailable, Ambiguous: true,
			Err: fmt.Errorf("no answer for %s", c.server.Patience().Round(time.Millisecond)),
		}
	}
	return err
}
