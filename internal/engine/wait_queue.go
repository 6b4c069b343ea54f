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
	"github.com/holdfast-go/holdfast/internal/lock"
	"github.com/holdfast-go/holdfast/internal/notify"
)

// waitQueue is where goroutines of this process wait for one lock, first come, first served. The server sees only one of them: a caller
// that finds the queue empty asks for itself, and an acquirer asks for those that have to wait.
type waitQueue struct {
	l    *Target      // the lock, as the queue's first caller wanted it
	refs atomic.Int32 // becomes 1 or 0 only under l.c.mu

	waiting    atomic.Int32 // how many goroutines wait
	passedLast atomic.Int32 // how often the latest hold to end was passed on

	asking          bool // a caller that found the queue empty is asking the server; guarded by mu, like all that follows
	mu              sync.Mutex
	unansweredSince clock.Reading // when the server began to owe this queue an answer; zero if it owes none
	current         *hold         // this process's latest hold; for locks with one holder
	readers         *hold         // the readers' latest hold

	// What a queue needs once somebody waits in it.
	first       *waiter   // nil if nobody waits
	acquirer    *acquirer // nil if none is running
	lastFailure error     // error of the latest request to fail since unansweredSince; nil if none did
	follower    *follower // to be queued when current is released; or nil
}

// queue returns the lock's wait queue with a new reference, which the caller must use up.
func (l *Target) queue() *waitQueue {
	c, key := l.c, l.queueKey()
	c.mu.Lock()
	defer c.mu.Unlock()
	wq := c.queues.Get(key)
	if wq == nil {
		wq = &waitQueue{l: l}
		c.queues.Set(key, wq)
	}
	wq.refs.Add(1)
	return wq
}

func (wq *waitQueue) unref() {
	wq.l.c.mu.Lock()
	defer wq.l.c.mu.Unlock()
	if wq.refs.Add(-1) == 0 {
		wq.l.c.queues.Delete(wq.l.queueKey())
	}
}

// acquire waits until it has the lock, ctx ends or, unless end is zero, end comes. It uses up one reference to the queue.
func (wq *waitQueue) acquire(ctx context.Context, l *Target, end time.Time) (*holdLease, error) {
	defer wq.unref()
	wq.mu.Lock()
	if wq.readers != nil && wq.waiting.Load() == 0 {
		if lease := wq.joinReaders(l); lease != nil {
			wq.mu.Unlock()
			return lease, nil
		}
	}
	if wq.asking || wq.acquirer != nil || wq.current != nil || wq.waiting.Load() > 0 {
		w, holder := wq.enter(ctx, l)
		wq.mu.Unlock()
		wq.l.c.observing(ctx).wait(0, holder)
		return wq.await(ctx, w, end)
	}
	wq.asking, wq.unansweredSince = true, clock.Mono()
	wq.mu.Unlock()
	lease, w, err := wq.askFirst(ctx, l)
	if w == nil {
		return lease, err
	}
	return wq.await(ctx, w, end)
}

// enter puts a waiter at the back of the queue. It also returns the lock's holder if this process is known to be that. The caller holds
// wq.mu.
func (wq *waitQueue) enter(ctx context.Context, l *Target) (*waiter, *lock.Holder) {
	w := wq.l.c.newWaiter(ctx, l)
	wq.insert(w, false)
	if !wq.asking {
		wq.startAcquirer(nil, false)
		if l.Set.Kind.ByOwner {
			wq.acquirer.lookOnceMore()
		}
	}
	return w, wq.holderHere(l)
}

// askFirst asks the server for the lock. If the lock is held, askFirst puts a waiter at the front of the queue and returns it.
func (wq *waitQueue) askFirst(ctx context.Context, l *Target) (*holdLease, *waiter, error) {
	c := wq.l.c
	h, began, err := l.takeFree(ctx)
	if h == nil && err == nil {
		a := l.newAttempt()
		mode := codec.Try
		by, up := c.listening(l)
		if up {
			a.listen(by.Channel())
			a.onFailure = wq.noteFailure
			mode = codec.Wait
		}
		var reply *codec.Reply
		h, reply, err = a.ask(ctx, began, mode, 1+wq.fences(l))
		switch {
		case err != nil:
			a.Abandon()
		case h != nil:
			c.contended.remove(l.Keys.Lock)
		default:
			w := wq.waitFirst(ctx, a, by, reply)
			if o := c.observing(ctx); o != nil {
				var holder *lock.Holder
				if reply.Word == codec.Held {
					named := l.HolderOf(reply.Holder)
					holder = &named
				}
				o.wait(reply.Rank()-1, holder)
			}
			return nil, w, nil
		}
	}
	wq.mu.Lock()
	defer wq.mu.Unlock()
	wq.asking = false
	wq.noteOutcome(err)
	if wq.waiting.Load() > 0 {
		wq.startAcquirer(nil, err == nil)
	}
	if err != nil {
		return nil, nil, err
	}
	lease := wq.keep(h)
	if l.Set.Kind.Joinable {
		wq.admitReaders()
	}
	return lease, nil, nil
}

