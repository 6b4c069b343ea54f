package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
	"github.com/holdfast-go/holdfast/internal/lock"
)

// waiter is a goroutine in a wait queue.
type waiter struct {
	ctx          context.Context
	l            *Target
	ahead, after *waiter // neighbours in a ring; nil once the waiter has left the queue: it then gets a result, unless it left by itself
	results      chan result
}

type result struct {
	lease *holdLease
	err   error
	came  lock.Handover
}

// take returns the waiter's result, and notes how the lock was handed over.
func (w *waiter) take(r result) (*holdLease, error) {
	if o := w.l.c.observing(w.ctx); o != nil {
		o.handover = r.came
	}
	return r.lease, r.err
}

// await waits until the acquirer, or a holder in this process, gives w a result, ctx ends or, unless end is zero, end comes.
func (wq *waitQueue) await(ctx context.Context, w *waiter, end time.Time) (*holdLease, error) {
	defer w.recycle()
	limit, stop := TimeUp(end)
	defer stop()
	select {
	case r := <-w.results:
		return w.take(r)
	case <-limit:
		return wq.awaitLast(ctx, w)
	case <-ctx.Done():
		if IsOver(end) {
			return wq.awaitLast(ctx, w)
		}
	}
	wq.mu.Lock()
	served := w.after == nil
	err := wq.unheard(ctx, w.l)
	if !served {
		wq.withdraw(w)
	}
	wq.mu.Unlock()
	if served {
		r := <-w.results
		if r.lease != nil {
			// The lease goes to the next waiter, or back to the server.
			// mutants: crossed-local-grant
			wq.l.c.Tasks.Run(func() { _ = r.lease.release(ctx, unaware) })
		}
		return nil, exec.EndedBy(ctx, r.err)
	}
	if err == nil {
		err = w.l.stillHeld(ctx)
	}
	return nil, err
}

// awaitLast ends the wait of a waiter whose time is up. Before the first waiter leaves the queue, the server is asked once more, so that a
// grant on its way is not wasted.
func (wq *waitQueue) awaitLast(ctx context.Context, w *waiter) (*holdLease, error) {
	wq.mu.Lock()
	var looked <-chan struct{}
	if acq := wq.acquirer; acq != nil && wq.first == w {
		looked = acq.lookOnceMore()
	}
	wq.mu.Unlock()
	if looked != nil {
		select {
		case r := <-w.results:
			return w.take(r)
		case <-looked:
		case <-ctx.Done():
		}
	}
	wq.mu.Lock()
	if w.after == nil {
		wq.mu.Unlock()
		return w.take(<-w.results)
	}
	defer wq.mu.Unlock()
	wq.withdraw(w)
	switch {
	case wq.lastFailure != nil:
		return nil, wq.lastFailure
	case wq.unansweredSince != 0 && ctx.Err() != nil:
		return nil, wq.l.c.Server.Unheard(ctx, "acquire", w.l.Name(), clock.Time(wq.unansweredSince))
	}
	return nil, ErrTimeUp
}

// unheard returns the error of a waiter whose context has ended while the server did not answer, or granted nothing because of a
// quarantine; otherwise nil. The caller holds wq.mu.
func (wq *waitQueue) unheard(ctx context.Context, l *Target) error {
	switch {
	case wq.lastFailure != nil:
		return exec.EndedBy(ctx, wq.lastFailure)
	case wq.unansweredSince != 0 && wq.l.c.Server.IsSilent(clock.Time(wq.unansweredSince)):
		return wq.l.c.Server.Unheard(ctx, "acquire", l.Name(), clock.Time(wq.unansweredSince))
	}
	if left := wq.l.c.quarantineLeft().Round(time.Millisecond); left > 0 {
		return exec.EndedBy(ctx, wq.l.c.QuarantineError("acquire", l.Name(), left))
	}
	return nil
}

// newWaiter returns a waiter that is in no queue, from the client's pool if possible.
func (c *Client) newWaiter(ctx context.Context, l *Target) *waiter {
	w, known := c.waiters.Get().(*waiter)
	if !known {
		w = &waiter{results: make(chan result, 1)}
	}
	w.ctx, w.l = ctx, l
	return w
}

// recycle returns a waiter to the pool. The waiter has left the queue, and has taken its result if it got one.
func (w *waiter) recycle() {
	pool := &w.l.c.waiters
	*w = waiter{results: w.results}
	pool.Put(w)
}

// insert adds a waiter at the front or the back of the queue. The caller holds wq.mu.
func (wq *waitQueue) insert(w *waiter, atFront bool) {
	first := wq.first
	if first == nil {
		w.ahead, w.after = w, w
	} else {
		w.ahead, w.after = first.ahead, first
		first.ahead.after, first.ahead = w, w
	}
	if first == nil || atFront {
		wq.first = w
	}
	wq.waiting.Add(1)
}

