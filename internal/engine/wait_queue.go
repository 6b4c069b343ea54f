package engine

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// line is where goroutines of this process that want one lock wait, in the order in
// which they came. Only the first is the server's business: whoever finds the line
// empty asks for itself, and a campaign asks for the others.
type waitQueue struct {
	c    *Client
	key  string
	refs int32 // guarded by c.mu

	n          atomic.Int32 // of waiters
	passedLast atomic.Int32 // how often the latest grant was passed on

	asking          bool // somebody who found the line empty is asking the server; guarded by mu, like the rest
	mu              sync.Mutex
	waiters         *list.List // of *waiter; nil until one comes
	acquirer        *acquirer  // nil while none runs
	unansweredSince time.Time  // since when the server has not answered what it was asked for this line; zero: it has
	lastFailure     error      // by what it was asked since, or nil
	held            *hold      // that this process has through this line, of a lock that one may hold
	readers         *hold      // the latest that readers have
}

// waiter is a goroutine in a line.
type waiter struct {
	ctx     context.Context
	l       *Lock
	place   *list.Element // nil once it left the line
	results chan result
}

type result struct {
	lease *Lease
	err   error
}

// lineOf returns the line of a lock, by its queue's key, held by a reference.
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

// lock and unlock guard the line; a grant without one has none to guard.
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

// isHeld reports whether the line has a grant that is not over.
func (wq *waitQueue) isHeld() bool {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	return wq.held.isLive()
}

// waiting is how many goroutines wait.
func (wq *waitQueue) waiting() int { return int(wq.n.Load()) }

// acquire waits until the lock is had or ctx ends. It uses up one reference.
func (wq *waitQueue) acquire(ctx context.Context, l *Lock) (*Lease, error) {
	defer wq.unref()
	wq.mu.Lock()
	if wq.waiting() == 0 {
		if lease := wq.joinReaders(ctx, l); lease != nil {
			wq.mu.Unlock()
			return lease, nil
		}
	}
	var w *waiter
	if !wq.asking && wq.acquirer == nil && wq.held == nil && wq.waiting() == 0 {
		wq.asking, wq.unansweredSince = true, time.Now()
		wq.mu.Unlock()
		var lease *Lease
		var err error
		if lease, w, err = wq.askFirst(ctx, l); w == nil {
			return lease, err
		}
	} else {
		w = wq.join(ctx, l, (*list.List).PushBack)
		if !wq.asking {
			wq.startAcquirer(nil, false)
			wq.acquirer.join(l)
		}
		wq.mu.Unlock()
	}
	return wq.await(ctx, w)
}

// askFirst asks the server for the lock. When that is held it returns a waiter, which it has put at
// the head of the line.
func (wq *waitQueue) askFirst(ctx context.Context, l *Lock) (*Lease, *waiter, error) {
	c := wq.c
	a := l.newAttempt()
	mode := modeTry
	by, up := c.listening(l)
	if up {
		a.listen(by.Channel())
		a.met = wq.noteFailure
		mode = modeWait
	}
	got, err := a.begin(ctx, mode, 1+wq.fences(l))

	wq.mu.Lock()
	defer wq.mu.Unlock()
	wq.asking = false
	wq.noteOutcome(err)
	h, granted := got.(*hold)
	if err != nil || granted {
		if wq.waiting() > 0 {
			wq.startAcquirer(nil, err == nil)
		}
		if err != nil {
			a.abandon()
			return nil, nil, err
		}
		lease := wq.keep(h, ctx)
		wq.admitReaders()
		return lease, nil, nil
	}
	w := wq.join(ctx, l, (*list.List).PushFront)
	q, waits := got.(queued)
	if !waits {
		a.abandon()
		wq.startAcquirer(nil, true)
		return nil, w, nil
	}
	wq.startAcquirer(a, true)
	wq.acquirer.standing = &standing{a, q, by}
	return nil, w, nil
}