// waitFirst puts a waiter at the front of the queue, for an acquire that askFirst began. The reply says why it has to wait.
func (wq *waitQueue) waitFirst(ctx context.Context, a *attempt, by notify.Confirmation, reply *codec.Reply) *waiter {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	wq.asking = false
	wq.noteOutcome(nil)
	w := wq.l.c.newWaiter(ctx, a.l)
	wq.insert(w, true)
	if reply.Word == codec.Quarantined {
		wq.l.c.noteQuarantine(reply.Refusal.Quarantine)
	}
	if reply.Word != codec.Queued {
		a.Abandon()
		wq.startAcquirer(nil, true)
		return w
	}
	wq.startAcquirer(a, true)
	wq.acquirer.standing = &standing{a, *reply.Place, by}
	return w
}

// noteAsked notes that the server owes an answer.
func (wq *waitQueue) noteAsked() {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	if wq.unansweredSince == 0 {
		wq.unansweredSince = clock.Mono()
	}
}

// noteFailure notes the error of a request that is being repeated.
func (wq *waitQueue) noteFailure(err error) {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	if wq.unansweredSince != 0 {
		wq.lastFailure = err
	}
}

// noteOutcome notes the outcome of a request. The caller holds wq.mu.
func (wq *waitQueue) noteOutcome(err error) {
	if err != nil && exec.Passing(exec.KindOf(err)) {
		wq.lastFailure = err
		return
	}
	wq.unansweredSince, wq.lastFailure = 0, nil
}

// fences returns the most waiters that one hold could serve in turn.
func (wq *waitQueue) fences(l *Target) int {
	if !l.Set.Passable() {
		return 0
	}
	return max(min(int(wq.waiting.Load()), wq.l.c.Config.LocalHandovers), 0)
}

// aloneFactor is how many times as often a lock may be passed on while no other process waits for it.
const aloneFactor = 16

// fencesIfAlone is fences for a lock that no other process waits for. Fences that are reserved but not used take the counter ahead of the
// server's clock. So the result is at most twice what the last hold used, unless more goroutines wait.
func (wq *waitQueue) fencesIfAlone(l *Target) int {
	return min(max(wq.fences(l), 2*int(wq.passedLast.Load())), aloneFactor*wq.l.c.Config.LocalHandovers)
}

// holderHere returns the lock's holder, for observers, if the queue has a live hold; otherwise nil. The caller holds wq.mu.
func (wq *waitQueue) holderHere(l *Target) *lock.Holder {
	if l.c.Config.Observer == nil || !wq.current.isLive() {
		return nil
	}
	h := wq.current
	return &lock.Holder{
		Name: l.Name(), Form: l.Set.Kind.Form, Owner: h.l.Set.Owner, Host: l.c.Host, PID: os.Getpid(),
		Grant: h.grant().id, Fence: h.first.fence, Since: time.UnixMicro(h.at), TTL: h.remaining(),
	}
}

// keep makes h the queue's hold and returns its first lease. The caller holds wq.mu.
func (wq *waitQueue) keep(h *hold) *holdLease {
	h.queue, h.kept = wq, true
	if !h.l.Set.Kind.IsShared {
		if wq.current != nil {
			wq.current.replacedBy(h)
		}
		wq.current = h
	}
	wq.readers = nil // a writer may have held the lock since then: nobody may join the earlier readers
	if h.l.Set.Kind.Joinable {
		wq.readers = h
	}
	wq.refs.Add(1)
	return h.firstLease()
}

// joinReaders returns a lease that shares the hold of other readers of this process, for a caller that nobody waits ahead of. It returns
// nil if that hold is not recent. The caller holds wq.mu.
func (wq *waitQueue) joinReaders(l *Target) *holdLease {
	h := wq.readers
	if !l.interchangeable(h.l) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := clock.Now()
	if h.state != held || h.extended || h.failure != nil || h.expired(now) || now.Sub(h.since()) > maxPassing ||
		h.lease.over || wq.l.c.Config.LocalHandovers < 0 || !h.l.Set.Unbounded() || wq.l.c.IsClosing() {
		return nil
	}
	return h.join(h.first.fence)
}

// admitReaders gives the readers at the front of the queue leases of the readers' latest hold. The caller holds wq.mu.
func (wq *waitQueue) admitReaders() {
	for w := wq.first; w != nil; w = wq.first {
		lease := wq.joinReaders(w.l)
		if lease == nil {
			return
		}
		wq.pass(w, lease)
	}
}

// release drops h as the queue's hold.
func (wq *waitQueue) release(h *hold) {
	wq.mu.Lock()
	defer wq.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	wq.releaseLocked(h)
}

// releaseLocked is release for a caller that holds wq.mu and h.mu.
func (wq *waitQueue) releaseLocked(h *hold) {
	if !h.kept {
		return
	}
	h.kept = false
	wq.passedLast.Store(h.passed)
	if wq.readers == h {
		wq.readers = nil
	}
	if wq.current == h { // false if h was lost, which was noticed only after a later hold had replaced it
		wq.current = nil
	}
	wq.unref()
}
