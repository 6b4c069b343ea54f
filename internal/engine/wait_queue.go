package engine

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// waitQueue is where goroutines of this process wait for one lock, first come, first served. The
// server sees only one of them: a caller that finds the queue empty asks for itself, and an
// acquirer asks for those that have to wait.
type waitQueue struct {
	c    *Client
	key  string
	refs int32 // guarded by c.mu

	count      atomic.Int32 // of waiters
	passedLast atomic.Int32 // how often the latest hold was passed on

	asking          bool // a caller that found the queue empty is asking the server; guarded by mu, like all that follows
	mu              sync.Mutex
	unansweredSince clock.Reading // since when the server owes this queue an answer; zero if it owes none
	current         *hold         // of this process, acquired through this queue; for locks with one holder
	readers         *hold         // the latest one that readers have
	contention      *contention   // nil until there is some
}

// contention is what only the queues have in which somebody waits, or has waited.
type contention struct {
	first, last *waiter
	acquirer    *acquirer // nil if none is running
	lastFailure error     // of a request sent since waitQueue.unansweredSince; nil if none failed
}

// waiter is a goroutine in a wait queue.
type waiter struct {
	ctx          context.Context
	l            *target
	queued       bool // false once the waiter has left the queue: then it gets a result, unless it left by itself
	ahead, after *waiter
	results      chan result
}

type result struct {
	lease *holdLease
	err   error
	came  Handover
}

// take returns the waiter's result, and notes how the lock came.
func (w *waiter) take(r result) (*holdLease, error) {
	w.l.c.observing(w.ctx).came(r.came)
	return r.lease, r.err
}

// queueOf returns the wait queue with that key, and takes a reference to it.
func (c *Client) queueOf(key string) *waitQueue {
	c.mu.Lock()
	defer c.mu.Unlock()
	wq := c.queues.Get(key)
	if wq == nil {
		wq = &waitQueue{c: c, key: key}
		c.queues.Set(key, wq)
	}
	wq.refs++
	return wq
}

func (wq *waitQueue) ref() {
	wq.c.mu.Lock()
	defer wq.c.mu.Unlock()
	wq.refs++
}

func (wq *waitQueue) unref() {
	wq.c.mu.Lock()
	defer wq.c.mu.Unlock()
	wq.refs--
	if wq.refs == 0 {
		wq.c.queues.Delete(wq.key)
	}
}

// lock and unlock guard the queue. They do nothing if wq is nil, as for a hold without a queue.
func (wq *waitQueue) lock() {
	if wq != nil {
		wq.mu.Lock()
	}
}

func (wq *waitQueue) unlock() {
	if wq != nil {
		wq.mu.Unlock()
	}
}

// needContention returns wq.contention, which it makes if there is none. The caller holds wq.mu.
func (wq *waitQueue) needContention() *contention {
	if wq.contention == nil {
		wq.contention = &contention{}
	}
	return wq.contention
}

// acquirer returns the acquirer that is running, or nil. The caller holds wq.mu.
func (wq *waitQueue) acquirer() *acquirer {
	if wq.contention == nil {
		return nil
	}
	return wq.contention.acquirer
}

// lastFailure returns why a request failed that was sent since the server owes an answer; nil if none failed. The caller holds
// wq.mu.
func (wq *waitQueue) lastFailure() error {
	if wq.contention == nil {
		return nil
	}
	return wq.contention.lastFailure
}

// isHeld reports whether the queue has a hold that is not over.
func (wq *waitQueue) isHeld() bool {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	return wq.current.isLive()
}

// waiting returns the number of waiters.
func (wq *waitQueue) waiting() int { return int(wq.count.Load()) }

// acquire waits until it has the lock, ctx ends, or end has come if that is not zero. It uses up one reference.
func (wq *waitQueue) acquire(ctx context.Context, l *target, end time.Time) (*holdLease, error) {
	defer wq.unref()
	wq.mu.Lock()
	if wq.waiting() == 0 {
		if lease := wq.joinReaders(l); lease != nil {
			wq.mu.Unlock()
			return lease, nil
		}
	}
	var w *waiter
	if !wq.asking && wq.acquirer() == nil && wq.current == nil && wq.waiting() == 0 {
		wq.asking, wq.unansweredSince = true, clock.Mono()
		wq.mu.Unlock()
		var lease *holdLease
		var err error
		var got grantOrReply
		if lease, w, got, err = wq.askFirst(ctx, l); w == nil {
			return lease, err
		}
		if o := wq.c.observing(ctx); o != nil {
			o.wait(got.Place.Rank-1, got.holder(l))
		}
	} else {
		w = wq.c.newWaiter(ctx, l)
		wq.pushBack(w)
		if !wq.asking {
			wq.startAcquirer(nil, false)
			wq.acquirer().join(l)
		}
		holder := wq.holderHere(l)
		wq.mu.Unlock()
		wq.c.observing(ctx).wait(0, holder)
	}
	return wq.await(ctx, w, end)
}

