package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/codec"
	"github.com/holdfast-go/holdfast/internal/exec"
)

// maxPassing bounds for how long after its grant a lock is passed on within one
// process, while others may be waiting for it. A process that stalls for less keeps its
// turn: goroutines that miss it wait for another round.
const maxPassing = 100 * time.Millisecond

// patience is how long, besides four round trips, a release waits for a renewal under
// way, so that the lease can be passed on after it.
const patience = 50 * time.Millisecond

// Lease is a lock that is held. Its methods may be called by many goroutines.
type holdLease struct {
	g      *hold
	fence  uint64
	origin context.Context // under which it was acquired

	// Guarded by g.mu.
	ended     error    // nil while it is held
	scope     *scope   // of Context; nil until somebody asks for it
	trouble   *trouble // with the release; nil while there is none
	depth     int32    // leases of this lock under whose context it was acquired
	released  bool     // nothing is left to release
	releasing bool     // the release is under way
}

// scope is a context that ends with a lease.
type scope struct {
	ctx    context.Context // nil until somebody asks for it
	cancel context.CancelCauseFunc
	calls  calls
}

// trouble is what a release has to remember that is called twice, or fails.
type trouble struct {
	answered chan struct{} // closed when the one under way is answered; nil if nobody waits for it
	unsure   bool          // one that was not answered may have been carried out
	failed   error         // of the latest one that was not answered at all
	missed   error         // when the server knew the lease no more
}

// troubled is the lease's trouble, to write to.
func (l *holdLease) troubled() *trouble {
	if l.trouble == nil {
		l.trouble = &trouble{}
	}
	return l.trouble
}

// Name returns the lock's name; of Multi, all names, with commas between them.
func (l *holdLease) Name() string { return l.lock().name }

// Owner returns the owner's name, as set by Owner or Config.Owner.
func (l *holdLease) Owner() string { return l.lock().set.owner }

// lock is what the lease is of.
func (l *holdLease) lock() *target {
	return l.g.l
}

// Token returns the fence: a number above those of all earlier leases of this lock; readers
// that hold it at the same time have the same (see RWMutex), and so have an owner's leases
// (see Reentrant).
// A resource that refuses writes with a lower one than it has seen is safe from
// holders that are late. It survives the loss of the server's data, unless the
// server's clock went back too.
//
// Of Multi it is the highest of Tokens, and rises from lease to lease of the same names; it does not
// compare with that of a lease of one of them. Give a resource that of the lock which guards it.
func (l *holdLease) Token() uint64 {
	return l.fence
}

// Tokens returns the fence of each lock of the lease, by its name: of one, or, with Multi, of
// several. A resource that one of the locks guards is to be given that one's.
func (l *holdLease) Tokens() map[string]uint64 {
	return map[string]uint64{l.Name(): l.fence}
}

// IsShared reports whether others may hold the lock with the same Token: whether the lease is a
// reader's, of an RWMutex. An owner's leases (see Reentrant) have the same, too, but one owner.
func (l *holdLease) IsShared() bool { return l.lock().set.kind.joinable }

// Deadline returns the local time until which the lease is certainly held unless it
// is renewed or released: when it was last asked for, plus its TTL, less 1% and 2 ms
// for drift. It has a monotonic reading. A lock that was handed over begins with a
// claim of 1.5 s or so, which the first renewal, sent after 5 ms, makes a TTL; Extend waits
// for that.
func (l *holdLease) Deadline() time.Time {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	return l.g.deadline(clock.Now()).Time()
}

// Err returns nil while the lease is held; then ErrReleased, ErrClosed, or a
// *LostError, which matches ErrLost. It compares clocks itself, so it tells the truth
// also to a process that was paused past the deadline; on Linux, to a machine that was
// suspended, too. It sends nothing.
func (l *holdLease) Err() error {
	return l.errAt(clock.Now())
}

// errAt is Err of a lease that is not made of others, by clocks that were just read.
func (l *holdLease) errAt(now clock.Instant) error {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.checkAt(now)
	return l.ended
}