// fences is how many leases those who wait in line may make of one grant.
func (wq *waitQueue) fences(l *Lock) int {
	if !l.set.passable() {
		return 0
	}
	return max(min(wq.waiting(), wq.c.cfg.LocalHandovers), 0)
}

// unrivalled is by how much more often a lock is passed on while no other process waits for it.
const aloneFactor = 16

// fencesAlone is fences while no other process waits. Those that are reserved in vain take the counter
// ahead of the clock, so they are no more than twice what was of use the last time.
func (wq *waitQueue) fencesAlone(l *Lock) int {
	return min(max(wq.fences(l), 2*int(wq.passedLast.Load())), aloneFactor*wq.c.cfg.LocalHandovers)
}

// keep makes g the line's grant and returns its first lease.
func (wq *waitQueue) keep(h *hold, ctx context.Context) *Lease {
	h.queue, h.kept = wq, true
	if !h.l.set.kind.isShared() {
		wq.held.replacedBy(h)
		wq.c.unqueuedFor(wq.key).replacedBy(h)
		wq.held = h
	}
	wq.readers = nil // if a writer came between, nobody else is to read with what was before
	if h.l.set.kind.joinable {
		wq.readers = h
	}
	wq.ref()
	return h.begin(ctx)
}

// joinReaders returns a lease of a grant that other readers of this process have, for whoever
// is first in line, if the grant is recent; else nil.
func (wq *waitQueue) joinReaders(ctx context.Context, l *Lock) *Lease {
	h := wq.readers
	if h == nil || !l.interchangeable(h.l) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := clock.Now()
	if !h.state.isSteady() || h.extended || h.failure != nil || h.expired(now) || now.Sub(h.since) > maxPassing ||
		h.lease.ended != nil || wq.c.cfg.LocalHandovers < 0 || !h.l.set.unbounded() || wq.c.isClosing() {
		return nil
	}
	return h.join(ctx, h.fence)
}

// letReadersIn serves the readers at the head of the line with the latest grant.
func (wq *waitQueue) admitReaders() {
	for w := wq.head(); w != nil; w = wq.head() {
		lease := wq.joinReaders(w.ctx, w.l)
		if lease == nil {
			return
		}
		wq.pass(w, lease)
	}
}

// let ends the line's grant.
func (wq *waitQueue) release(h *hold) {
	wq.lock()
	defer wq.unlock()
	wq.releaseLocked(h)
}

func (wq *waitQueue) releaseLocked(h *hold) {
	if wq == nil || !h.kept {
		return
	}
	h.kept = false
	wq.passedLast.Store(h.passed)
	if wq.readers == h {
		wq.readers = nil
	}
	if wq.held == h { // or of a later grant, if g was lost before we knew
		wq.held = nil
	}
	wq.unref()
}

// await waits for what the campaign, or a holder in this process, brings w.
func (wq *waitQueue) await(ctx context.Context, w *waiter) (*Lease, error) {
	select {
	case r := <-w.results:
		return r.lease, r.err
	case <-ctx.Done():
	}
	wq.mu.Lock()
	served := w.place == nil
	err := wq.unheard(ctx, w.l)
	if !served {
		wq.remove(w)
		if acq := wq.acquirer; acq != nil && acq.leaving == nil && wq.waiting() == 0 {
			acq.leaving = wq.c.departing.begin(w.l.keys.Queue)
		}
	}
	wq.mu.Unlock()
	if served {
		r := <-w.results
		if r.lease != nil {
			// It goes to the next in line, or back to the server.
			// mutants: crossed-local-grant
			wq.c.tasks.Run(func() { _ = r.lease.release(ctx, unaware) })
		}
		return nil, exec.EndedBy(ctx, r.err)
	}
	return nil, err
}

// ask notes that the server is asked.
func (wq *waitQueue) noteAsked() {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	if wq.unansweredSince.IsZero() {
		wq.unansweredSince = time.Now()
	}
}