// askFirst asks the server for the lock. If the lock is held, askFirst puts a waiter at the head of
// the queue and returns it.
func (wq *waitQueue) askFirst(ctx context.Context, l *target) (*holdLease, *waiter, grantOrReply, error) {
	c := wq.c
	a := l.newAttempt()
	mode := codec.Try
	by, up := c.listening(l)
	if up {
		a.listen(by.Channel())
		a.onFailure = wq.noteFailure
		mode = codec.Wait
	}
	got, err := a.start(ctx, mode, 1+wq.fences(l))

	wq.mu.Lock()
	defer wq.mu.Unlock()
	wq.asking = false
	wq.noteOutcome(err)
	if err != nil || got.hold != nil {
		if wq.waiting() > 0 {
			wq.startAcquirer(nil, err == nil)
		}
		if err != nil {
			a.abandon()
			return nil, nil, grantOrReply{}, err
		}
		lease := wq.keep(got.hold)
		wq.admitReaders()
		return lease, nil, grantOrReply{}, nil
	}
	w := wq.c.newWaiter(ctx, l)
	wq.pushFront(w)
	if got.Word != codec.Queued {
		a.abandon()
		wq.startAcquirer(nil, true)
		return nil, w, got, nil
	}
	wq.startAcquirer(a, true)
	wq.acquirer().standing = &standing{a, got.Place, by}
	return nil, w, got, nil
}

// fences returns how many of the waiters one hold could serve in turn, at most.
func (wq *waitQueue) fences(l *target) int {
	if !l.set.passable() {
		return 0
	}
	return max(min(wq.waiting(), wq.c.cfg.LocalHandovers), 0)
}

// aloneFactor is how many times more often a lock may be passed on while no other process waits for
// it.
const aloneFactor = 16

// fencesIfAlone is fences if no other process waits for the lock. Fences that are reserved but not
// used take the counter ahead of the server's clock, so unless more goroutines wait, fencesIfAlone
// is at most twice what the last hold used.
func (wq *waitQueue) fencesIfAlone(l *target) int {
	return min(max(wq.fences(l), 2*int(wq.passedLast.Load())), aloneFactor*wq.c.cfg.LocalHandovers)
}

// holderHere returns the lock's holder, for observers, if, as far as the queue knows, it is this process; otherwise nil. The
// caller holds wq.mu.
func (wq *waitQueue) holderHere(l *target) *Holder {
	if l.c.cfg.Observer == nil || !wq.current.isLive() {
		return nil
	}
	h := wq.current
	return &Holder{
		Name: l.name, Form: l.set.kind.form, Owner: h.l.set.owner, Host: l.c.host, PID: os.Getpid(),
		Fence: h.fence, Since: time.UnixMicro(h.at), TTL: h.remaining(),
	}
}

// keep makes h the queue's hold and returns its first lease. The caller holds wq.mu.
func (wq *waitQueue) keep(h *hold) *holdLease {
	h.queue, h.kept = wq, true
	if !h.l.set.kind.isShared() {
		wq.current.replacedBy(h)
		wq.c.unqueuedFor(wq.key).replacedBy(h)
		wq.current = h
	}
	wq.readers = nil // a writer may have come between: nobody else may join the readers that were before it
	if h.l.set.kind.joinable {
		wq.readers = h
	}
	wq.ref()
	return h.firstLease()
}

// joinReaders returns a lease that shares the hold of other readers of this process, for a caller
// that nobody is waiting ahead of. It returns nil if there is no such hold or if it is not recent.
// The caller holds wq.mu.
func (wq *waitQueue) joinReaders(l *target) *holdLease {
	h := wq.readers
	if h == nil || !l.interchangeable(h.l) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := clock.Now()
	if !h.state.isSteady() || h.extended || h.failure() != nil || h.expired(now) || now.Sub(h.since) > maxPassing ||
		h.lease.ended != nil || wq.c.cfg.LocalHandovers < 0 || !h.l.set.unbounded() || wq.c.isClosing() {
		return nil
	}
	return h.join(h.fence)
}