// look ends the lease if its time is up.
func (l *holdLease) check() { l.checkAt(clock.Now()) }

func (l *holdLease) checkAt(now clock.Instant) {
	// mutants: deadline-by-clock
	if l.ended == nil && l.g.expired(now) {
		l.g.lose(l.g.expiry())
	}
}

// Context returns a context that ends when the lease does, with Err's error as its
// cause: at the deadline at the latest, and before that when the server says that
// the lock is lost. It has the values of the context with which the lock was acquired,
// but does not end with it.
func (l *holdLease) Context() context.Context {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	if l.scope == nil {
		l.scope = &scope{}
	}
	if l.scope.ctx == nil {
		l.scope.ctx, l.scope.cancel = context.WithCancelCause(l.Within(context.WithoutCancel(l.origin)))
		l.check()
		if l.ended != nil {
			l.scope.cancel(l.ended)
		}
	}
	return l.scope.ctx
}

// whenEnded has f called when the lease ends, or now if it has. It is for leases that others are made
// of, which have no context of their own. f does not block.
func (l *holdLease) whenEnded(f func()) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	if l.ended != nil {
		f()
		return
	}
	l.scope = &scope{cancel: func(error) { f() }}
}

// finish ends the lease, once.
func (l *holdLease) end(err error) {
	if l.ended != nil {
		return
	}
	l.ended = err
	if l.scope == nil {
		return
	}
	if l.scope.cancel != nil {
		l.scope.cancel(err)
	}
	l.scope.calls.make(err)
}

// checkExtension refuses a TTL that no lease can have.
func (c *Client) checkExtension(name string, ttl time.Duration) error {
	if most := c.cfg.MaxTTL; ttl < time.Millisecond || ttl > most {
		return fmt.Errorf("%w: lock %q: Extend by %s; from 1ms to %s is allowed", ErrInvalid, name, ttl, most)
	}
	return nil
}

// Extend makes the lease last at least ttl from now, without shortening it, and no
// longer than MaxHold allows. Renewals go on as before. After ErrLost the lease is
// over; after another error it lasts as long as before, or longer.
func (l *holdLease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := l.g.l.c.checkExtension(l.Name(), ttl); err != nil {
		return err
	}
	h := l.g
	if err := l.Err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	h.mu.Lock()
	if l.ended != nil {
		defer h.mu.Unlock()
		return l.ended
	}
	ttl, final := h.renewTTL(ttl)
	// From now on, whatever the answer is: nobody else is to be passed a lock that the server may keep for so long.
	// mutants: extension-asked
	h.extended = h.extended || ttl > h.l.set.ttl
	h.mu.Unlock()
	rq := request{op: "renew", lock: h.l, durable: true}
	a, _, err := ask(ctx, h.l.c, rq, h.renewal(ttl, 0))
	if again := h.reassertion(a, err, ttl); again != nil {
		a, _, err = ask(ctx, h.l.c, rq, again)
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.ended != nil || h.state == over {
		return l.ended
	}
	if h.state == changing {
		return fmt.Errorf("%w: lock %q: Extend while the lease is being changed", ErrInvalid, l.Name())
	}
	lost, err := h.apply(a, final, false)
	if lost != nil {
		h.lose(lost)
		return lost
	}
	var q *exec.Quarantine
	if errors.As(err, &q) {
		return h.l.c.quarantineError("renew", l.Name(), q.Left)
	}
	h.plan()
	l.check()
	return l.ended
}

// Release gives the lock up: to the next in the queue, if there is one. It works with
// a context that has ended, for as long as RetryTimeout; the deadline of one that has not
// ended bounds how long the call waits. Released again, it returns
// nil; a call while another is under way has that one's outcome. It returns a *LostError, which matches ErrLost, when the lease was no longer the
// caller's; another error when the server could not be asked: the release is then
// tried on in the background, and may be repeated.
//
// The lease is over from the moment of the call, whatever it returns. Where others have
// the lock with it, readers of this process or those who acquired it again (Reentrant), it
// stays held until the last of them releases it.
func (l *holdLease) Release(ctx context.Context) error {
	return l.release(ctx, hasLeft)
}

// release is Release of a lease that is not made of others.
func (l *holdLease) release(ctx context.Context, how ending) error {
	c := l.g.l.c
	end, bounded := ctx.Deadline()
	if !bounded || ctx.Err() != nil {
		return l.releaseWithin(context.WithoutCancel(ctx), how)
	}
	// It goes on, when the time is up, until the server has answered.
	began := time.Now()
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
	over := make(chan error, 1)
	c.tasks.Run(func() {
		defer cancel()
		over <- l.releaseWithin(ctx, how)
	})
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
		select {
		case err := <-over: // whose end ended ctx
			return err
		default:
			return c.server.Unheard(ctx, "release", l.Name(), began)
		}
	}
}