// remove takes w out of the queue. The caller holds wq.mu.
func (wq *waitQueue) remove(w *waiter) {
	if w.after == w {
		wq.first = nil
	} else if wq.first == w {
		wq.first = w.after
	}
	w.ahead.after, w.after.ahead = w.after, w.ahead
	w.ahead, w.after = nil, nil
	wq.waiting.Add(-1)
	// The acquirer need not notice a new head that wants the same lease.
	if acq := wq.acquirer; acq != nil && (wq.first == nil || !wq.first.l.interchangeable(w.l)) {
		acq.wakeups.wake()
	}
}

// successor returns the waiter to which a lease of h may be passed on now, or nil. The waiter must want just what the holder has. A fence
// must be reserved for it, or a renewal under way that may reserve one. The bounds on passing on must not have been reached. The caller
// holds wq.mu and h.mu.
func (wq *waitQueue) successor(h *hold, now clock.Instant) *waiter {
	// mutants: reserved-fences
	if h.state != held || h.extended || !h.kept || !h.l.Set.Kind.IsShared && wq.current != h || !h.hasFence() && h.flying == 0 || wq.l.c.IsClosing() {
		return nil
	}
	// mutants: passing-time
	if h.passed >= h.mostPasses || now.Sub(h.since()) > maxPassing || h.bounds != nil || !h.l.Set.Passable() {
		return nil
	}
	w := wq.first
	if w == nil || !w.l.interchangeable(h.l) {
		return nil
	}
	return w
}

// pass takes w out of the queue and gives it a lease. The caller holds wq.mu.
func (wq *waitQueue) pass(w *waiter, lease *holdLease) {
	wq.remove(w)
	w.results <- result{lease: lease, came: lock.HandoverLocal}
}

// deliver gives a hold from the server to the first waiter. It returns false if there is no waiter, or if the first one wants something
// else.
func (wq *waitQueue) deliver(h *hold) bool {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	w := wq.first
	if w == nil || !w.l.interchangeable(h.l) {
		return false
	}
	if wq.l.c.Config.Strict {
		wq.l.c.noteQuarantine(0)
	}
	wq.remove(w) // before keep, which would count it as waiting
	came := lock.HandoverNone
	if h.attempt.enqueued {
		came = lock.HandoverServer
	}
	w.results <- result{lease: wq.keep(h), came: came}
	if h.l.Set.Kind.Joinable {
		wq.admitReaders()
	}
	return true
}

// fail ends the wait of every waiter with err.
func (wq *waitQueue) fail(err error) {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	for w := wq.first; w != nil; w = wq.first {
		wq.remove(w)
		w.results <- result{err: err}
	}
}

// failHead ends the first waiter's wait with err, the error of an attempt for l, unless that waiter wants something else: the waiter that
// the attempt was for may have left.
func (wq *waitQueue) failHead(l *Target, err error) {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	if w := wq.first; w != nil && w.l.interchangeable(l) {
		wq.remove(w)
		w.results <- result{err: err}
	}
}

// withdraw takes a waiter that has not been served out of the queue. The caller holds wq.mu.
func (wq *waitQueue) withdraw(w *waiter) {
	wq.remove(w)
	if acq := wq.acquirer; acq != nil && acq.leaving == nil && wq.waiting.Load() == 0 {
		acq.leaving = wq.l.c.Departing.Add(w.l.Keys.Queue)
	}
}

// In a quarantine, waiters queue as they do for a lock that is held, and get the same answer. When a waiter's context ends, its error has
// to mention the quarantine, but then it is too late to ask the server. So the server is asked while they wait.

const (
	// quarantineLook is how long waiters wait before the server is asked about a quarantine. Most hand-overs come sooner, and then cost no
	// extra command.
	quarantineLook = 20 * time.Millisecond

	// quarantineKnown is how long a client believes that there is no quarantine. Each grant to a waiter shows that there is none.
	quarantineKnown = time.Second
)

// lookForQuarantine asks the server, with a try, whether it is in quarantine: only a try is told. If the try is granted the lock, the first
// waiter gets it.
func (wq *waitQueue) lookForQuarantine(l *Target) {
	ctx, cancel := context.WithTimeout(context.Background(), wq.l.c.Server.AnswerGrace())
	defer cancel()
	a := l.newAttempt()
	h, reply, err := a.ask(ctx, time.Time{}, codec.Try, 1)
	switch {
	case err != nil:
	case h != nil:
		if wq.deliver(h) {
			return
		}
		a = &h.attempt
	default:
		wq.l.c.noteQuarantine(reply.Refusal.Quarantine)
	}
	a.Abandon()
}

// noteQuarantine notes for how long the server of a Strict client grants nothing; 0 means that it is not in quarantine.
func (c *Client) noteQuarantine(left time.Duration) {
	c.grantingFrom.Store(int64(clock.Mono() + left))
	if left > 0 {
		c.WarnOfQuarantine((&exec.Quarantine{Left: left}).Error())
	}
}

// quarantineLeft returns how long the server's quarantine still lasts, as far as the client knows.
func (c *Client) quarantineLeft() time.Duration {
	return max(clock.Reading(c.grantingFrom.Load())-clock.Mono(), 0)
}