// admitReaders gives the readers at the head of the queue leases of the latest readers' hold. The
// caller holds wq.mu.
func (wq *waitQueue) admitReaders() {
	for w := wq.head(); w != nil; w = wq.head() {
		lease := wq.joinReaders(w.l)
		if lease == nil {
			return
		}
		wq.pass(w, lease)
	}
}

// release drops h as the queue's hold. It does nothing if wq is nil.
func (wq *waitQueue) release(h *hold) {
	wq.lock()
	defer wq.unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	wq.releaseLocked(h)
}

// releaseLocked is release for a caller that holds wq.mu and h.mu.
func (wq *waitQueue) releaseLocked(h *hold) {
	if wq == nil || !h.kept {
		return
	}
	h.kept = false
	wq.passedLast.Store(h.passed())
	if wq.readers == h {
		wq.readers = nil
	}
	if wq.current == h { // not if a later hold has replaced h, whose loss was noticed late
		wq.current = nil
	}
	wq.unref()
}

// await waits for what the acquirer, or a holder in this process, gives w, until end if that is not zero.
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
	served := !w.queued
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
			wq.c.tasks.Run(func() { _ = r.lease.release(ctx, unaware) })
		}
		return nil, exec.EndedBy(ctx, r.err)
	}
	return nil, err
}

// noteAsked notes that the server owes an answer.
func (wq *waitQueue) noteAsked() {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	if wq.unansweredSince == 0 {
		wq.unansweredSince = clock.Mono()
	}
}

// noteFailure notes why a request failed that is being repeated.
func (wq *waitQueue) noteFailure(err error) {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	if wq.unansweredSince != 0 {
		wq.needContention().lastFailure = err
	}
}

// noteOutcome notes the outcome of a request. The caller holds wq.mu.
func (wq *waitQueue) noteOutcome(err error) {
	if err != nil && exec.Passing(exec.KindOf(err)) {
		wq.needContention().lastFailure = err
		return
	}
	wq.unansweredSince = 0
	if wq.contention != nil {
		wq.contention.lastFailure = nil
	}
}

// unheard returns the error for a waiter whose context has ended: ctx's own, or one that also says
// that the server did not answer. The caller holds wq.mu.
func (wq *waitQueue) unheard(ctx context.Context, l *target) error {
	switch {
	case wq.lastFailure() != nil:
		return exec.EndedBy(ctx, wq.lastFailure())
	case wq.unansweredSince != 0 && wq.c.server.IsSilent(wq.unansweredSince.Time()):
		return wq.c.server.Unheard(ctx, "acquire", l.name, wq.unansweredSince.Time())
	}
	return ctx.Err()
}

// newWaiter returns a waiter that is in no queue, from the client's pool if possible.
func (c *Client) newWaiter(ctx context.Context, l *target) *waiter {
	w, known := c.waiters.Get().(*waiter)
	if !known {
		w = &waiter{results: make(chan result, 1)}
	}
	w.ctx, w.l = ctx, l
	return w
}

// recycle returns a waiter that has left the queue, and has taken its result if it got one, to the pool.
func (w *waiter) recycle() {
	pool := &w.l.c.waiters
	*w = waiter{results: w.results}
	pool.Put(w)
}

// pushBack adds a waiter at the back of the queue. The caller holds wq.mu.
func (wq *waitQueue) pushBack(w *waiter) {
	line := wq.needContention()
	w.queued, w.ahead = true, line.last
	if line.last == nil {
		line.first = w
	} else {
		line.last.after = w
	}
	line.last = w
	wq.count.Add(1)
}

// pushFront adds a waiter at the front of the queue. The caller holds wq.mu.
func (wq *waitQueue) pushFront(w *waiter) {
	line := wq.needContention()
	w.queued, w.after = true, line.first
	if line.first == nil {
		line.last = w
	} else {
		line.first.ahead = w
	}
	line.first = w
	wq.count.Add(1)
}

// remove takes w out of the queue. The caller holds wq.mu.
func (wq *waitQueue) remove(w *waiter) {
	line := wq.contention
	if w.ahead == nil {
		line.first = w.after
	} else {
		w.ahead.after = w.after
	}
	if w.after == nil {
		line.last = w.ahead
	} else {
		w.after.ahead = w.ahead
	}
	w.queued, w.ahead, w.after = false, nil, nil
	wq.count.Add(-1)
	// The acquirer need not notice a new head that wants the same lease.
	if head := wq.head(); line.acquirer != nil && (head == nil || !head.l.interchangeable(w.l)) {
		line.acquirer.wake()
	}
}

// head returns the first waiter, or nil. The caller holds wq.mu.
func (wq *waitQueue) head() *waiter {
	if wq.contention == nil {
		return nil
	}
	return wq.contention.first
}