// releaseWithin is release that takes as long as it takes.
func (l *holdLease) releaseWithin(ctx context.Context, how ending) error {
	h := l.g
	c := h.l.c
	for patient := true; ; {
		first, done, err := l.giveUp(patient, how)
		if done {
			return err
		}
		if first.landed == nil && first.released == nil {
			break
		}
		if first.released != nil {
			<-first.released
			if err := l.releaseFailed(); err != nil {
				return err
			}
			continue
		}
		select {
		case <-first.landed:
		case <-time.After(4*c.server.RTT.Mean() + patience):
			patient = false
		}
	}
	tombstone := h.from.unanswered
	if h.from.ending == hasCountedDown {
		tombstone = max(tombstone, c.notAfter(h.l)) // by which a copy is known
	}
	reply, unanswered, err := h.from.giveBack(ctx, h.fence, tombstone)
	return l.gaveBack(reply, unanswered, err)
}

// releaseFailed is why the release that another call had under way failed; nil if it did not.
func (l *holdLease) releaseFailed() error {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	if l.released || l.releasing {
		return nil
	}
	return l.trouble.failed
}

// releaseThen is Release that returns at once, and calls done, in any goroutine, when it would have
// returned: of a lock that nobody is known to wait for, in none of its own.
func (l *holdLease) releaseThen(ctx context.Context, done func(error)) {
	h := l.g
	c := h.l.c
	first, finished, err := l.giveUp(true, hasLeft)
	switch {
	case finished:
		done(err)
		return
	case first != (prior{}) || h.from.unanswered != 0 || !h.from.freeable():
		c.tasks.Run(func() {
			if first != (prior{}) {
				done(l.releaseWithin(ctx, hasLeft))
				return
			}
			done(l.gaveBack(h.from.giveBack(ctx, h.fence, h.from.unanswered)))
		})
		return
	}
	began := time.Now()
	h.from.freeThen(h.fence, func(freed, unanswered bool) {
		if freed {
			done(l.gaveBack(released, false, nil))
			return
		}
		c.tasks.Run(func() {
			reply, again, err := c.releaseSince(began, context.WithoutCancel(ctx), h.l, h.from.token(), h.from.member, 0, h.from.ending)
			done(l.gaveBack(reply, unanswered || again, err))
		})
	})
}

// gaveBack takes over what became of the release.
func (l *holdLease) gaveBack(reply codec.ReleaseReply, unanswered bool, err error) error {
	h := l.g
	if err != nil {
		h.from.abandon()
	} else {
		h.from.forget()
	}
	h.uncount()

	h.mu.Lock()
	defer h.mu.Unlock()
	l.releasing = false
	if l.trouble != nil && l.trouble.answered != nil {
		close(l.trouble.answered)
		l.trouble.answered = nil
	}
	if unanswered || err != nil {
		l.troubled().unsure = true
		l.trouble.failed = err
	}
	if err != nil {
		return err
	}
	l.released = true
	switch {
	case reply.Word != codec.Gone:
		return nil
	case l.troubled().unsure:
		l.trouble.missed = &exec.Failure{Op: "release", Name: l.Name(), Server: h.l.c.server.Addr(), Ambiguous: true, Kind: exec.ErrUnavailable,
			Err: errors.New("an earlier try was not answered; the lock is no longer this lease's, which that try may have brought about")}
	default:
		l.trouble.missed = &LostError{Name: l.Name(), Reason: LossTaken}
	}
	return l.trouble.missed
}