// meets notes what a request met that is sent again.
func (wq *waitQueue) noteFailure(err error) {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	if !wq.unansweredSince.IsZero() {
		wq.lastFailure = err
	}
}

// hear notes what became of what was asked. Guarded by the line.
func (wq *waitQueue) noteOutcome(err error) {
	if exec.Passing(exec.KindOf(err)) {
		wq.lastFailure = err
		return
	}
	wq.unansweredSince, wq.lastFailure = time.Time{}, nil
}

// unheard returns the error of a waiter whose context has ended. Guarded by the line.
func (wq *waitQueue) unheard(ctx context.Context, l *Lock) error {
	switch {
	case wq.lastFailure != nil:
		return exec.EndedBy(ctx, wq.lastFailure)
	case !wq.unansweredSince.IsZero() && wq.c.server.IsSilent(wq.unansweredSince):
		return wq.c.server.Unheard(ctx, "acquire", l.name, wq.unansweredSince)
	}
	return ctx.Err()
}

// join puts a waiter into the line, at its front or back.
func (wq *waitQueue) join(ctx context.Context, l *Lock, push func(*list.List, any) *list.Element) *waiter {
	if wq.waiters == nil {
		wq.waiters = list.New()
	}
	w := &waiter{ctx: ctx, l: l, results: make(chan result, 1)}
	w.place = push(wq.waiters, w)
	wq.n.Add(1)
	return w
}

// remove takes w out of the line.
func (wq *waitQueue) remove(w *waiter) {
	wq.waiters.Remove(w.place)
	w.place = nil
	wq.n.Add(-1)
	// The campaign has to see another head only if it wants something else.
	if head := wq.head(); wq.acquirer != nil && (head == nil || !head.l.interchangeable(w.l)) {
		wq.acquirer.wake()
	}
}

// head returns the first waiter, or nil.
func (wq *waitQueue) head() *waiter {
	if wq.waiting() == 0 {
		return nil
	}
	return wq.waiters.Front().Value.(*waiter)
}

// successor returns the waiter to whom a lease of g may be passed on now: one that
// wants just what the holder has, within the bounds, with a fence left. Guarded by
// the line and by g.
func (wq *waitQueue) successor(h *hold, now clock.Instant) *waiter {
	// mutants: reserved-fences
	if wq == nil || !h.state.isSteady() || h.extended || !h.kept || !h.l.set.kind.isShared() && wq.held != h || h.next >= h.end && h.flying == 0 || wq.c.isClosing() {
		return nil
	}
	// mutants: passing-time
	if h.passed >= h.mostPasses || now.Sub(h.since) > maxPassing || !h.l.set.passable() {
		return nil
	}
	w := wq.head()
	if w == nil || !w.l.interchangeable(h.l) {
		return nil
	}
	return w
}

// pass gives w a lease.
func (wq *waitQueue) pass(w *waiter, lease *Lease) {
	wq.remove(w)
	w.results <- result{lease: lease}
}

// deliver gives a grant from the server to the head of the line; false if nobody is
// there who wants just this.
func (wq *waitQueue) deliver(h *hold) bool {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	w := wq.head()
	if w == nil || !w.l.interchangeable(h.l) {
		return false
	}
	wq.remove(w) // before the grant counts who waits still
	w.results <- result{lease: wq.keep(h, w.ctx)}
	wq.admitReaders()
	return true
}

// fail gives every waiter an error.
func (wq *waitQueue) fail(err error) {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	for w := wq.head(); w != nil; w = wq.head() {
		wq.remove(w)
		w.results <- result{err: err}
	}
}

// failHead gives the first waiter an error that an attempt for l met, unless it wants
// another lease than l: whoever the attempt was for may have left.
func (wq *waitQueue) failHead(l *Lock, err error) {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	if w := wq.head(); w != nil && w.l.interchangeable(l) {
		wq.remove(w)
		w.results <- result{err: err}
	}
}