// successor returns the waiter to which a lease of h may be passed on now, or nil. The waiter must
// want just what the holder has, there must be a fence for it, and the bounds on passing on must
// not be reached. The caller holds wq.mu and h.mu.
func (wq *waitQueue) successor(h *hold, now clock.Instant) *waiter {
	// mutants: reserved-fences
	if wq == nil || !h.state.isSteady() || h.extended || !h.kept || !h.l.set.kind.isShared() && wq.current != h || !h.hasFence() && h.flying == 0 || wq.c.isClosing() {
		return nil
	}
	// mutants: passing-time
	if h.passed() >= h.mostPasses() || now.Sub(h.since) > maxPassing || !h.isPassable() {
		return nil
	}
	w := wq.head()
	if w == nil || !w.l.interchangeable(h.l) {
		return nil
	}
	return w
}

// pass gives w a lease. The caller holds wq.mu.
func (wq *waitQueue) pass(w *waiter, lease *holdLease) {
	wq.remove(w)
	w.results <- result{lease: lease, came: HandoverLocal}
}

// deliver gives a hold from the server to the first waiter. It returns false if there is no waiter,
// or if the first one wants something else.
func (wq *waitQueue) deliver(h *hold) bool {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	w := wq.head()
	if w == nil || !w.l.interchangeable(h.l) {
		return false
	}
	wq.remove(w) // first, so that keep does not count it as waiting
	came := HandoverNone
	if h.attempt.enqueued {
		came = HandoverServer
	}
	w.results <- result{lease: wq.keep(h), came: came}
	wq.admitReaders()
	return true
}

// fail gives every waiter err.
func (wq *waitQueue) fail(err error) {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	for w := wq.head(); w != nil; w = wq.head() {
		wq.remove(w)
		w.results <- result{err: err}
	}
}

// failHead gives the first waiter an error of an attempt for l, unless it wants something other
// than l: the waiter that the attempt was for may have left.
func (wq *waitQueue) failHead(l *target, err error) {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	if w := wq.head(); w != nil && w.l.interchangeable(l) {
		wq.remove(w)
		w.results <- result{err: err}
	}
}

// awaitLast ends the wait of a waiter whose time is up. Before the first in the queue leaves, the server is asked once
// more: a grant that is on its way to it is not to be wasted.
func (wq *waitQueue) awaitLast(ctx context.Context, w *waiter) (*holdLease, error) {
	wq.mu.Lock()
	var looked <-chan struct{}
	if acq := wq.acquirer(); acq != nil && wq.head() == w {
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
	if !w.queued {
		wq.mu.Unlock()
		return w.take(<-w.results)
	}
	defer wq.mu.Unlock()
	wq.withdraw(w)
	switch {
	case wq.lastFailure() != nil:
		return nil, wq.lastFailure()
	case wq.unansweredSince != 0 && ctx.Err() != nil:
		return nil, wq.c.server.Unheard(ctx, "acquire", w.l.name, wq.unansweredSince.Time())
	}
	return nil, ErrTimeUp
}

// withdraw takes a waiter that has not been served out of the queue. Guarded by the queue.
func (wq *waitQueue) withdraw(w *waiter) {
	wq.remove(w)
	if acq := wq.acquirer(); acq != nil && acq.leaving == nil && wq.waiting() == 0 {
		acq.leaving = wq.c.departing.add(w.l.keys.Queue)
	}
}

// departures counts, by the key of the server's queue, the waiters of this client that have given
// up but may still be in that queue. They are being removed in the background.
type departures struct {
	mu      sync.Mutex
	leaving map[string]*departure
}

type departure struct {
	count int
	done  chan struct{} // closed when count falls to 0
}

// add counts one waiter. The returned function ends that.
func (d *departures) add(queue string) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leaving == nil {
		d.leaving = map[string]*departure{}
	}
	dep := d.leaving[queue]
	if dep == nil {
		dep = &departure{done: make(chan struct{})}
		d.leaving[queue] = dep
	}
	dep.count++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		dep.count--
		if dep.count == 0 {
			delete(d.leaving, queue)
			close(dep.done)
		}
	}
}

// wait waits until there are none in that queue, but no longer than limit: the server may not
// answer.
func (d *departures) wait(ctx context.Context, queue string, limit time.Duration) {
	d.mu.Lock()
	dep := d.leaving[queue]
	d.mu.Unlock()
	if dep == nil {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-dep.done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// unqueuedFor returns the latest hold that was acquired past the wait queue with that key, or nil.
func (c *Client) unqueuedFor(key string) *hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unqueued.Get(key)
}