// prior is what must happen before a lease can be given up: nothing, or one of these is closed.
type prior struct {
	landed   <-chan struct{} // no renewal is under way
	released <-chan struct{} // another call has released the lease, or failed
}

// giveUp passes the lease on within the process if it may, which is all then; or ends
// it, so that its release can be sent. first is what must happen before either; if
// not patient, only what must.
func (l *holdLease) giveUp(patient bool, how ending) (first prior, done bool, err error) {
	h := l.g
	h.queue.lock()
	defer h.queue.unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	now := clock.Awake() // whether it was lost in a suspension, the server will say
	if h.queue != nil && h.queue.waiting() > 0 {
		now = clock.Now()
	}
	// mutants: look-at-release
	l.checkAt(now)
	// mutants: lost-at-release
	if lost, ok := l.ended.(*LostError); ok && h.state == over {
		return prior{}, true, lost
	}
	switch {
	case l.released && how != hasCountedDown:
		return prior{}, true, nil
	case l.released && h.from.ending != hasCountedDown:
		return prior{}, true, ErrReleased
	case l.released && l.trouble != nil:
		return prior{}, true, l.trouble.missed
	case l.released:
		return prior{}, true, nil
	}
	if l.releasing {
		if l.troubled().answered == nil {
			l.trouble.answered = make(chan struct{})
		}
		return prior{released: l.trouble.answered}, false, nil
	}
	if h.state != over && h.removeLease(l) { // also when the client closes
		l.end(ErrReleased)
		l.released = true
		h.retireIfIdle()
		return prior{}, true, nil
	}
	// mutants: pass-on
	if l.ended == nil {
		next := h.queue.successor(h, now)
		if next != nil && h.flying > 0 && patient {
			// The goroutine that is passed the lease must not meet an answer that
			// was on its way to this one.
			if h.landed == nil {
				h.landed = make(chan struct{})
			}
			return prior{landed: h.landed}, false, nil
		}
		if next != nil && h.flying == 0 {
			l.end(ErrReleased)
			l.released = true
			h.passed++
			h.queue.pass(next, h.newLease(next.ctx))
			return prior{}, true, nil
		}
	}
	l.end(ErrReleased)
	l.releasing = true
	if h.from.ending == unaware {
		h.from.ending = how
	}
	h.stop()
	h.queue.releaseLocked(h)
	return prior{}, false, nil
}

// calls are functions that are called when a lease ends.
type calls struct {
	last int
	all  map[int]func(error)
}

// add adds a function, and returns its number.
func (c *calls) add(f func(error)) int {
	if c.all == nil {
		c.all = map[int]func(error){}
	}
	c.last++
	c.all[c.last] = f
	return c.last
}

// make calls all of them.
func (c *calls) make(err error) {
	for _, f := range c.all {
		f(err)
	}
	c.all = nil
}

// WhenOver implements Lease.
func (l *holdLease) WhenOver(f func(error)) (forget func()) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.check()
	if l.ended != nil {
		f(l.ended)
		return func() {}
	}
	if l.scope == nil {
		l.scope = &scope{}
	}
	number := l.scope.calls.add(f)
	return func() {
		l.g.mu.Lock()
		defer l.g.mu.Unlock()
		delete(l.scope.calls.all, number)
	}
}

// FenceOf implements Lease.
func (l *holdLease) FenceOf(string) uint64 { return l.fence }

// String names the lease's lock and its fence.
func (l *holdLease) String() string {
	return fmt.Sprintf("holdfast.Lease(%q, fence %d)", l.Name(), l.Token())
}
